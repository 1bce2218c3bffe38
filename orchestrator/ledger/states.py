"""The pure half of the state machine: which state follows (reference/distribution.md 4.2, 4.3).

Nothing here touches a database. `orchestrator.ledger.transitions` carries these decisions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from scoring.vocabulary import Outcome

RERUN_LIMIT: Final = 2
"""R: how often a slot is run again after a platform fault (DESIGN section 7)."""

OPERATOR_CANCELLED: Final = "operator_cancelled"
"""End reason of an attempt that the operator stopped; it has no outcome and is nobody's fault."""


class SlotState(StrEnum):
    """The life of a try slot."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    RECORDED = "recorded"
    UNCOUNTABLE = "uncountable"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """The life of one physical run: `recorded` counts for its slot, `void` does not."""

    LIVE = "live"
    RECORDED = "recorded"
    VOID = "void"


class ScreeningState(StrEnum):
    """The life of a screening."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    PARTIAL = "partial"
    CANCELLED = "cancelled"
    CAP_STOPPED = "cap_stopped"
    NOT_EVALUABLE = "not_evaluable"


class EngineName(StrEnum):
    """Which engine serves a screening."""

    LOCAL = "local"
    CELERY = "celery"


OPEN_SLOTS: Final = frozenset({SlotState.PLANNED, SlotState.QUEUED, SlotState.RUNNING})
ENDED_SLOTS: Final = frozenset(SlotState) - OPEN_SLOTS
OPEN_SCREENINGS: Final = frozenset({ScreeningState.PLANNED, ScreeningState.RUNNING, ScreeningState.PAUSED})
CLOSED_SCREENINGS: Final = frozenset(ScreeningState) - OPEN_SCREENINGS


@dataclass(frozen=True)
class Ending:
    """What one attempt's end makes of the attempt and of its slot.

    `rerun` is true when the end uses up one of the slot's R re-runs.
    """

    attempt: AttemptState
    slot: SlotState
    rerun: bool

    @property
    def final(self) -> bool:
        """Whether the slot has come to its end."""
        return self.slot in ENDED_SLOTS


def ending_of(outcome: Outcome, reruns: int, limit: int = RERUN_LIMIT) -> Ending:
    """Transitions 5, 6 and 7: total over outcomes and `reruns` >= 0.

    Passed and failed are recorded. A platform fault goes back to the queue while re-runs are left and is
    uncountable after that. `not_evaluable` is never re-run: the published conditions would be the same.
    """
    if outcome in (Outcome.PASSED, Outcome.FAILED):
        return Ending(AttemptState.RECORDED, SlotState.RECORDED, rerun=False)
    if outcome is Outcome.PLATFORM_FAULT and reruns < limit:
        return Ending(AttemptState.VOID, SlotState.QUEUED, rerun=True)
    return Ending(AttemptState.VOID, SlotState.UNCOUNTABLE, rerun=False)


def interruption() -> Ending:
    """The end of an attempt that the operator stopped: its slot goes back to the queue.

    Stopping a process (Ctrl-C twice) is not giving the screening up. `cancelled` is terminal, so with
    transition 10 the same command could never finish; transition 6 would book a platform fault that did
    not happen and use up a re-run. The attempt stays in the ledger, the slot counts its interruptions, and
    both are shown, so that stopping a process is not a silent re-roll.
    """
    return Ending(AttemptState.VOID, SlotState.QUEUED, rerun=False)


def in_stopped_screening(ending: Ending) -> Ending:
    """Transition 10: what would go back to the queue is cancelled once its screening was stopped."""
    return ending if ending.final else replace(ending, slot=SlotState.CANCELLED)


def closing_state(
    counts: Mapping[SlotState, int], *, not_evaluable: int, stop_reason: str | None
) -> ScreeningState | None:
    """How a screening closes, or None while a slot is open (4.3).

    `not_evaluable` is the number of uncountable slots with that outcome. A screening is `not_evaluable`
    only when none of its tries was recorded: an agent that ran once can be started, so then it is
    `partial` and the slots carry their reason. `stop_reason` is the screening's `cancelled` or
    `cap_stopped`, if somebody stopped it.
    """
    if any(counts.get(state, 0) for state in OPEN_SLOTS):
        return None
    recorded = counts.get(SlotState.RECORDED, 0)
    if recorded == sum(counts.values()):
        return ScreeningState.COMPLETE
    if stop_reason is not None:
        return ScreeningState(stop_reason)
    if not_evaluable and not recorded:
        return ScreeningState.NOT_EVALUABLE
    return ScreeningState.PARTIAL
