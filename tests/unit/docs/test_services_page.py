"""docs/packs.md says of compose files what the code does: every key, and the numbers."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.ledger.subnets import POOL, PREFIX
from orchestrator.packs.compose import read_compose
from orchestrator.packs.compose_keys import HARMLESS, MAIN_KEYS, REFUSED
from orchestrator.packs.compose_service import _READERS
from orchestrator.sidecars import CPUS_MILLI, MAX_SIDECARS, MEMORY_BYTES, PIDS
from workers.sandbox.health import MOST_S

PAGE = (Path(__file__).parents[3] / "docs" / "packs.md").read_text("utf-8")
SECTION = PAGE.partition("## Tasks with several containers")[2].partition("\n## ")[0]


def _named(start: str, end: str) -> set[str]:
    part = SECTION.partition(start)[2].partition(end)[0]
    return set(re.findall(r"`([a-z_]+)(?:\.[a-z.]+)?`", part))


def test_every_key_is_on_the_page() -> None:
    """Honoured, harmless and refused keys, each where it belongs, and no key that is not so."""
    honoured = _named("**Honoured**", "Of `main`") - {"dockerfile", "args", "target", "context"}
    assert honoured - {"service_started", "service_healthy"} == set(_READERS) | HARMLESS
    assert _named("Of `main`", "**Refused**") == MAIN_KEYS
    assert _named("**Refused**", "So are images") == set(REFUSED)


def test_the_numbers_on_the_page() -> None:
    """Limits that hold where a task declares none, the pool, and how long is waited."""
    assert f"a /{PREFIX} of {POOL}" in SECTION
    assert (
        f"({MEMORY_BYTES >> 20} MiB unless declared), CPUs ({CPUS_MILLI // 1000}), processes ({PIDS})"
        in SECTION
    )
    assert MOST_S == 180 and "three minutes" in SECTION
    assert MAX_SIDECARS == 8 and "up to eight services" in SECTION


def test_the_example_is_read() -> None:
    """What the page shows can be run."""
    (example,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    found = read_compose(example)
    assert found.problems == () and found.names == ("api",)
    one = found.services[0].sidecar
    assert (one.memory_bytes, one.cpus_milli, one.pids) == (256 << 20, 500, 64)
