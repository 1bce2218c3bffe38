"""How long the reference agent may wait: to the attempt's deadline, and not once it is cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from workers.adapters.shell.errors import DeadlinePassedError, StoppedError

TICK_S: Final = 0.2
"""The longest wait between two looks at `stop`."""


@dataclass(frozen=True)
class Bounds:
    """`deadline` is on the clock `now` (monotonic seconds); `stop` is asked at least every `TICK_S`."""

    deadline: float
    stop: Callable[[], bool]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def left_s(self) -> float:
        """Seconds to the deadline, never negative."""
        return max(0.0, self.deadline - self.now())

    def check(self) -> None:
        """Raises `StoppedError` when cancelled, `DeadlinePassedError` when no time is left."""
        if self.stop():
            raise StoppedError("the attempt was cancelled")
        if self.left_s() <= 0:
            raise DeadlinePassedError("the attempt's time is over")

    def pause(self, seconds: float) -> None:
        """Wait; raises like `check`, the moment there is a reason to."""
        end = self.now() + seconds
        self.check()
        while (left := end - self.now()) > 0:
            self.sleep(min(TICK_S, left, self.left_s()))
            self.check()
