#!/bin/sh
. /tests/lib.sh
[ "$(cat count.txt)" = 2 ] || { reward 0; exit; }
echo '{"reward": 0.4, "style": 1}' > /logs/verifier/reward.json
