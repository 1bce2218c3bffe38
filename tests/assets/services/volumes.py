"""Bundles' volumes that one session of tests made, told from those of others on the same engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchestrator.screenings.installation import home_label

if TYPE_CHECKING:
    from workers.sandbox.client import Engine

_NO_HOMES_BELOW: Final = frozenset({"agents", "evidence"})
"""Folders of a home: large, and no other home is in them."""


def labels_below(root: Path) -> Iterator[str]:
    """The label of every folder at and below `root` that may be a home."""
    for folder, names, _ in os.walk(root):
        yield home_label(Path(folder))
        names[:] = [name for name in names if name not in _NO_HOMES_BELOW]


def remove_bundles(engine: Engine, root: Path, *labels: str) -> list[str]:
    """Remove the volumes of homes below `root`, and of homes with one of `labels`; their names."""
    from workers.errors import EngineCallError
    from workers.sandbox.bundles import LABEL
    from workers.sandbox.client import translated
    from workers.sandbox.reaper import HOME_LABEL

    ours = {*labels, *labels_below(root)}
    removed = []
    for one in engine.api.volumes(filters={"label": LABEL})["Volumes"] or []:
        if (one.get("Labels") or {}).get(HOME_LABEL) in ours:
            with suppress(EngineCallError), translated("remove_volume"):  # in use: its own test tells
                engine.api.remove_volume(one["Name"])
                removed.append(str(one["Name"]))
    return removed
