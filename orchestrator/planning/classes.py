"""Queues by what a try needs and by the hardware it was promised (reference/distribution.md 4.5); pure.

A queue is called `try.c2m4.cpu8-mem32g`: tries of up to 2 cores and 4 GiB that are to run on hosts of the
hardware class `cpu8-mem32g`, since figures of two hardware classes are not compared (S4-28). Needs are
rounded up to powers of two, so that a host serves few queues and one idle place is good for many tasks.
"""

from __future__ import annotations

import re
from typing import Final

_GIB: Final = 1 << 30
_HARDWARE: Final = re.compile(r"cpu([0-9]+)-mem([0-9]+)g")


def _power(need: int) -> int:
    """The smallest power of two that is at least `need` (and at least 1)."""
    return 1 << (max(1, need) - 1).bit_length()


def resource_class(cpus_milli: int, memory_bytes: int) -> str:
    """`c2m4` for a try of up to 2 cores (given in thousandths) and up to 4 GiB of memory."""
    return f"c{_power(-(-cpus_milli // 1000))}m{_power(-(-memory_bytes // _GIB))}"


def queue_of(cpus_milli: int, memory_bytes: int, hardware_class: str) -> str:
    """The queue of a try with these limits in a screening of this hardware class."""
    return f"try.{resource_class(cpus_milli, memory_bytes)}.{hardware_class}"


def size_of(hardware_class: str) -> tuple[int, int] | None:
    """Thousandths of cores and MiB of memory of a host of this class; None for one that says no sizes."""
    found = _HARDWARE.fullmatch(hardware_class)
    return None if found is None else (int(found[1]) * 1000, int(found[2]) << 10)


def queues_of(hardware_class: str) -> tuple[str, ...]:
    """Every queue that a host of this hardware class (`cpu2-mem8g`) can serve, smallest first.

    A need that was rounded up may pass the host by less than twice; the sandbox's own limits are not
    rounded. A class that says no sizes serves nothing of itself: its workers name their queues.
    """
    found = _HARDWARE.fullmatch(hardware_class)
    if found is None:
        return ()
    cores, memory = (range(_power(int(size)).bit_length()) for size in found.groups())
    return tuple(f"try.c{1 << c}m{1 << m}.{hardware_class}" for c in cores for m in memory)
