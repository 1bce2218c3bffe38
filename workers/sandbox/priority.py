"""The worker before its sandboxes: a look at the disk that comes late is what an agent overshoots by.

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

_TASKS: Final = Path("/proc/self/task")


def favour(thread: int, nice: int) -> None:
    """Give one thread (by the kernel's number) at least that priority, where it is ours to give."""
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) > nice:
            os.setpriority(os.PRIO_PROCESS, thread, nice)


def favour_this_process(tasks: Path = _TASKS) -> None:
    """Every thread that there is; what they start from now on inherits it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(tasks):
            favour(int(name), WORKER_NICE)
