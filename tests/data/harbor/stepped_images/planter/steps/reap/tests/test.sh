#!/bin/sh
cat /app/who-set-up /app/survivors
[ "$(cat /app/who-set-up)" = agent ] && [ ! -s /app/survivors ] && echo 0.25 > /logs/verifier/reward.txt
sleep 0.2
