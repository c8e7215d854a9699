#!/bin/sh
grep -c . log.txt > count.txt
echo finished
