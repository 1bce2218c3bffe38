"""Removals beside the work: what fails once is tried again, what fails twice is told."""

from __future__ import annotations

from workers.errors import EngineCallError
from workers.sandbox.disposer import Disposer


class Removal:
    """Fails as often as it is told."""

    def __init__(self, failures: int) -> None:
        self.failures, self.calls = failures, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise EngineCallError("remove", "ConnectionError", f"failure {self.calls}")


def test_a_removal_that_failed_is_tried_again_at_the_end() -> None:
    """An engine that was restarted meanwhile still has the container: nothing may stay behind for it."""
    disposer = Disposer()
    fine, once, twice = Removal(0), Removal(1), Removal(2)
    for one in (fine, once, twice):
        disposer.submit(one)
    assert disposer.drain() == ["remove: ConnectionError: failure 2"]
    assert [one.calls for one in (fine, once, twice)] == [1, 2, 2]
    assert disposer.close() == []
