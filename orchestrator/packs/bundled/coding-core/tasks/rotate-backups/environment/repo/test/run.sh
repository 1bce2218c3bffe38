#!/bin/bash
# Tests of bin/rotate: each prints one line, the exit code is the number of failures.
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

check() {
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1: got '$2', expected '$3'"
        failures=$((failures + 1))
    fi
}

mkdir "$work/a"
touch "$work/a/db-20240501-0400.tar.gz" "$work/a/db-20240502-0400.tar.gz" "$work/a/db-20240502-1600.tar.gz"
check "dry run" "$("$here/bin/rotate" -n -d 1 -w 0 -m 0 "$work/a" | tail -1)" "1 kept, 2 to remove"
check "nothing was removed" "$(ls "$work/a" | wc -l)" "3"
check "removal" "$("$here/bin/rotate" -d 2 -w 0 -m 0 "$work/a")" "removed db-20240502-0400.tar.gz
2 kept, 1 removed"
check "the right ones are left" "$(ls "$work/a" | tr '\n' ' ')" "db-20240501-0400.tar.gz db-20240502-1600.tar.gz "
"$here/bin/rotate" 2>/dev/null
check "usage" "$?" "2"
exit "$failures"
