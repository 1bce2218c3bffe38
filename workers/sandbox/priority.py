"""The worker before its sandboxes: a look at the disk that comes late is what an agent overshoots by.

The guard of a disk is real-time where the kernel lets it. A nice value alone does little: it counts within
one session only where the kernel groups processes by session, and where it counts, a running neighbour still
keeps the processor to the end of its turn (measured at a load of twenty on two cores: the median look comes
2.3 ms late with it and 0.05 ms late in real time, one in a hundred 38 ms and 3 ms late).

One thread of an interpreter runs at a time. When that one waits for a processor behind the processes of eight
sandboxes, the guard waits with it, however favoured it is itself (measured: 0.1 s and more at a load of ten
on two cores). So all threads of a worker are favoured; they use little.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

WORKER_NICE: Final = -10
GUARD_NICE: Final = -15
_GUARD_TURN: Final = 1
"""The least that is real-time: whatever else of the host is so goes before."""

_TASKS: Final = Path("/proc/self/task")


def favour(thread: int, nice: int) -> None:
    """Give one thread (by the kernel's number) at least that priority, where it is ours to give."""
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) > nice:
            os.setpriority(os.PRIO_PROCESS, thread, nice)


def favour_guard(thread: int) -> None:
    """Give one thread the processor whenever it wants it; where that is refused, the best nice value.

    What it starts is not real-time.
    """
    try:
        os.sched_setscheduler(thread, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_GUARD_TURN))
    except OSError:
        favour(thread, GUARD_NICE)


def favour_this_process(tasks: Path = _TASKS) -> None:
    """Every thread that there is; what they start from now on inherits it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(tasks):
            favour(int(name), WORKER_NICE)
