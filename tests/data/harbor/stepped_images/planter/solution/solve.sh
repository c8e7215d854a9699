#!/bin/sh
# Tells the tests whether the process of the first step has survived its grading, and what is connected.
ps | grep -v grep | grep planted-process > /app/survivors
ls /sys/class/net > /app/networks
id -un
