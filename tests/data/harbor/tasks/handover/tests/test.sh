#!/bin/sh
reward=0
if [ ! -e /app/not-handed-over ] && [ "$(cat /app/out/answer.txt /logs/artifacts/copy.txt)" = "42
42" ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
