"""The self-test of an agent: a small scripted task, in a sandbox like any other, against no real model.

It is a complete attempt on the worker's own path, but belongs to no screening: nothing of it is certified
or scored.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.agents.launching import Rehearsal
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import ModelRole
from orchestrator.attempts import AttemptOrder, AttemptReport, Caps, DiskTerms
from orchestrator.errors import HostError, UsageError
from orchestrator.evidence import metering
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.host_abilities import require_conditions
from orchestrator.ids import new_id
from orchestrator.ledger import owners
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import REHEARSAL, FamilyName
from orchestrator.screenings.images import open_store
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import attempt_runner, hardware_class
from orchestrator.screenings.orders import plain_agent
from orchestrator.screenings.relaying import (
    DEFAULT_TRY_CAP_NUSD,
    Metering,
    find_script,
    keep_script,
    keep_sheet,
    metering_for,
    with_model,
)
from sandbox_images.base import BASE_IMAGE, ensure_base
from scoring.vocabulary import Outcome, Phase

INSTRUCTION: Final = "Create hello.txt in the current folder, with the word hello in it.\n"
_TEST: Final = (
    '#!/bin/sh\nif [ "$(cat hello.txt)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
)
_WORKDIR: Final = "/tmp"
_USER: Final = "1000:1000"
_STEP_LIMIT: Final = 20
_MIB: Final = 1 << 20
_DISK: Final = (256 * _MIB, 10_000)
"""Bytes and files of the workspace."""
_CAPS: Final = Caps(120_000, 30_000, 2048 * _MIB, 2000, 512, 8 * _MIB, 64 * _MIB)
_MODELS: Final[Mapping[FamilyName, str]] = {
    "anthropic-messages": "rehearsal-anthropic",
    "google-generate-content": "rehearsal-google",
}
_FALL_BACK: Final = re.compile("fall(?:ing|s)?[ -]?back|not found|unavailable|missing|warn", re.IGNORECASE)
_LINES_KEPT: Final = 20


@dataclass(frozen=True)
class SelfTest:
    """What the self-test showed; times in milliseconds, cost in nano-USD of the scripted provider.

    `steps` are model calls that a provider took; `refused` counts what the relay refused, by reason.
    `fall_backs` are lines of standard error that speak of something missing, `names_asked` the hosts that
    the agent looked up (in vain: there is no way out). `passed` is the platform's
    verdict: the file was made, in as many steps as the script has, and nothing was refused. `evidence` is
    the SHA-256 of the attempt's manifest in the evidence store. `why` says in words why the agent cannot be
    started in this image; `disk` is where it could write (`orchestrator.attempts.DiskTerms`).
    """

    agent: str
    image: str
    passed: bool
    outcome: str
    reason: str
    exit_code: int | None
    file_made: bool
    steps: int
    refused: Mapping[str, int]
    first_call_ms: int | None
    wall_ms: int
    spent_nusd: int | None
    fall_backs: tuple[str, ...]
    names_asked: tuple[str, ...]
    evidence: str | None
    disk: str = "writable"
    why: str | None = None


class _Uncontrolled:
    """Control of an attempt that nobody steers."""

    def phase(self, phase: Phase) -> None:
        """Nobody watches."""

    def cancelled(self) -> bool:
        """Never."""
        return False

    def calls_until(self) -> None:
        """Nobody else can have the attempt."""


def self_test(
    installation: Installation,
    agent: RegisteredAgent,
    image: str | None,
    say: Callable[[str], None],
    disk: str | None = None,
) -> SelfTest:
    """Run the scripted task once in `image` (None: the base image).

    `disk` None: under a read-only root where this host can give one, else on a writable disk.

    `UsageError` for an agent that calls no model, or declares a real one that no script stands in for;
    `HostError` for a disk that this host cannot give.
    """
    home = installation.home
    agent.verify_bundle()
    bound = with_model(agent, _model_for(agent))
    if not bound.revision.models:
        raise UsageError(f"agent {agent.revision.label} calls no model; there is nothing to rehearse")
    sheet = PriceSheet.bundled()
    keep_sheet(home, sheet)
    _, script_digest = keep_script(home, find_script(_rehearsal(agent).script))
    conditions = ScreeningConditions(
        tries=1,
        network="relay-only",
        step_limit=_STEP_LIMIT,
        try_cap_nusd=DEFAULT_TRY_CAP_NUSD,
        prices_digest=sheet.digest,
        rehearsal_digest=script_digest,
        hardware_class=hardware_class(),
    )
    metering = metering_for(home, bound, conditions, say)
    store = open_store(home, say)
    try:
        base = ensure_base(store, image or BASE_IMAGE)
        mode = _disk(store.client, disk)
    finally:
        store.client.close()
    owner = owners.register(installation.ledger)
    warnings: list[str] = []
    try:
        with (
            attempt_runner(installation, warnings) as runner,
            tempfile.TemporaryDirectory(prefix="assize-self-test-") as folder,
        ):
            order = _order(installation, bound, metering, base.id, Path(folder), owner.id)
            order = replace(order, disk=DiskTerms(mode, *_DISK))
            report = runner(order, _Uncontrolled())
    finally:
        owners.retire(installation.ledger, owner)
        for line in warnings:
            say(f"warning: {line}")
    return replace(_judged(installation.store, agent, base.name, report), disk=mode)


def _disk(engine: Any, wanted: str | None) -> str:
    """The disk asked for, or the strictest that this host can give."""
    try:
        require_conditions(engine, "runc", wanted or "strict")
    except HostError:
        if wanted is not None:
            raise
        return "writable"
    return wanted or "strict"


def _rehearsal(agent: RegisteredAgent) -> Rehearsal:
    launch = agent.revision.launch
    return Rehearsal() if launch is None else launch.self_test


def _model_for(agent: RegisteredAgent) -> ModelRole:
    """The scripted model that is asked in a format of the agent's."""
    wires = [] if agent.revision.launch is None else list(agent.revision.launch.wires)
    spoken = [_MODELS.get(wire, "rehearsal-openai") for wire in wires] or ["rehearsal-openai"]
    name = "rehearsal-openai" if "rehearsal-openai" in spoken else spoken[0]
    return ModelRole(role="main", id=name, provider=REHEARSAL)


def _order(
    installation: Installation,
    agent: RegisteredAgent,
    metering: Metering | None,
    image_id: str,
    task: Path,
    owner_id: str,
) -> AttemptOrder:
    (task / "tests").mkdir()
    (task / "tests" / "test.sh").write_text(_TEST, "utf-8")
    return AttemptOrder(
        screening_id=new_id(),
        slot_id=new_id(),
        attempt_id=new_id(),
        token=1,
        attempt=1,
        task_id="self-test",
        index=1,
        task_dir=task,
        task_digest=canonical.digest([INSTRUCTION, _TEST]),
        instruction=INSTRUCTION,
        test_files=("test.sh",),
        solution_files=(),
        agent=plain_agent(agent.revision, metering),
        bundle_dir=agent.bundle_dir,
        bundle_digest=agent.revision.bundle_digest,
        agent_image=image_id,
        grader_image=image_id,
        grader_has_tests=False,
        separate=False,
        agent_user=_USER,
        workdir=_WORKDIR,
        caps=_CAPS,
        grading="fresh",
        artifacts=(),
        environment={},
        solution_environment={},
        grader_environment={},
        grader_user=None,
        reward_key="reward",
        reward_at_least="1",
        reward_max="1",
        grader_proven=True,
        runtime="runc",
        evidence_root=installation.home.evidence,
        labels={
            "assize.home": installation.label,
            "assize.screening": "self-test",
            "assize.owner": f"owner/{owner_id}",
            "assize.attempt": f"owner/{owner_id}",
        },
        relay=replace(metering.terms, note_names=True) if metering else None,
    )


def _judged(store: EvidenceStore, agent: RegisteredAgent, image: str, report: AttemptReport) -> SelfTest:
    files = _evidence(store, report)
    ledger = [json.loads(line) for line in files.get(metering.FILE_NAME, b"").splitlines()]
    sandbox = json.loads(files.get("sandbox-report.json", b"{}"))
    relay = sandbox.get("relay") or {}
    refused = (relay.get("lane") or {}).get("tally", {}).get("refusals", {})
    made = report.decision.outcome is Outcome.PASSED
    seen = report.observations
    return SelfTest(
        agent=agent.revision.label,
        image=image,
        passed=made and len(ledger) == _rehearsal(agent).steps and not refused,
        outcome=report.decision.outcome.value,
        reason=report.decision.reason.value,
        exit_code=seen.get("agent_exit_code"),
        file_made=made,
        steps=len(ledger),
        refused=refused,
        first_call_ms=seen.get("relay_first_call_ms"),
        wall_ms=next((one.wall_ms for one in report.phases if one.phase is Phase.AGENT), 0),
        spent_nusd=report.spent_nusd,
        fall_backs=_fall_backs(files.get("agent/stderr.txt", b"")),
        names_asked=tuple(relay.get("namesAsked", ())),
        evidence=report.manifest_digest,
        why=sandbox.get("trouble"),
    )


def _fall_backs(stderr: bytes) -> tuple[str, ...]:
    lines = stderr.decode("utf-8", "replace").splitlines()
    return tuple(line.strip()[:300] for line in lines if _FALL_BACK.search(line))[:_LINES_KEPT]


def _evidence(store: EvidenceStore, report: AttemptReport) -> dict[str, bytes]:
    if report.manifest_digest is None:
        return {}
    manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, 64 * _MIB))
    return {file.path: store.read(file.sha256, 64 * _MIB) for file in manifest.files if file.sha256}
