"""The sandbox report: what an attempt was asked for, what the engine made, what the host showed of it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.attempts import AttemptOrder, PhaseTime
from workers.attempt.phases import AgentPhase
from workers.sandbox.profile import GRADER_CAPABILITIES, PID1_UID


def sandbox_report(
    order: AttemptOrder,
    phase: AgentPhase,
    times: Sequence[PhaseTime],
    *,
    engine: Mapping[str, Any],
    abilities: Mapping[str, Any],
) -> dict[str, Any]:
    """Plain data for the evidence; None stands for what was not observed."""
    caps = order.caps
    return {
        "attemptId": order.attempt_id,
        "engine": dict(engine),
        "abilities": dict(abilities),
        "runtime": order.runtime,
        "images": {"agent": order.agent_image, "grader": order.grader_image, "sandbox": phase.image},
        "bundleDigest": order.bundle_digest,
        "grading": order.grading,
        "disk": order.disk.mode,
        "network": "none" if phase.relayed is None else "relay-only",
        "preflight": phase.preflight,
        "services": None if phase.sidecars is None else phase.sidecars.report(),
        "trouble": phase.trouble,
        "relay": None if phase.relayed is None else dict(phase.relayed.report()),
        "user": f"{phase.owner.uid}:{phase.owner.gid}",
        "pid1Uid": PID1_UID,
        "workdir": phase.workdir,
        "capabilities": {"agent": [], "grader": list(GRADER_CAPABILITIES)},
        "limits": {
            "agentWallMs": caps.agent_wall_ms,
            "gradeWallMs": caps.grade_wall_ms,
            "memoryBytes": caps.memory_bytes,
            "cpusMilli": caps.cpus_milli,
            "pids": caps.pids,
            "outputBytes": caps.output_bytes,
            "artifactBytes": caps.artifact_bytes,
            "diskBytes": order.disk.bytes,
            "diskFiles": order.disk.files,
        },
        "counters": {
            "oomKills": phase.counters.oom_kills,
            "maxMemoryBytes": phase.counters.max_memory_bytes,
            "pidsLimitHits": phase.counters.pids_limit_hits,
            "writtenBytes": phase.written[0] if phase.written else None,
            "writtenFiles": phase.written[1] if phase.written else None,
        },
        "created": phase.created(),
        "events": list(phase.events),
        "proof": phase.proof,
        "finalState": {key: (phase.state or {}).get(key) for key in ("ExitCode", "OOMKilled", "Status")},
        "host": {"kernel": platform.release(), "machine": platform.machine()},
        "phases": {item.phase.value: item.wall_ms for item in times},
    }
