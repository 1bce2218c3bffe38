#!/bin/bash
[ "$(cat /app/out.txt 2>/dev/null)" = 42 ] && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
