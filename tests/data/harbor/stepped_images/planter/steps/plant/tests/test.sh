#!/bin/sh
# Only this verifier has a network.
sleep 0.2
ls /sys/class/net | grep -q eth && echo 0.5 > /logs/verifier/reward.txt
sleep 0.2
