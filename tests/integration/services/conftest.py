"""Services beside the agent's container on the real engine: a small store, under the order of a tiny task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from orchestrator.ids import new_id
from orchestrator.ledger.subnets import _candidates
from orchestrator.sidecars import Health, PodTerms, Sidecar
from tests.assets.hostile.case_canaries import OTHER_TESTS

ASSETS = Path(__file__).parents[2] / "assets" / "services"
POOL = OTHER_TESTS
"""Of these tests alone: screenings on the same engine lease theirs elsewhere."""

STORE_PORT = 6379
UP = Health(
    ("python3", "-c", f"import socket; socket.create_connection(('localhost', {STORE_PORT}), 2)"),
    interval_ms=500,
    timeout_ms=5_000,
    retries=20,
)
ASK = (
    "import socket, sys\n"
    "with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as line:\n"
    "    line.sendall(' '.join(sys.argv[3:]).encode() + b'\\n')\n"
    "    print(line.makefile().readline().strip())\n"
)
PASSES = """#!/bin/sh
[ "$(cat /tmp/out.txt)" = good ] && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""


def ask(host: str, *words: str, port: int = STORE_PORT) -> str:
    """A shell line that asks the store."""
    return f"python3 /tmp/ask.py {host} {port} {' '.join(words)}"


def solve(*lines: str) -> str:
    """A script for the agent that has the store's client."""
    return "\n".join(["set -e", f"cat > /tmp/ask.py <<'END'\n{ASK}END", *lines, ""])


def store(image: str, **changes: Any) -> Sidecar:
    """The store as a service."""
    script = (ASSETS / "store.py").read_text("utf-8")
    values: dict[str, Any] = {
        "name": "store",
        "image": image,
        "command": ("python3", "-c", script, str(STORE_PORT)),
        "health": UP,
        "memory_bytes": 64 << 20,
        "pids": 64,
    }
    return Sidecar(**{**values, **changes})


def subnet_of_a_test() -> str:
    return str(next(_candidates(new_id(), POOL, 28)))


@pytest.fixture
def services_order(make_order: Callable[..., AttemptOrder], base_image: str) -> Callable[..., AttemptOrder]:
    """An order whose task has services; the store unless others are given."""

    def make(script: str, *sidecars: Sidecar, test: str = PASSES, **changes: Any) -> AttemptOrder:
        beside = sidecars or (store(base_image),)
        terms = PodTerms(subnet_of_a_test(), base_image, beside)
        return make_order(script, test, **{"pod": terms, **changes})

    return make
