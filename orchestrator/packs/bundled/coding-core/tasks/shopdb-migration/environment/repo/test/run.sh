#!/bin/bash
# Tests of bin/db: each prints one line, the exit code is the number of failures.
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

newest=$(ls "$here"/migrations/*.sql | tail -1 | xargs basename | cut -c1-3 | sed 's/^0*//')

check "a new file is brought to the newest schema" "$("$here/bin/db" migrate "$work/a.db")" "schema version $newest"
check "a second run changes nothing" "$("$here/bin/db" migrate "$work/a.db")" "schema version $newest"
check "version" "$("$here/bin/db" version "$work/a.db")" "$newest"
"$here/bin/db" print "$work/a.db" 2>/dev/null
check "unknown commands are refused" "$?" "2"
"$here/bin/db" report "$work/a.db" 2>/dev/null
check "report needs a year" "$?" "2"
exit "$failures"
