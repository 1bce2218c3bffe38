"""The money and steps of one lane: hold before dispatch, settle after, never above the cap.

One writer: every method runs in the relay's event loop without a pause inside, so that checking and
holding is one step. `spent + held <= cap` holds at every instant, unless a provider bills more than the
maximum it was given; that excess is counted and shown as `overrun_nusd`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.relay.wire.usage import Completeness


@dataclass
class Budget:
    """`spent_nusd` holds exact costs and the holds of calls whose cost is not exactly known."""

    cap_nusd: int | None
    step_limit: int | None
    spent_nusd: int = 0
    overrun_nusd: int = 0
    steps: int = 0
    _holds: dict[int, int] = field(default_factory=dict)

    @property
    def held_nusd(self) -> int:
        """Holds of calls that are still open."""
        return sum(self._holds.values())

    def left_nusd(self) -> int | None:
        """What a new call may hold; None without a cap."""
        if self.cap_nusd is None:
            return None
        return max(0, self.cap_nusd - self.spent_nusd - self.held_nusd)

    def steps_left(self) -> int | None:
        """How many more calls may start; None without a limit. Open calls count."""
        return None if self.step_limit is None else max(0, self.step_limit - self.steps)

    def fits(self, hold_nusd: int) -> bool:
        """Whether a call with this hold may start. A cap of zero is a cap: nothing may start."""
        left = self.left_nusd()
        return left is None or (self.cap_nusd != 0 and hold_nusd <= left)

    def hold(self, call: int, nusd: int) -> None:
        """Reserve money and a step for a call that was found to fit."""
        self._holds[call] = nusd
        self.steps += 1

    def is_open(self, call: int) -> bool:
        """Whether a call still holds money."""
        return call in self._holds

    def release(self, call: int) -> None:
        """The call cost nothing and was no step: the provider answered with an error, or never got it."""
        if self._holds.pop(call, None) is not None:
            self.steps -= 1

    def settle(self, call: int, completeness: Completeness, cost_nusd: int | None) -> int:
        """Turn a hold into spending; returns the nano-USD booked: the exact cost, else the whole hold."""
        held = self._holds.pop(call)
        booked = held if completeness is not Completeness.EXACT or cost_nusd is None else cost_nusd
        self.spent_nusd += booked
        self.overrun_nusd += max(0, booked - held)
        return booked
