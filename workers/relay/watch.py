"""When the relay's reports end a try: pure.

No refusal stops every agent (measured: up to 75 s of retries), so the worker ends the try a short grace
after the first refusal for money or steps. Trouble of the platform itself ends it at once. Everything else,
an unpinned side model for instance, is the agent's to cope with.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from workers.relay.state import LaneState

GRACE_MS: Final = 15_000


class Ending(StrEnum):
    """Why a try is to be ended."""

    COST_CAP = "cost_cap"
    STEP_CAP = "step_cap"
    PLATFORM = "platform"


def ending(state: LaneState | None) -> Ending | None:
    """What will end the try, whether or not its grace is over; None while it may go on."""
    if state is None:
        return None
    tally = state.tally
    if tally["platformFault"] is not None:
        return Ending.PLATFORM
    cap, step = tally["capRefusedUs"], tally["stepRefusedUs"]
    if cap is not None and (step is None or cap <= step):
        return Ending.COST_CAP
    return None if step is None else Ending.STEP_CAP


def due(state: LaneState | None, since_ms: int | None) -> bool:
    """Whether the try is to be ended now; `since_ms` is how long ago `ending` first gave a reason."""
    found = ending(state)
    if found is None or since_ms is None:
        return False
    return found is Ending.PLATFORM or since_ms >= GRACE_MS
