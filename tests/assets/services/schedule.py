"""How the tests are shared out among processes (pytest-xdist, `--dist loadgroup`).

Unit tests go wherever there is room. All others stay together by file, because the tests of a file share what
is dear: a screening, an image, a whole siege. Most of that is waiting, so more processes than cores run.
The groups are read from the names of the tests: those that xdist writes into them get lost with pytest 9.2.
"""

from __future__ import annotations

from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

_ANYWHERE: Final = "tests/unit/"
_TOGETHER: Final = ("tests/unit/coding_core/test_coding_core_wrong.py",)
"""Unit tests that share what is dear all the same: images, built once and removed at the end."""
_APART: Final = frozenset({"local", "celery", "runc", "runsc"})
"""Parameters whose tests share nothing with those of another value."""


def group_of(name: str) -> str:
    """The group of a test by its name in pytest; its own where it shares nothing."""
    path, _, rest = name.partition("::")
    if path.startswith(_ANYWHERE) and path not in _TOGETHER:
        return name
    words = rest.partition("[")[2].rstrip("]").split("-")
    return "-".join([path, *(word for word in words[:2] if word in _APART)])


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Groups are handed out in the order in which they are collected."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def scheduler(config: Any, log: Any) -> ByFile | None:
    """Ours for `--dist loadgroup`, none for another choice of the command line."""
    return ByFile(config, log) if config.getvalue("dist") == "loadgroup" else None
