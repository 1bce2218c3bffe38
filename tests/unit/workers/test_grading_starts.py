"""A verifier's command that does not begin: started again, and who is to blame when it never does."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from workers.errors import EngineCallError
from workers.grading import grade
from workers.grading.grade import NeverBeganError
from workers.sandbox.execute import ExecResult, StreamEnd

Play = Callable[..., tuple[Any, list[bool]]]
NEVER = ExecResult(StreamEnd.EOF, 126, 1, never_began=True)
RAN = ExecResult(StreamEnd.EOF, 0, 1)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Start the tests with these results of one start after the other; also what is left of them."""

    def run(begins: list[bool], *, left: bool, pinned: bool) -> tuple[Any, list[bool]]:
        monkeypatch.setattr(grade, "_PAUSES_S", (0.0, 0.0, 0.0))
        monkeypatch.setattr(grade, "_run", lambda *_: RAN if begins.pop(0) else NEVER)
        monkeypatch.setattr(grade, "_pinned_works", lambda *_, begins: pinned)
        task, carry = SimpleNamespace(snapshot=None), SimpleNamespace(tar_body_bytes=int(left), deleted=())
        nothing: Any = None
        try:
            return grade._run_tests(nothing, nothing, task, carry, lambda: False), begins  # type: ignore[arg-type]
        except EngineCallError as error:
            return type(error), begins

    return run


@pytest.mark.parametrize("before", range(3))
def test_trouble_that_is_over_is_nobodys(play: Play, before: int) -> None:
    """The first start that begins is the one that counts."""
    assert play([False] * before + [True], left=True, pinned=True) == (RAN, [])


@pytest.mark.parametrize(
    ("again", "left", "pinned", "end"),
    [
        ([False], True, True, NeverBeganError),  # it begins without what the agent left, and not with it
        ([True], True, True, RAN),  # and then with it, too: trouble of the host that is over
        ([], True, False, EngineCallError),  # nor without it
        ([], False, True, EngineCallError),  # the agent left nothing
    ],
)
def test_who_is_to_blame(play: Play, again: list[bool], left: bool, pinned: bool, end: Any) -> None:
    """Issue 6: the agent only where what it left is the one reason that remains."""
    assert play([False] * 3 + again, left=left, pinned=pinned) == (end, [])
