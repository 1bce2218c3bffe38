#!/bin/sh
# Write requirements.lock again: every package pyproject.toml and build.in lead to, each with the hashes of
# all its files, for every platform and Python 3.11 or newer, without the address of any index. Then
# requirements.run.lock: the part of it that the images of docker-compose.yml need, in the same versions.
# The tool that resolves lives in a throw-away environment.
set -eu

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
resolve() {
    "$tools/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@" \
        pyproject.toml sandbox_images/setup/build.in
}
resolve "$@" --extra dev --output-file requirements.lock
resolve --constraint requirements.lock --output-file requirements.run.lock
