#!/bin/sh
# Make the virtual environment .venv of this checkout from requirements.lock, and nothing else.
# Usage: sandbox_images/setup/venv.sh (from the top folder). PYTHON names another interpreter.
set -eu

say() { printf '  %s\n' "$*" >&2; }
stop() { printf 'error: %s\n' "$*" >&2; exit 4; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
can_make_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
}

apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || stop "$* missing: install with apt-get install $*"
    say "installing $* from the distribution"
    DEBCONF_NOWARNINGS=yes DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 ||
        { apt-get update -q >/dev/null 2>&1 &&
            DEBCONF_NOWARNINGS=yes DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null; } ||
        stop "apt-get could not install $*"
}

python=$(find_python)
if [ -z "$python" ]; then
    apt_install python3 python3-venv
    python=$(find_python)
    [ -n "$python" ] || stop "Python 3.11 or newer is needed; name one with PYTHON=..."
fi
can_make_venv "$python" || apt_install python3-venv
can_make_venv "$python" || stop "$python has no venv module; name another with PYTHON=..."

# Older pips read only PIP_CERT: a host with its own CA bundle names it in SSL_CERT_FILE.
if [ -n "${SSL_CERT_FILE:-}" ] && [ -z "${PIP_CERT:-}" ]; then
    PIP_CERT=$SSL_CERT_FILE
    export PIP_CERT
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

if ! new_enough .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
say "installing the locked Python packages into .venv"
.venv/bin/python -m pip install -qq --require-hashes --only-binary :all: -r requirements.lock
say "installing assize into .venv"
# A plain entry on the path and compiled modules: a short command spends half of its time on imports.
.venv/bin/python -m pip install -qq --no-deps --no-build-isolation --config-settings editable_mode=compat --editable .
.venv/bin/python -m compileall -q -x packs/bundled orchestrator workers scoring sandbox_images
