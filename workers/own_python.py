"""Starts a module of ours in a process of its own, with the code that this one runs and no other.

`python -m` looks into the current folder first. That may be a stranger's: `assize screen .` is said in a
clone of somebody's pack, and a `json.py` in it would run as this user, with the keys that it is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def module_command(name: str, *arguments: str) -> list[str]:
    """The command line; it goes with `module_environment`."""
    return [sys.executable, "-P", "-m", name, *arguments]


def module_environment(names: Iterable[str]) -> dict[str, str]:
    """Those variables of this process, and where it found its own modules."""
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(os.path.abspath(place) for place in sys.path)}
