"""Whether the kernel killed something in a sandbox because the whole host ran out of memory.

Only the kernel writes these records, and its words before `,task=` hold nothing that a process can choose:
a process may well call itself `x,global_oom` (reference/sandbox.md section 5, row 4).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

KERNEL_LOG: Final = Path("/dev/kmsg")
_RECORD_BYTES: Final = 8192
_HOST_OOM: Final = re.compile(
    r"oom-kill:constraint=CONSTRAINT_NONE,nodemask=[^,]*,cpuset=[^,]*,mems_allowed=[-0-9,]*,"
    r"global_oom,task_memcg=([^,]+),task="
)


def host_oom_in(records: Iterable[str], container_id: str) -> bool:
    """Whether a record tells of a kill in this container for want of memory on the host: pure."""
    for record in records:
        _, _, message = record.partition(";")
        found = _HOST_OOM.match(message)
        if found and container_id in found[1]:
            return True
    return False


def _records(log: Path) -> list[str]:
    records: list[str] = []
    handle = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while data := os.read(handle, _RECORD_BYTES):
            records += data.decode("utf-8", "replace").splitlines()
    except BlockingIOError:
        pass  # the end of what there is
    finally:
        os.close(handle)
    return records


def host_oom(container_id: str, log: Path = KERNEL_LOG) -> bool | None:
    """Ask the kernel's log (some milliseconds); None where this process may not read it."""
    try:
        return host_oom_in(_records(log), container_id)
    except OSError:
        return None
