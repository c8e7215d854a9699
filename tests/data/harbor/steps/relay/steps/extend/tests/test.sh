#!/bin/sh
. /tests/lib.sh
[ -e leaked.txt ] && reward 0 && exit
[ "$(cat setup-runs.txt)" = run ] || { reward 0; exit; }
[ "$GOAL" = step ] && [ "$(cat log.txt)" = "one
two" ] && reward 1 || reward 0
