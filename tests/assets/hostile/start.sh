#!/bin/sh
# Every agent of the suite begins here: the variables that the case file speaks of, then its own code.
export RELAY_HOST="${ASSIZE_RELAY_URL#http://}" RELAY_TOKEN="$ASSIZE_RELAY_TOKEN"
exec "$@"
