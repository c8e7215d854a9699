#!/bin/sh
. /tests/lib.sh
[ "$GOAL" = task ] && [ "$(cat log.txt)" = one ] && reward 1 || reward 0
