"""Every injury of reference/distribution.md section 1 to a campaign of real workers, on both databases.

Each drill proves: nothing lost, nothing counted twice, nothing paid twice, all invariants hold.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.assets.queue.drills import DRILLS

MATRIX = [
    (name, database)
    for name in DRILLS
    for database in ("sqlite", "postgresql")
    # A file has no server that could be away.
    if (name, database) != ("database_outage", "sqlite")
]


@pytest.mark.parametrize(("name", "database"), MATRIX)
def test_drill(name: str, database: str, drilled: Callable[[str, str], None]) -> None:
    """The drill's own docstring says what must come of it (tests/assets/queue/drills.py)."""
    drilled(name, database)
