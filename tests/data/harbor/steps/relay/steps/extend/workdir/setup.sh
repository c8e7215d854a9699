#!/bin/sh
# What graded the step before is not for the agent of this one.
[ -e /tests ] && echo seen > leaked.txt
[ -e /solution ] && echo seen > leaked.txt
[ -e /logs/verifier/reward.txt ] && echo seen > leaked.txt
echo run >> setup-runs.txt
