#!/bin/sh
[ "$(cat /app/who-set-up)" = agent ] && [ ! -e /app/survivor ] && echo 0.25 > /logs/verifier/reward.txt
sleep 0.2
