"""The fault rules: total, ordered, resting on named observations, deaf to anything an agent prints."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.faults import RULES, TWICE, decide
from orchestrator.observations import Clock, Death, Observations, VerdictProblem
from scoring.vocabulary import OUTCOME_OF, Outcome, Phase, Reason

RAN = {"agent_started": True, "grader_started": True, "grader_proven": True}
FELL = {**RAN, "sidecar": "db", "sidecar_death": Death.SELF}
LOST = (Reason.SANDBOX_LOST, Phase.AGENT)

_BY_TYPE = {
    "bool": st.booleans(),
    "int | None": st.none() | st.integers(0, 1 << 40),
    "str | None": st.none()
    | st.sampled_from(["create:NotFound", "1", "0", "agent", "grade", "prepare", "record"]),
    "bool | None": st.none() | st.booleans(),
    "Clock | None": st.none() | st.sampled_from(Clock),
    "Death | None": st.none() | st.sampled_from(Death),
    "VerdictProblem | None": st.none() | st.sampled_from(VerdictProblem),
}
ANY = st.builds(Observations, **{f.name: _BY_TYPE[str(f.type)] for f in dataclasses.fields(Observations)})


@given(ANY)
@settings(max_examples=500)
def test_total_and_consistent(seen: Observations) -> None:
    """DESIGN 7: every observation vector has exactly one end, whose outcome is that of its reason."""
    decision = decide(seen)
    assert decision.outcome is OUTCOME_OF[decision.reason]
    assert decision.phase in Phase
    names = {f.name for f in dataclasses.fields(Observations)}
    assert decision.evidence and set(decision.evidence) <= names


@given(ANY)
@settings(max_examples=500)
def test_a_pass_needs_a_passing_verdict_and_nothing_against_it(seen: Observations) -> None:
    """No fact other than the verifier's verdict makes a pass; any own kill or death prevents it."""
    if decide(seen).outcome is Outcome.PASSED:
        assert seen.reward_passes is True
        assert seen.agent_clock is None and seen.agent_death is None and seen.evidence_error is None
        assert not seen.worker_lost and not seen.image_mismatch and not seen.cost_cap_hit


@given(ANY)
@settings(max_examples=500)
def test_nobody_is_convicted_without_evidence(seen: Observations) -> None:
    """sandbox.md 5.16: an end whose evidence could not be kept is never the agent's."""
    if seen.evidence_error is not None and not seen.worker_lost:
        assert decide(seen).outcome in (Outcome.PLATFORM_FAULT, Outcome.NOT_EVALUABLE)


@given(ANY)
@settings(max_examples=500)
def test_not_evaluable_only_before_the_agent_ran(seen: Observations) -> None:
    """DESIGN 7: `not_evaluable` only when the agent could not be installed or started."""
    if decide(seen).outcome is Outcome.NOT_EVALUABLE:
        assert not seen.agent_started


@given(seen=ANY, code=st.integers(0, 255), hits=st.integers(0, 5))
@settings(max_examples=300)
def test_what_an_agent_controls_never_buys_a_re_run(seen: Observations, code: int, hits: int) -> None:
    """sandbox.md section 4: exit code and cgroup counters, which an agent can set, never turn an end into
    a platform fault."""
    before = decide(seen).outcome
    after = decide(
        dataclasses.replace(seen, agent_exit_code=code, agent_oom_kills=hits, agent_pids_limit_hits=hits)
    ).outcome
    assert (before is Outcome.PLATFORM_FAULT) == (after is Outcome.PLATFORM_FAULT)


@pytest.mark.parametrize(
    ("facts", "reason", "phase"),
    [
        # The rows of reference/sandbox.md section 5, harbor.md section 9 and inspect.md section 5.
        ({"image_missing": True}, Reason.IMAGE_MISSING, Phase.PREPARE),
        (
            {"image_mismatch": True, "start_error": "SandboxMismatch:Image"},
            Reason.IMAGE_MISMATCH,
            Phase.PREPARE,
        ),
        ({"start_error": "start:APIError"}, Reason.SANDBOX_START, Phase.PREPARE),
        ({"engine_error": "create:ConnectionError"}, Reason.ENGINE_ERROR, Phase.PREPARE),
        ({"evidence_error": "EvidenceError"}, Reason.EVIDENCE_UNWRITABLE, Phase.PREPARE),
        ({"agent_not_startable": True}, Reason.AGENT_NOT_STARTABLE, Phase.PREPARE),
        ({**RAN, "agent_clock": Clock.WALL}, Reason.TIMEOUT, Phase.AGENT),
        ({**RAN, "agent_clock": Clock.OUTPUT}, Reason.OUTPUT_LIMIT, Phase.AGENT),
        (
            {**RAN, "agent_clock": Clock.WALL, "agent_death": Death.FOREIGN_KILL},
            Reason.SANDBOX_LOST,
            Phase.AGENT,
        ),
        ({**RAN, "agent_death": Death.FOREIGN_KILL}, Reason.SANDBOX_LOST, Phase.AGENT),
        ({**RAN, "agent_death": Death.REMOVED}, Reason.SANDBOX_LOST, Phase.AGENT),
        ({**RAN, "agent_death": Death.ENGINE_RESTART}, Reason.SANDBOX_LOST, Phase.AGENT),
        ({**RAN, "agent_death": Death.OOM, "agent_oom_kills": 1}, Reason.OUT_OF_MEMORY, Phase.AGENT),
        ({**RAN, "agent_death": Death.SELF, "agent_exit_code": 137}, Reason.CRASH, Phase.AGENT),
        (
            {**RAN, "engine_error": "exec_start:ReadTimeout", "engine_error_phase": "agent"},
            Reason.ENGINE_ERROR,
            Phase.AGENT,
        ),
        ({**RAN, "stream_lost": True}, Reason.ENGINE_ERROR, Phase.AGENT),
        ({**RAN, "agent_host_oom": True, "agent_exit_code": 137}, Reason.SANDBOX_LOST, Phase.AGENT),
        ({**RAN, "agent_host_oom": True, "agent_clock": Clock.WALL}, Reason.SANDBOX_LOST, Phase.AGENT),
        ({**RAN, "agent_host_oom": True, "reward_passes": True}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        (
            {**RAN, "agent_death": Death.SELF, "agent_runtime_crash": True, "agent_pids_limit_hits": 0},
            Reason.SANDBOX_LOST,
            Phase.AGENT,
        ),
        ({**RAN, "grader_host_oom": True}, Reason.GRADER_FAULT, Phase.GRADE),
        ({**RAN, "grader_host_oom": True, "reward_passes": True}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        ({**RAN, "artifact_overflow": True}, Reason.DISK_LIMIT, Phase.AGENT),
        ({**RAN, "provider_outage": True}, Reason.PROVIDER_OUTAGE, Phase.AGENT),
        ({**RAN, "relay_fault": True}, Reason.RELAY_FAULT, Phase.AGENT),
        ({**RAN, "lease_lost": True, "provider_outage": True}, Reason.WORKER_LOST, Phase.AGENT),
        ({**RAN, "cost_cap_hit": True}, Reason.COST_CAP, Phase.AGENT),
        ({**RAN, "step_cap_hit": True}, Reason.STEP_CAP, Phase.AGENT),
        ({**RAN, "network_violation": True}, Reason.NETWORK_VIOLATION, Phase.AGENT),
        ({**RAN, "grader_image_missing": True}, Reason.IMAGE_MISSING, Phase.GRADE),
        ({**RAN, "grader_start_error": "start:APIError"}, Reason.GRADER_FAULT, Phase.GRADE),
        ({**RAN, "grader_death": Death.FOREIGN_KILL}, Reason.GRADER_FAULT, Phase.GRADE),
        ({**RAN, "grader_death": Death.OOM}, Reason.NO_VERDICT, Phase.GRADE),
        ({**RAN, "grader_clock": Clock.WALL}, Reason.NO_VERDICT, Phase.GRADE),
        ({**RAN, "grader_clock": Clock.WALL, "grader_proven": False}, Reason.GRADER_FAULT, Phase.GRADE),
        ({**RAN, "verdict_problem": VerdictProblem.MISSING}, Reason.NO_VERDICT, Phase.GRADE),
        (
            {**RAN, "verdict_problem": VerdictProblem.OUT_OF_RANGE, "grader_proven": False},
            Reason.GRADER_FAULT,
            Phase.GRADE,
        ),
        ({**RAN, "verdict_problem": VerdictProblem.CONTRADICTORY}, Reason.TAMPERING, Phase.GRADE),
        (
            {**RAN, "reward_passes": True, "evidence_error": "EvidenceError"},
            Reason.EVIDENCE_UNWRITABLE,
            Phase.RECORD,
        ),
        ({**RAN, "reward_passes": True}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        ({**RAN, "reward_passes": True, "agent_exit_code": 1}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        ({**RAN, "reward_passes": True, "agent_oom_kills": 3}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        ({**RAN, "reward_passes": False}, Reason.WRONG_OUTPUT, Phase.GRADE),
        ({**RAN, "reward_passes": False, "agent_exit_code": 137}, Reason.CRASH, Phase.AGENT),
        (
            {**RAN, "reward_passes": False, "agent_exit_code": 1, "agent_oom_kills": 1},
            Reason.OUT_OF_MEMORY,
            Phase.AGENT,
        ),
        (
            {**RAN, "reward_passes": False, "agent_exit_code": 1, "agent_pids_limit_hits": 2},
            Reason.PID_LIMIT,
            Phase.AGENT,
        ),
        (
            {**RAN, "reward_passes": False, "agent_oom_kills": 1, "agent_exit_code": 0},
            Reason.WRONG_OUTPUT,
            Phase.GRADE,
        ),
        (
            {**RAN, "agent_clock": Clock.WALL, "evidence_error": "EvidenceError"},
            Reason.EVIDENCE_UNWRITABLE,
            Phase.RECORD,
        ),
        ({**FELL, "sidecar_death": Death.FOREIGN_KILL, "reward_passes": True}, *LOST),
        ({**FELL, "sidecar_death": Death.ENGINE_RESTART}, *LOST),
        ({**FELL, "sidecar_host_oom": True, "reward_passes": False}, *LOST),
        ({**FELL, "sidecar_host_oom": True, "reward_passes": True}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        ({**FELL, "grader_proven": False, "reward_passes": False}, *LOST),
        ({**FELL, "grader_proven": False, "agent_clock": Clock.WALL}, *LOST),
        ({**FELL, "agent_clock": Clock.WALL}, Reason.TIMEOUT, Phase.AGENT),
        ({**FELL, "reward_passes": False}, Reason.CRASH, Phase.AGENT),
        ({**FELL, "sidecar_death": Death.OOM, "reward_passes": False}, Reason.CRASH, Phase.AGENT),
        # A task may want a service stopped: then its end is the work.
        ({**FELL, "reward_passes": True}, Reason.ALL_CHECKS_PASSED, Phase.GRADE),
        (
            {**FELL, "grader_proven": False, "reward_passes": True},
            Reason.ALL_CHECKS_PASSED,
            Phase.GRADE,
        ),
        ({"worker_lost": True}, Reason.WORKER_LOST, Phase.RECORD),
        ({"worker_lost": True, "host_shows_overrun": True}, Reason.DEADLINE_OVERRUN, Phase.AGENT),
    ],
)
def test_fault_table(facts: dict[str, object], reason: Reason, phase: Phase) -> None:
    """One row of the fault tables each."""
    decision = decide(Observations(**facts))  # type: ignore[arg-type]
    assert (decision.reason, decision.phase) == (reason, phase)


SUSPECT = {
    "evidence",
    "host-out-of-memory",
    "provider-outage",
    "relay-fault",
    "engine-with-agent",
    "runtime-crash",
    "stream-lost",
    "engine-with-grader",
    "unproven-grader-silent",
    "sidecar-host-out-of-memory",
    "unproven-sidecar-death",
}
"""Ends that an agent could have a hand in; every other platform fault is seen to be from outside of it."""


def test_which_platform_faults_are_suspect() -> None:
    """sandbox.md section 5: ambiguous means platform with `suspect`; an agent's own end is never suspect."""
    assert {rule.name for rule in RULES if rule.suspect} == SUSPECT
    for rule in RULES:
        if rule.suspect or rule.turns:
            assert OUTCOME_OF[rule.reason] is Outcome.PLATFORM_FAULT, rule.name
        assert rule.suspect or not rule.turns, rule.name


def test_only_what_two_workers_do_not_share_turns() -> None:
    """A provider, a relay's key or a grader is shared by all workers: on the second one it proves nothing."""
    assert {rule.name for rule in RULES if rule.turns} == {
        "engine-with-agent",
        "runtime-crash",
        "stream-lost",
    }


@given(ANY)
@settings(max_examples=500)
def test_a_suspect_end_on_two_workers_turns_to_the_agent_and_nothing_else_does(seen: Observations) -> None:
    """sandbox.md section 5: the same agent and task, suspect on two workers, is the agent's for review."""
    once = decide(dataclasses.replace(seen, suspect_elsewhere=False))
    twice = decide(dataclasses.replace(seen, suspect_elsewhere=True))
    row = next(rule for rule in RULES if rule.name == once.rule)
    if row.turns and seen.evidence_error is None:
        assert (twice.outcome, twice.reason, twice.rule) == (Outcome.FAILED, Reason.CRASH, TWICE)
        assert twice.suspect and twice.phase is once.phase
        assert twice.evidence == (*once.evidence, "suspect_elsewhere")
    else:
        assert twice == once


def test_every_evidence_name_is_an_observation_that_the_rule_reads() -> None:
    """The named evidence is what decided: with all of it at its default no platform rule holds."""
    default = Observations()
    for rule in RULES[:-1]:
        (seen,) = [one for one in _spread() if decide(one).rule == rule.name][:1]
        blank = {name: getattr(default, name) for name in rule.evidence}
        if rule.name not in ("unproven-grader-silent", "no-verdict"):  # there the silence itself is the fact
            assert not rule.when(dataclasses.replace(seen, **blank)), rule.name


def test_every_rule_is_reachable_and_named_once() -> None:
    """A rule that nothing can reach is a promise that is not kept."""
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    reached = {decide(seen).rule for seen in _spread()}
    assert reached == set(names)


def _spread() -> list[Observations]:
    marks = test_fault_table.pytestmark  # type: ignore[attr-defined]
    rows = next(mark.args[1] for mark in marks if mark.name == "parametrize")
    extra = [
        {**RAN, "engine_error": "get_archive:APIError", "engine_error_phase": "grade"},
        {
            **RAN,
            "engine_error": "get_archive:APIError",
            "engine_error_phase": "record",
            "reward_passes": True,
        },
    ]
    return [Observations(**facts) for facts in [*(row[0] for row in rows), *extra]]
