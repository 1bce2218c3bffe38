"""Whether a runtime with a kernel of its own gave up by itself, far below every limit: pure.

gVisor's sentry then ends with status 2, without an event of a kill (reference/sandbox.md section 5, row 18).
An agent that drove it into a limit is told by the counters, and then it is the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.sandbox.counters import Counters

_OWN_KERNEL: Final = ("runsc",)
_SENTRY_GAVE_UP: Final = 2


def runtime_crashed(
    runtime: str, state: Mapping[str, Any] | None, counters: Counters, memory_bytes: int
) -> bool:
    """`state` is the engine's final `State`; a counter that was not observed speaks for no crash."""
    if state is None or not runtime.startswith(_OWN_KERNEL):
        return False
    return (
        state.get("ExitCode") == _SENTRY_GAVE_UP
        and not state.get("OOMKilled")
        and counters.pids_limit_hits == 0
        and counters.oom_kills == 0
        and counters.max_memory_bytes is not None
        and counters.max_memory_bytes < memory_bytes // 2
    )
