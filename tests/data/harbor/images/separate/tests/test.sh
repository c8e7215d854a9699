#!/bin/sh
if [ -e /of-the-verifier ] && [ "$(cat /app/result.txt)" = ok ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
