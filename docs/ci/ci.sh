#!/bin/sh
# What CI runs: builds the test, runs it plain, strictly and with faults, and compares what it posts.
set -eu
gcc -O2 -Wall -o blocks blocks.c -lrdmacm -libverbs

doorbell run -- sh test.sh
doorbell run --strict -- sh test.sh
# RC sends again what is lost.
doorbell run --fault drop=0.1 --seed 3 -- sh test.sh
# An error is told of, and nobody waits for ever.
code=0
timeout 60 doorbell run --fault kill-qp@20 -- sh test.sh || code=$?
[ $code = 1 ] || { echo "a QP that is killed: exit code $code, not 1"; exit 1; }

doorbell run --stats-json now.json -- sh test.sh
doorbell compare --baseline baseline.json now.json
echo "all is well"
