"""A scripted attempt function: engines, displays and drills run without Docker.

It is no sandbox and its manifests are in no evidence store, so nothing it reports can be certified as a
run of an agent. The outcome is scripted as observations, and the real fault rules decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.attempts import (
    AttemptCancelledError,
    AttemptControl,
    AttemptOrder,
    AttemptReport,
    Caps,
    PhaseTime,
)
from orchestrator.faults import decide
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import Claim, NewScreening, plan
from orchestrator.observations import Clock, Observations
from orchestrator.planning.plan import PlannedTask, plan_slots
from scoring.vocabulary import Phase

SCRIPTS: Final[Mapping[str, Observations]] = {
    "passed": Observations(agent_started=True, grader_proven=True, reward="1", reward_passes=True),
    "failed": Observations(agent_started=True, grader_proven=True, reward="0", reward_passes=False),
    "timeout": Observations(agent_started=True, agent_clock=Clock.WALL, agent_clock_value=1000),
    "platform_fault": Observations(engine_error="StubEngineError", engine_error_phase=Phase.PREPARE),
    "not_evaluable": Observations(agent_not_startable=True),
}
"""Words of a script and what is observed for them; the word `raise` raises instead."""

_CAPS: Final = Caps(
    agent_wall_ms=1000,
    grade_wall_ms=1000,
    memory_bytes=1 << 20,
    cpus_milli=100,
    pids=16,
    output_bytes=1 << 10,
    artifact_bytes=1 << 10,
)


class StubFailure(Exception):
    """What an attempt with the word `raise` raises."""


@dataclass(frozen=True)
class StubAttempt:
    """`AttemptFunction`: for task, index and attempt number, what the script says (default: passed).

    `script` maps `task` or `task/k` to the words of its attempts 1, 2, ...; the last word repeats. `gate`
    is called in the agent phase with order and control, to hold an attempt until a test lets it go.
    """

    script: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gate: Callable[[AttemptOrder, AttemptControl], None] | None = None

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Walk through the phases; raises `AttemptCancelledError` when told to stop, as a worker does."""
        began = time.time_ns() // 1_000_000
        for phase in (Phase.PREPARE, Phase.AGENT, Phase.GRADE, Phase.RECORD):
            control.phase(phase)
            if phase is Phase.AGENT and self.gate is not None:
                self.gate(order, control)
            if control.cancelled():
                raise AttemptCancelledError
        words = (
            self.script.get(f"{order.task_id}/{order.index}") or self.script.get(order.task_id) or ("passed",)
        )
        word = words[min(order.attempt, len(words)) - 1]
        if word == "raise":
            raise StubFailure(f"attempt {order.attempt} of {order.task_id} raises as scripted")
        return _report(order, SCRIPTS[word], began)


def _report(order: AttemptOrder, seen: Observations, began: int) -> AttemptReport:
    manifest = {"stub": order.attempt_id, "token": order.token, "observations": seen.as_data()}
    return AttemptReport(
        decision=decide(seen),
        manifest_digest=canonical.digest(manifest),
        reward=seen.reward,
        checks_passed=None,
        checks_total=None,
        gradings=(seen.reward,),
        wall_ms=0,
        phases=(PhaseTime(Phase.AGENT, 0), PhaseTime(Phase.GRADE, 0)),
        handed_off_unix_ms=began,
        finished_unix_ms=began,
        runtime="stub",
        observations=seen.as_data(),
    )


def stub_order(held: Claim) -> AttemptOrder:
    """An order that carries the claim's identity and nothing that could be run."""
    nowhere = Path("/nonexistent")
    return AttemptOrder(
        screening_id=held.screening_id,
        slot_id=held.slot_id,
        attempt_id=held.attempt_id,
        token=held.token,
        attempt=held.number,
        task_id=held.task_id,
        index=held.k,
        task_dir=nowhere,
        task_digest="0" * 64,
        instruction="",
        test_files=(),
        solution_files=(),
        agent={},
        bundle_dir=None,
        bundle_digest=None,
        agent_image="stub",
        grader_image="stub",
        grader_has_tests=False,
        separate=False,
        agent_user=None,
        workdir=None,
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
        runtime="stub",
        evidence_root=nowhere,
    )


def plan_stub(
    ledger: Ledger,
    tasks: Sequence[str],
    *,
    tries: int = 3,
    name: str = "stub",
    window_ms: int = 0,
    start_ms: int = 0,
    cap_nusd: int | None = None,
    try_cap_nusd: int = 0,
    screening_id: str | None = None,
    conditions: Mapping[str, Any] | None = None,
    engine: EngineName = EngineName.LOCAL,
    share: int = 1,
    queue: str = "",
    limit_ms: int = 600_000,
    providers: Sequence[str] = (),
    needs: tuple[int, int] = (0, 0),
) -> str:
    """Plan a screening of made-up tasks; `name` is its identity. Returns the screening id (`screening_id`
    where it is given). Every try goes to `queue` and needs so many thousandths of cores and MiB."""
    digest = canonical.digest(name)
    planned = [PlannedTask(task, limit_ms, queue, *needs) for task in tasks]
    slots = plan_slots(planned, tries, seed=digest, start_ms=start_ms, window_ms=window_ms)
    new = NewScreening(
        identity=digest,
        pack_id="stub",
        pack_version="1",
        pack_digest=canonical.digest(list(tasks)),
        agent_id="stub",
        agent_version="1",
        agent_digest=digest,
        conditions={"tries": tries, **(conditions or {})},
        comparability=digest,
        requester="stub",
        funder="stub",
        seed=digest,
        window_ms=window_ms,
        slots=slots,
        cap_nusd=cap_nusd,
        try_cap_nusd=try_cap_nusd,
        engine=engine,
        share=share,
        providers=providers,
    )
    return plan(ledger, new, who="stub", screening_id=screening_id)
