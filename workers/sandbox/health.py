"""Readiness of a task's own service: its probe is run inside, by us, until it ends well or time is over.

The engine's own probing waits a whole interval before the first look; ours looks at once and soon again, and
never waits longer than the service's own words allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.sidecars import Health
from workers.errors import WorkerError
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.execute import Command, StreamEnd, run_command

MOST_S: Final = 180.0
"""No service is waited for longer, whatever it declares."""

_FIRST_PAUSE_S: Final = 0.1
_OUTPUT_BYTES: Final = 64 << 10
_TOLD: Final = 300


class UnhealthyError(WorkerError):
    """The probe did not end well in time, or the service ended."""


def health_of(config: Mapping[str, Any]) -> Health | None:
    """The probe that an image brings along; None without one. Times of the engine are in nanoseconds."""
    found = config.get("Healthcheck") or {}
    test = [str(word) for word in found.get("Test") or ()]
    if not test or test[0] not in ("CMD", "CMD-SHELL"):
        return None
    argv = tuple(test[1:]) if test[0] == "CMD" else ("/bin/sh", "-c", test[1])
    times = {
        field: int(found[name]) // 1_000_000
        for name, field in (
            ("Interval", "interval_ms"),
            ("Timeout", "timeout_ms"),
            ("StartPeriod", "start_period_ms"),
        )
        if found.get(name)
    }
    return Health(argv, retries=int(found.get("Retries") or 3), **times)


def await_health(
    engine: Engine, container: Container, probe: Health, cancelled: Callable[[], bool] = lambda: False
) -> int:
    """Milliseconds until the probe ended with 0; raises `UnhealthyError`, or an engine error."""
    began = time.monotonic()
    until = began + min(MOST_S, probe.bound_ms / 1000)
    pause_s, said = _FIRST_PAUSE_S, "nothing was asked"
    while not cancelled():
        if not container.is_running():
            raise UnhealthyError("it ended before it was ready")
        result = run_command(
            engine,
            container.id,
            Command(probe.argv, "", {}, None),
            deadline=min(until, time.monotonic() + probe.timeout_ms / 1000),
            cap_bytes=_OUTPUT_BYTES,
            still_running=container.is_running,
            cancelled=cancelled,
        )
        if result.end is StreamEnd.EOF and result.exit_code == 0:
            return int((time.monotonic() - began) * 1000)
        said = f"{result.end.value}, exit code {result.exit_code}"
        if time.monotonic() + pause_s >= until:
            raise UnhealthyError(f"not ready after {until - began:.0f} s (the last probe: {said})"[:_TOLD])
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, max(_FIRST_PAUSE_S, probe.interval_ms / 1000))
    raise UnhealthyError("the try was cancelled")
