"""Builders and hypothesis strategies for plans and verified tries, shared by the scoring tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from scoring.classify import View
from scoring.facts import Conditions, Population, Provenance
from scoring.pack_card import PackScoreCard
from scoring.pack_score import score_pack
from scoring.runs import Run, RunStatus
from scoring.tries import CertificateState, Plan, SandboxLevel, VerifiedTry
from scoring.vocabulary import OUTCOME_OF, Reason

REPO = Path(__file__).resolve().parents[3]
USD = 10**9
Slot = tuple[str, int]


@dataclass(frozen=True)
class Spec:
    """What became of one slot, without the identity that the builder adds."""

    reason: Reason = Reason.ALL_CHECKS_PASSED
    level: SandboxLevel = SandboxLevel.VERIFIED
    certificate: CertificateState = CertificateState.VALID
    public: bool = True
    cost_nusd: int | None = USD // 10


PASS = Spec()
FAIL = Spec(Reason.WRONG_OUTPUT)
TIMEOUT = Spec(Reason.TIMEOUT, cost_nusd=USD // 2)
FAULT = Spec(Reason.SANDBOX_LOST)
LOST_CERTIFICATE = Spec(certificate=CertificateState.MISSING)
LETTERS = {"P": PASS, "F": FAIL, "U": TIMEOUT, "X": FAULT, "C": LOST_CERTIFICATE, "-": None}


@dataclass(frozen=True)
class Screening:
    """A plan and what filled its slots; None is a slot without any record."""

    plan: Plan
    slots: Mapping[Slot, Spec | None]

    def tries(self) -> list[VerifiedTry]:
        return [attest(self.plan, slot, spec) for slot, spec in self.slots.items() if spec is not None]

    def card(self, view: View = View.PUBLIC) -> PackScoreCard:
        return score_pack(self.plan, self.tries(), view=view, do_nothing_floor=None)

    def put(self, slot: Slot, spec: Spec | None) -> Screening:
        return Screening(self.plan, {**self.slots, slot: spec})

    def add(self, task: str, *specs: Spec | None) -> Screening:
        """The same screening with further planned slots of `task`."""
        have = self.plan.planned.get(task, 0)
        plan = replace(self.plan, planned={**self.plan.planned, task: have + len(specs)})
        return Screening(plan, {**self.slots, **{(task, have + i): s for i, s in enumerate(specs, 1)}})


def plan_of(planned: Mapping[str, int], **changes: Any) -> Plan:
    """A plan of one pack whose tasks are the keys of `planned`."""
    values: dict[str, Any] = {
        "screening_id": "scr-1",
        "agent_id": "agent-1",
        "agent_digest": "a" * 64,
        "pack_id": "coding-core",
        "pack_version": "1",
        "pack_digest": "b" * 64,
        "pack_tasks": tuple(planned),
        "planned": dict(planned),
        "declared_tries": 3,
        "judge": "programmatic",
        "pack_is_current": True,
    }
    return Plan(**{**values, **changes})


def attest(plan: Plan, slot: Slot, spec: Spec, **changes: Any) -> VerifiedTry:
    """The verified try of a slot, with a certificate digest of its own."""
    missing = spec.certificate is CertificateState.MISSING
    digest = hashlib.sha256(f"{slot[0]}\0{slot[1]}".encode()).hexdigest()
    values: dict[str, Any] = {
        "screening_id": plan.screening_id,
        "agent_id": plan.agent_id,
        "agent_digest": plan.agent_digest,
        "pack_digest": plan.pack_digest,
        "task_id": slot[0],
        "index": slot[1],
        "attempt": 1,
        "outcome": OUTCOME_OF[spec.reason],
        "reason": spec.reason,
        "certificate": spec.certificate,
        "certificate_digest": None if missing else digest,
        "level": spec.level,
        "public": spec.public,
        "cost_nusd": spec.cost_nusd,
        "standard_cost_nusd": changes.get("cost_nusd", spec.cost_nusd),
        "metered": None if spec.cost_nusd is None else True,
        "wall_ms": 1000,
    }
    return VerifiedTry.attest(**{**values, **changes})


def screening(*tasks: str, declared: int = 3, **plan_changes: Any) -> Screening:
    """`screening("PPF", "P-U")`: one word per task t1, t2, ..., one letter per planned slot (`LETTERS`)."""
    names = [f"t{number}" for number in range(1, len(tasks) + 1)]
    plan = plan_of({n: len(word) for n, word in zip(names, tasks, strict=True)}, declared_tries=declared)
    slots = {(n, i): LETTERS[c] for n, word in zip(names, tasks, strict=True) for i, c in enumerate(word, 1)}
    return Screening(replace(plan, **plan_changes), slots)


def specs(
    public: st.SearchStrategy[bool] | None = None,
    reasons: st.SearchStrategy[Reason] | None = None,
) -> st.SearchStrategy[Spec]:
    """Any end of a try; passes and failures are drawn as often as all other reasons together."""
    common = st.sampled_from([Reason.ALL_CHECKS_PASSED, Reason.WRONG_OUTPUT])
    return st.builds(
        Spec,
        reason=st.one_of(common, st.sampled_from(Reason)) if reasons is None else reasons,
        level=st.sampled_from([SandboxLevel.VERIFIED, SandboxLevel.VERIFIED, *SandboxLevel]),
        certificate=st.sampled_from([CertificateState.VALID, CertificateState.VALID, *CertificateState]),
        public=st.booleans() if public is None else public,
        cost_nusd=st.one_of(st.none(), st.integers(0, 10**12)),
    )


@st.composite
def screenings(
    draw: st.DrawFn, public: st.SearchStrategy[bool] | None = None, min_tasks: int = 1, gaps: bool = True
) -> Screening:
    """A screening of 1..4 tasks with 0..5 planned slots each; with `gaps` a slot may have no record."""
    names = [f"t{number}" for number in range(1, draw(st.integers(min_tasks, 4)) + 1)]
    planned = {name: draw(st.integers(0, 5)) for name in names}
    withheld = frozenset(draw(st.sets(st.sampled_from(names), max_size=1)))
    plan = plan_of(planned, declared_tries=draw(st.integers(1, 4)), withheld_tasks=withheld)
    one = specs(public)
    filled = st.one_of(one, one, one, st.none()) if gaps else one
    slots = {(name, index): draw(filled) for name in names for index in range(1, planned[name] + 1)}
    return Screening(plan, slots)


VIEWS = st.sampled_from(View)


def conditions_of(**changes: Any) -> Conditions:
    """The conditions of an independently evaluated screening without network."""
    values: dict[str, Any] = {
        "suite_version": "coding-core@1",
        "timeouts_ms": (("t1", 60_000),),
        "step_limit": 50,
        "network_policy": "none",
        "permitted_tools": frozenset({"shell", "edit"}),
        "hardware_class": "c4",
        "runtime": "runc",
        "repeats": 3,
        "provenance": Provenance.INDEPENDENT,
    }
    return Conditions(**{**values, **changes})


def own_suite(made: Screening) -> Screening:
    """The same screening, said to be of the suite that composite, radar and repeatability read."""
    return Screening(replace(made.plan, population=Population.OWN_SUITE), made.slots)


def run(number: int = 1, **changes: Any) -> Run:
    """A completed, successful, fast and cheap run of agent-1."""
    values: dict[str, Any] = {
        "run_id": f"run-{number:06d}",
        "agent_id": "agent-1",
        "task_id": "t1",
        "status": RunStatus.COMPLETED,
        "success": True,
        "latency_ms": Fraction(500),
        "cost_usd": Fraction("0.001"),
        "steps": 3,
        "finished_unix_s": number,
    }
    return Run(**{**values, **changes})


def runs_with(successes: int, failures: int, **changes: Any) -> list[Run]:
    """Completed runs, equal but for their outcome."""
    outcomes = [True] * successes + [False] * failures
    return [run(number, success=made, **changes) for number, made in enumerate(outcomes, 1)]


@st.composite
def run_lists(draw: st.DrawFn, max_size: int = 12, complete: bool = False) -> list[Run]:
    """Recorded runs of one agent; with `complete` every figure and outcome is known."""

    def known(values: st.SearchStrategy[Any]) -> Any:
        return draw(values if complete else st.one_of(values, values, st.none()))

    return [
        run(
            number,
            task_id=draw(st.sampled_from(["t1", "t2", "t3"])),
            status=draw(st.sampled_from([RunStatus.COMPLETED, RunStatus.COMPLETED, *RunStatus])),
            success=known(st.booleans()),
            latency_ms=known(st.fractions(0, 20_000, max_denominator=10)),
            cost_usd=known(st.fractions(0, 1, max_denominator=10_000)),
            steps=known(st.integers(0, 20)),
            finished_unix_s=draw(st.integers(0, 50)),
        )
        for number in range(draw(st.integers(0, max_size)))
    ]
