"""Who runs beside whom: tests that share something dear are one group."""

from __future__ import annotations

import pytest

from tests.assets.services.schedule import group_of

IMAGES = "tests/unit/coding_core/test_coding_core_wrong.py"
SIEGE = "tests/hostile/cases/test_hostile_cases.py"


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("tests/unit/ledger/test_a.py::test_it[sqlite]", "tests/unit/ledger/test_a.py::test_it[sqlite]"),
        (f"{IMAGES}::test_it[a]", IMAGES),
        ("tests/drills/test_b.py::test_it", "tests/drills/test_b.py"),
        ("tests/drills/queue/test_c.py::test_drill[kill_child-sqlite]", "tests/drills/queue/test_c.py"),
        (f"{SIEGE}::test_x[celery-runc-own-late-work]", f"{SIEGE}-celery-runc"),
        (f"{SIEGE}::test_x[local-runsc-own-late-work]", f"{SIEGE}-local-runsc"),
        ("tests/integration/test_d.py::test_it[celery]", "tests/integration/test_d.py-celery"),
        ("tests/integration/test_d.py::test_it[celery---diff]", "tests/integration/test_d.py-celery"),
    ],
)
def test_groups(name: str, group: str) -> None:
    """A file is one group, but for what its engines and runtimes share nothing of; a unit test is its own."""
    assert group_of(name) == group
