"""Queues by resource and hardware class."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from orchestrator.planning.classes import queue_of, queues_of, resource_class

GIB = 1 << 30


@pytest.mark.parametrize(
    ("cpus_milli", "memory_bytes", "expected"),
    [
        (1, 1, "c1m1"),
        (1000, GIB, "c1m1"),
        (1001, GIB + 1, "c2m2"),
        (3000, 3 * GIB, "c4m4"),
        (4000, 8 * GIB, "c4m8"),
    ],
)
def test_needs_are_rounded_up(cpus_milli: int, memory_bytes: int, expected: str) -> None:
    """4.5: `try.c2m4`; few queues, and a try never lands where less was promised."""
    assert resource_class(cpus_milli, memory_bytes) == expected


@given(st.integers(1, 128), st.integers(1, 512), st.data())
def test_a_host_serves_whatever_fits_it(cores: int, memory: int, data: st.DataObject) -> None:
    """A task that this host can hold has a queue that this host consumes, and of its hardware class only."""
    hardware = f"cpu{cores}-mem{memory}g"
    cpus_milli = data.draw(st.integers(1, cores * 1000))
    memory_bytes = data.draw(st.integers(1, memory * GIB))
    assert queue_of(cpus_milli, memory_bytes, hardware) in queues_of(hardware)
    assert queue_of(cpus_milli, memory_bytes, "cpu9-mem9g-other") not in queues_of(hardware)


def test_what_no_host_of_the_class_holds_has_no_consumer() -> None:
    """Such a task is shown at planning instead of waiting for ever in silence."""
    assert queue_of(16_000, GIB, "cpu2-mem8g") not in queues_of("cpu2-mem8g")
    assert queues_of("gpu-a100") == ()
