#!/bin/sh
wget -q -O /tmp/word.txt http://api:8080/word.txt
if cmp -s /tmp/word.txt /app/answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
