#!/bin/sh
# Tells the tests whether the process of the first step has survived its grading.
ps | grep -v grep | grep -q 'while :' && echo alive > /app/survivor
id -un
