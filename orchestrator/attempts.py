"""The contract between the engine, which owns slots, and workers, which run attempts.

An engine hands a worker one `AttemptOrder`; the worker answers with one `AttemptReport`. Workers never
see the database, the signing key or another attempt. The function itself is found by entry point name
(`assize.attempt`), so that orchestrator never imports workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from orchestrator.faults import Decision
from orchestrator.sidecars import PodTerms
from scoring.vocabulary import Phase


@dataclass(frozen=True)
class Caps:
    """Limits of one attempt; every one is enforced from outside the sandbox."""

    agent_wall_ms: int
    grade_wall_ms: int
    memory_bytes: int
    cpus_milli: int
    pids: int
    output_bytes: int
    artifact_bytes: int


@dataclass(frozen=True)
class DiskTerms:
    """Where an attempt may write, and how much.

    - `writable`: the root file system; what it holds is measured while the agent runs, and at its end.
    - `strict`: read-only but for the workspace, its outputs and small temporary folders, all in memory and
      of a fixed size; what is in them counts against the memory limit too.
    - `loop`: as strict, with the workspace on a file system of its own on the host's disk.

    `bytes` and `files` are the workspace's size, or for `writable` the whole container's.
    """

    mode: str = "writable"
    bytes: int = 10 << 30
    files: int = 250_000


@dataclass(frozen=True)
class PinnedModel:
    """A model that the agent may call, by the provider's exact name, in one of its roles."""

    role: str
    model: str
    provider: str


@dataclass(frozen=True)
class RelayTerms:
    """What an attempt may call and spend through the metering relay.

    `cap_nusd` 0 is a cap of zero. `provider_tools` are kinds of tools that the provider may run.
    `price_sheet` is the sheet's file, `prices_digest` what it must hash to; `accounts` the providers' file.
    `rehearsal` is a script that stands in for every provider: then nothing of the try counts as a pass.
    `state_root` gets one folder per attempt, with the transcript. `forwarder_image` is the Id of the image
    that the pod's forwarder runs in. `note_names`: names that the sandbox asks for are noted (self-tests).
    """

    models: tuple[PinnedModel, ...]
    cap_nusd: int
    step_limit: int | None
    provider_tools: tuple[str, ...]
    price_sheet: Path
    prices_digest: str
    accounts: Path
    rehearsal: Path | None
    state_root: Path
    forwarder_image: str
    note_names: bool = False


@dataclass(frozen=True)
class EndpointTerms:
    """An agent at its own address: `url` and `model` of its revision, the most calls of a try.

    `accounts` is the operator's list of addresses (`orchestrator.endpoints`), read again by the worker.
    """

    url: str
    model: str
    step_limit: int | None
    accounts: Path


@dataclass(frozen=True)
class AttemptOrder:
    """Everything a worker needs to run one attempt of one slot, and nothing more.

    - `token`: fencing token of this acquisition; `attempt` counts the physical runs of the slot from 1.
    - `task_dir`: the verified task directory; `test_files` and `solution_files` are relative to its
      `tests/` and `solution/`, already filtered by `.harborignore`.
    - `agent`: the registered revision as plain data; `bundle_dir` its verified bundle folder, if any.
    - `agent_image`, `grader_image`: image Ids (`sha256:...`), created by Id and compared after create.
    - `agent_user`, `grader_user`: uid, `uid:gid` or name to run as; None means the image's own user.
    - `grading`: `fresh` (artefacts carried into a new container of `grader_image`) or `in_place` (on a
      snapshot of the agent's file system); `separate` carries the declared artefacts only, otherwise
      every change outside programs and configuration crosses; `gradings` above 1 grades the same end
      state again, for the admission gate.
    - `reward_key`, `reward_at_least`, `reward_max`: the pack's pass rule, bounds as decimal strings.
    - `grader_proven`: the oracle passed through this same grading path before.
    - `suspect_elsewhere`: this agent had a suspect end at this task on another worker before.
    - `disk`: where the agent may write and how much.
    - `pod`: the services beside the agent's container, with the subnet that they share; None without any.
    - `mcp_servers`: what the agent is told of MCP servers, as plain data (name, transport, url or command).
    - `endpoint`: where an agent is that the worker talks to over HTTP; None for every other.
    - `relay`: the terms of model calls; None for an agent that makes none, which then has no way out at all.
    """

    screening_id: str
    slot_id: str
    attempt_id: str
    token: int
    attempt: int
    task_id: str
    index: int
    task_dir: Path
    task_digest: str
    instruction: str
    test_files: tuple[str, ...]
    solution_files: tuple[str, ...]
    agent: Mapping[str, Any]
    bundle_dir: Path | None
    bundle_digest: str | None
    agent_image: str
    grader_image: str
    grader_has_tests: bool
    separate: bool
    agent_user: str | None
    workdir: str | None
    caps: Caps
    grading: str
    artifacts: tuple[Mapping[str, Any], ...]
    environment: Mapping[str, str]
    solution_environment: Mapping[str, str]
    grader_environment: Mapping[str, str]
    grader_user: str | None
    reward_key: str
    reward_at_least: str
    reward_max: str
    grader_proven: bool
    runtime: str
    evidence_root: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    gradings: int = 1
    relay: RelayTerms | None = None
    suspect_elsewhere: bool = False
    disk: DiskTerms = DiskTerms()
    pod: PodTerms | None = None
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    endpoint: EndpointTerms | None = None


@dataclass(frozen=True)
class PhaseTime:
    """One phase with its monotonic duration."""

    phase: Phase
    wall_ms: int


@dataclass(frozen=True)
class AttemptReport:
    """How an attempt ended, with everything needed to record and certify it.

    `manifest_digest` is the SHA-256 of the evidence manifest's canonical bytes, stored in the evidence
    store; None only when the store could not be written, which is a platform fault.
    `reward` is the grader's own number as a decimal string, None without a verdict.
    `gradings` are the numbers of every grading of the one end state; the first one is `reward`.
    `observations` is the whole observation vector as plain data. Wall times are milliseconds.
    `spent_nusd` is what counts against caps, None where nothing was metered.
    """

    decision: Decision
    manifest_digest: str | None
    reward: str | None
    checks_passed: int | None
    checks_total: int | None
    gradings: tuple[str | None, ...]
    wall_ms: int
    phases: tuple[PhaseTime, ...]
    handed_off_unix_ms: int
    finished_unix_ms: int
    runtime: str
    observations: Mapping[str, Any]
    spent_nusd: int | None = None


class AttemptControl(Protocol):
    """What the engine tells a running attempt, and what the attempt tells the engine."""

    def phase(self, phase: Phase) -> None:
        """The attempt enters `phase` (for progress and fault attribution)."""

    def cancelled(self) -> bool:
        """True once the attempt must stop: cancelled by the operator, or its token is no longer current."""

    def calls_until(self) -> float | None:
        """Until when model calls may start, in seconds of `time.monotonic`; it moves with every heartbeat.

        None: nobody else could have taken the attempt, so that there is no bound.
        """


class AttemptCancelledError(Exception):
    """The attempt stopped because `AttemptControl.cancelled()` became true; its containers are gone."""


AttemptFunction = Callable[[AttemptOrder, AttemptControl], AttemptReport]
