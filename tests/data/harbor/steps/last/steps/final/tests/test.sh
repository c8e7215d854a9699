#!/bin/sh
# Judged in an environment of its own: the work directory of the agent is not here.
if [ ! -e text.txt ] && [ "$(cat /logs/artifacts/text.txt)" = draft ]; then
    echo 0.75 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
