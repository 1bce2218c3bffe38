#!/bin/sh
# Write requirements.lock again: every package pyproject.toml and build.in lead to, each with the hashes of
# all its files, for every platform and Python 3.11 or newer, without the address of any index. Then
# requirements.run.lock: the part of it that the image of Assize in docker-compose.yml needs, in the same
# versions; and requirements.flower.lock: that of the image of Flower, which has no code of ours.
# The tool that resolves lives in a throw-away environment.
set -eu

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
resolve() {
    "$tools/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}
whole() {
    resolve "$@" pyproject.toml sandbox_images/setup/build.in
}
extra() {
    python3 -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["optional-dependencies"][sys.argv[1]], sep="\n")' "$1"
}
whole "$@" --extra dev --output-file requirements.lock
whole --extra s3 --constraint requirements.lock --output-file requirements.run.lock
# The last is imported by kombu's part for Redis. Not `celery[redis]`: it wants one older version of it.
{ extra flower; printf '%s\n' celery redis packaging; } |
    resolve --no-annotate --constraint requirements.lock --output-file requirements.flower.lock -
