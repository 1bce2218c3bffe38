"""When a host itself is unfit, stop before it burns every re-run: a pure judgement over ends in a row.

A dead Docker engine or a full disk ends every attempt within a second as the platform's fault; without a
breaker a whole screening would be uncountable in minutes (distribution.md 4.4, inspect.md #1097).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scoring.vocabulary import Reason

HOST_REASONS: Final = frozenset(
    {Reason.SANDBOX_START, Reason.ENGINE_ERROR, Reason.IMAGE_MISSING, Reason.EVIDENCE_UNWRITABLE}
)
"""Faults that one broken host gives to every attempt."""


@dataclass
class Breaker:
    """Trips after `in_a_row` such ends, with no other end between, on at least `slots` different tries."""

    in_a_row: int = 6
    slots: int = 3
    _run: list[str] = field(default_factory=list)

    def note(self, slot_id: str, reason: str) -> bool:
        """Take one end into account; True when nothing more should be started."""
        if reason not in HOST_REASONS:
            self._run.clear()
            return False
        self._run.append(slot_id)
        return len(self._run) >= self.in_a_row and len(set(self._run)) >= self.slots
