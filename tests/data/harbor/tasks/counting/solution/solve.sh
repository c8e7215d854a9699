#!/bin/sh
[ "$FIXTURE" = counting ] && echo 3 > /app/count.txt
echo counted
