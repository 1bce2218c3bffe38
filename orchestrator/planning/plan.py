"""In which order the tries of a screening start (reference/distribution.md 4.5); pure.

Blocks k=1, then k=2, and so on, each one a seeded permutation of the tasks, so that the tries of one
task are spread over the screening and never follow each other. With a window, starts are spread
uniformly over it. Everything follows from the seed alone, which is stored and published.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.errors import UsageError
from orchestrator.ledger.screenings import PlannedSlot


@dataclass(frozen=True)
class PlannedTask:
    """A task to be run; `limit_ms` is all the time one attempt of it may take, clean-up included.

    `queue` names the hosts that can hold it (`orchestrator.planning.classes`), `cpus_milli` and `memory_mb`
    are what it is promised of them.
    """

    task_id: str
    limit_ms: int
    queue: str = ""
    cpus_milli: int = 0
    memory_mb: int = 0


def new_seed() -> str:
    """A fresh seed: 64 hex characters."""
    return secrets.token_hex(32)


def plan_slots(
    tasks: Sequence[PlannedTask], tries: int, *, seed: str, start_ms: int = 0, window_ms: int = 0
) -> tuple[PlannedSlot, ...]:
    """Every slot of a screening in start order: `len(tasks) * tries` of them.

    Raises `UsageError` without tasks, with a repeated task, or with fewer than one try. With `window_ms`
    0 every slot may start at once (`not_before_ms` 0), in order.
    """
    if not tasks:
        raise UsageError("a screening needs at least one task")
    if len({task.task_id for task in tasks}) != len(tasks):
        raise UsageError("a screening lists a task twice")
    if tries < 1 or window_ms < 0:
        raise UsageError("a screening needs at least one try per task and a window that is not negative")
    order: list[tuple[PlannedTask, int]] = []
    for k in range(1, tries + 1):
        block = sorted(tasks, key=lambda task: _draw(seed, "order", k, task.task_id))
        if order and len(block) > 1 and block[0] == order[-1][0]:
            block = [*block[1:], block[0]]
        order.extend((task, k) for task in block)
    starts = _starts(seed, len(order), start_ms, window_ms)
    return tuple(
        PlannedSlot(task.task_id, k, place, start, task.limit_ms, task.queue, task.cpus_milli, task.memory_mb)
        for place, ((task, k), start) in enumerate(zip(order, starts, strict=True))
    )


def _starts(seed: str, count: int, start_ms: int, window_ms: int) -> list[int]:
    if window_ms == 0:
        return [0] * count
    # Sorted uniform draws: the gaps are random and the order of the blocks is kept.
    return sorted(start_ms + _draw(seed, "start", place) % (window_ms + 1) for place in range(count))


def _draw(seed: str, *what: str | int) -> int:
    """A uniform integer below 2**256 that depends on the seed and on `what` only, on every platform."""
    text = "\x00".join([seed, *map(str, what)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest(), "big")
