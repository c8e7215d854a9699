#!/bin/sh
# The agent worked without root in the image's work directory; the verifier is root.
if [ "$(cat /app/sum.txt)" = 42 ] && [ "$(stat -c %U /app/sum.txt)" = agent ] && [ "$(id -u)" = 0 ] &&
    ! ip route | grep -q default; then
  echo 1 > /logs/verifier/reward.txt
fi
