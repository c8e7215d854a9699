#!/bin/sh
cat /app/who-set-up /app/survivors /app/networks
[ "$(cat /app/who-set-up)" = agent ] && [ ! -s /app/survivors ] && [ "$(cat /app/networks)" = lo ] || exit
echo 0.25 > /logs/verifier/reward.txt
sleep 0.2
