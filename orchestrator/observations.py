"""What was seen of one attempt, by whom and where: the input of `orchestrator.faults.decide`.

Every field is a fact from outside the sandbox (engine state, cgroup counters, our own clocks, our own
API errors, the verifier's files after its container is dead). Nothing here is text that the agent can
print.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Clock(StrEnum):
    """Which limit of ours ended a phase."""

    WALL = "wall"
    OUTPUT = "output"


class Death(StrEnum):
    """How a container that we did not kill came to its end."""

    SELF = "self"
    OOM = "oom"
    FOREIGN_KILL = "foreign_kill"
    ENGINE_RESTART = "engine_restart"
    REMOVED = "removed"


class VerdictProblem(StrEnum):
    """Why the verifier's files give no verdict."""

    MISSING = "missing"
    EMPTY = "empty"
    UNPARSABLE = "unparsable"
    OUT_OF_RANGE = "out_of_range"
    CONTRADICTORY = "contradictory"
    FOREIGN_FILE = "foreign_file"


@dataclass(frozen=True)
class Observations:
    """The observation vector; None means "not observed", never "no".

    prepare: `image_missing`, `image_mismatch`, `start_error` (our API call that failed, by type name).
    sidecars (a task's own services): `sidecar` (the name of the first that ended before we ended it, in the
    agent phase), `sidecar_death`, `sidecar_host_oom`.
    agent: `agent_started`; `agent_clock` and `agent_clock_value` (ms or bytes); `agent_exit_code` (recorded,
    never decisive for pass or fail); `agent_death`; cgroup counters; `agent_host_oom` (the kernel's own log
    names this sandbox in a lack of memory of the whole host); `agent_runtime_crash` (a runtime with a kernel
    of its own gave up far below every limit); `stream_lost` (our reader lost a live exec).
    relay: `cost_cap_hit` and `step_cap_hit` (a call was refused for it), `provider_outage` (the last
    model call failed by the provider), `relay_fault` (the relay, its forwarder or our own account),
    `lease_lost` (a call was refused since the attempt's lease had not been renewed for too long),
    `relay_calls` (model calls that a provider took), `relay_first_call_ms` (None with a relay: the agent
    never reached it), `provider_failures` in a row at the end.
    grade: as for the agent, of the verifier's container; `reward` decimal string; `reward_passes` under the
    pack's rule; `verdict_problem`; `grader_proven` (the oracle passed through this path).
    record: `evidence_error`. Anywhere: `engine_error` (type name) with `engine_error_phase`.
    ledger: `suspect_elsewhere` (this agent had a suspect end at this task on another worker before).
    """

    image_missing: bool = False
    image_mismatch: bool = False
    start_error: str | None = None
    agent_started: bool = False
    agent_not_startable: bool = False
    agent_clock: Clock | None = None
    agent_clock_value: int | None = None
    agent_exit_code: int | None = None
    agent_death: Death | None = None
    agent_oom_kills: int | None = None
    agent_pids_limit_hits: int | None = None
    agent_max_memory_bytes: int | None = None
    agent_output_bytes: int | None = None
    agent_host_oom: bool | None = None
    agent_runtime_crash: bool = False
    stream_lost: bool = False
    sidecar: str | None = None
    sidecar_death: Death | None = None
    sidecar_host_oom: bool | None = None
    artifact_overflow: bool = False
    relay_fault: bool = False
    provider_outage: bool = False
    cost_cap_hit: bool = False
    step_cap_hit: bool = False
    network_violation: bool = False
    relay_calls: int | None = None
    relay_first_call_ms: int | None = None
    provider_failures: int | None = None
    grader_image_missing: bool = False
    grader_start_error: str | None = None
    grader_started: bool = False
    grader_clock: Clock | None = None
    grader_clock_value: int | None = None
    grader_exit_code: int | None = None
    grader_death: Death | None = None
    grader_host_oom: bool | None = None
    grader_proven: bool = False
    reward: str | None = None
    reward_passes: bool | None = None
    verdict_problem: VerdictProblem | None = None
    engine_error: str | None = None
    engine_error_phase: str | None = None
    evidence_error: str | None = None
    worker_lost: bool = False
    host_shows_overrun: bool = False
    cancelled: bool = False
    suspect_elsewhere: bool = False
    lease_lost: bool = False

    def as_data(self) -> dict[str, Any]:
        """Plain canonical data (strings, integers, booleans, None) for evidence and certificates."""
        return asdict(self)
