#!/bin/sh
expected=$(wget -q -O - http://db:8080/ledger.txt | cut -d ' ' -f 2)
if [ -n "$expected" ] && [ "$(cat /app/balance.txt)" = "$expected" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
