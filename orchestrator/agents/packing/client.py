"""One call of a registry's own client (npm, pip) as a child process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from orchestrator.errors import HostError

_LIMIT_S: Final = 1800
_TOLD: Final = 600


class PackingError(HostError):
    """An agent cannot be packed here: a client is missing, refuses, or gives something else than it said."""

    code = "agent-packing"


def client(command: Sequence[str]) -> str:
    """The standard output of `command`; `PackingError` with the end of what it complained about."""
    environment = dict(os.environ)
    if authority := environment.get("SSL_CERT_FILE"):
        environment.setdefault("PIP_CERT", authority)  # older pips read nothing else
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
    except FileNotFoundError:
        raise PackingError(f"{command[0]} is not installed on this host", hint="packing needs it") from None
    except subprocess.TimeoutExpired:
        raise PackingError(f"{command[0]} did not end within {_LIMIT_S} s") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise PackingError(f"{command[0]} failed: {' '.join(lines)[-_TOLD:]}")
    return done.stdout
