"""How the tests are shared out among processes (pytest-xdist, `--dist loadgroup`).

Unit tests go wherever there is room. All others stay together by file, because the tests of a file share what
is dear: a screening, an image, a whole siege. Most of that is waiting, so more processes than cores run.
"""

from __future__ import annotations

from typing import Final

import pytest

_APART: Final = ("engines", "runtime")
"""Parameters by which a file's tests share nothing: each value is a group of its own."""
_ANYWHERE: Final = "unit"


def share_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the group of every test that has one."""
    for item in items:
        inside = item.path.relative_to(config.rootpath / "tests")
        if inside.parts[0] == _ANYWHERE or item.get_closest_marker("xdist_group"):
            continue
        callspec = getattr(item, "callspec", None)
        params = callspec.params if callspec else {}
        parts = [str(inside), *(str(params[name]) for name in _APART if name in params)]
        item.add_marker(pytest.mark.xdist_group(name="-".join(parts)))
