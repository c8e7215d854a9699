#!/bin/sh
if [ "$(cat /app/count.txt)" = "$EXPECTED" ]; then score=1.0; else score=0.25; fi
echo "{\"reward\": $score, \"style\": 0.5}" > /logs/verifier/reward.json
