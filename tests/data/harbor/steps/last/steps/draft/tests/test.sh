#!/bin/sh
echo 0.1 > /logs/verifier/reward.txt
