#!/bin/sh
# Write clients.lock again: every package that clients.in leads to, except those of excluded.txt, each with
# the hashes of all its files, for every platform and Python 3.11 or newer, without the address of any index.
# Arguments go to the resolver, for example --upgrade. The resolver lives in a throw-away environment.
set -eu
cd "$(dirname "$0")"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
"$tools/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "tests/assets/clients/lock.sh" "$@" \
    --excludes excluded.txt --output-file clients.lock clients.in
