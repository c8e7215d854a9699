#!/bin/sh
# Tells the tests whether the process of the first step has survived its grading.
ps | grep -v grep | grep planted-process > /app/survivors
id -un
