#!/bin/bash
# Compares reports with the expected ones in tests/data.
cd "$(dirname "$0")/.." || exit 1
failures=0
compare() {
    if diff "$1" <(shift; "$@"); then echo "ok: $1"; else echo "FAILED: $1"; failures=$((failures + 1)); fi
}
compare tests/data/small.requests build/logtop tests/data/small.log
compare tests/data/small.bytes build/logtop -n 1 -s bytes tests/data/small.log
exit "$failures"
