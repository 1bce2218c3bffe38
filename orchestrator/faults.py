"""One pure, total function from observations to how an attempt ended (DESIGN section 7).

The rules are data: the first row of `RULES` whose condition holds decides, in the order of
reference/sandbox.md section 5 (integrity and host faults, our own kill, counters, death, verdict). Each row
names the observations that it rests on, and these are certified with the decision. Text printed by an
agent is not an observation.

What a wrong answer costs: a platform fault read as the agent's lowers a score unjustly; an agent's
failure read as the platform's buys a re-run. Where the facts allow both, the row says platform and sets
`suspect`, and re-runs are capped. A suspect end that comes again for the same agent and task on another
worker has lost its excuse: where the row says `turns`, it is then the agent's failure, kept for review.
[docs/faults.md](../docs/faults.md) shows the rows in words; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from orchestrator.observations import Clock, Death, Observations, VerdictProblem
from scoring.vocabulary import OUTCOME_OF, Outcome, Phase, Reason


@dataclass(frozen=True)
class Decision:
    """The end of an attempt: outcome, its reason, the phase, the rule that decided and its evidence."""

    outcome: Outcome
    reason: Reason
    phase: Phase
    rule: str
    evidence: tuple[str, ...]
    suspect: bool = False


@dataclass(frozen=True)
class Rule:
    """One row: `when` holds -> `reason` in `phase`, resting on the observations named in `evidence`.

    `suspect`: the agent may have brought it about. `turns`: nothing that two workers share explains it, so
    that the same end on a second one speaks against the agent (a provider or a grader is shared).
    """

    name: str
    when: Callable[[Observations], bool]
    reason: Reason
    phase: Phase
    evidence: tuple[str, ...]
    suspect: bool = False
    turns: bool = False


TWICE: Final = "suspect-on-two-workers"
"""The rule named by a decision that `turns` made; its first evidence is that of the row itself."""

_FOREIGN: Final = (Death.FOREIGN_KILL, Death.REMOVED)
_OWN: Final = (Death.SELF, Death.OOM)
_FORGED: Final = (VerdictProblem.CONTRADICTORY, VerdictProblem.FOREIGN_FILE)


def _never_ran(seen: Observations) -> bool:
    return not seen.agent_started


RULES: Final[tuple[Rule, ...]] = (
    # A worker that vanished has told us nothing else; the host's clock can still convict the agent.
    Rule(
        "overrun-on-host",
        lambda s: s.worker_lost and s.host_shows_overrun,
        Reason.DEADLINE_OVERRUN,
        Phase.AGENT,
        ("worker_lost", "host_shows_overrun"),
    ),
    Rule("worker-lost", lambda s: s.worker_lost, Reason.WORKER_LOST, Phase.RECORD, ("worker_lost",)),
    # Before the agent had control nothing can be its doing.
    Rule(
        "image-mismatch",
        lambda s: s.image_mismatch,
        Reason.IMAGE_MISMATCH,
        Phase.PREPARE,
        ("image_mismatch",),
    ),
    Rule("image-missing", lambda s: s.image_missing, Reason.IMAGE_MISSING, Phase.PREPARE, ("image_missing",)),
    Rule(
        "sandbox-start",
        lambda s: _never_ran(s) and s.start_error is not None,
        Reason.SANDBOX_START,
        Phase.PREPARE,
        ("start_error", "agent_started"),
    ),
    Rule(
        "agent-not-startable",
        lambda s: _never_ran(s) and s.agent_not_startable,
        Reason.AGENT_NOT_STARTABLE,
        Phase.PREPARE,
        ("agent_not_startable", "agent_started"),
    ),
    Rule(
        "engine-before-agent",
        lambda s: _never_ran(s) and s.engine_error is not None,
        Reason.ENGINE_ERROR,
        Phase.PREPARE,
        ("engine_error", "agent_started"),
    ),
    Rule(
        "evidence-before-agent",
        lambda s: _never_ran(s) and s.evidence_error is not None,
        Reason.EVIDENCE_UNWRITABLE,
        Phase.PREPARE,
        ("evidence_error", "agent_started"),
    ),
    # An end without evidence cannot be certified, whoever caused it.
    Rule(
        "evidence",
        lambda s: s.evidence_error is not None,
        Reason.EVIDENCE_UNWRITABLE,
        Phase.RECORD,
        ("evidence_error",),
        suspect=True,  # an agent that filled the disk gets no conviction, and no third re-run either
    ),
    # A kill, pause or restart from outside comes before our own clocks: it may be why a clock ran out.
    Rule(
        "engine-restart",
        lambda s: s.agent_death is Death.ENGINE_RESTART,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("agent_death",),
    ),
    Rule(
        "killed-from-outside",
        lambda s: s.agent_death in _FOREIGN,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("agent_death",),
    ),
    Rule(
        "host-out-of-memory",
        lambda s: s.agent_host_oom is True and s.reward_passes is not True,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("agent_host_oom", "agent_oom_kills", "agent_max_memory_bytes"),
        suspect=True,  # the sandbox was within its limit, and still among those who used the memory up
    ),
    # A task's own service that somebody took away is no different from the sandbox itself.
    Rule(
        "sidecar-lost",
        lambda s: s.sidecar_death in (*_FOREIGN, Death.ENGINE_RESTART),
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("sidecar", "sidecar_death"),
    ),
    Rule(
        "sidecar-host-out-of-memory",
        lambda s: s.sidecar_host_oom is True and s.reward_passes is not True,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("sidecar", "sidecar_death", "sidecar_host_oom"),
        suspect=True,
    ),
    # One that died by itself may have been asked to: whether it stands without an agent, the gate has seen.
    Rule(
        "unproven-sidecar-death",
        lambda s: s.sidecar_death in _OWN and not s.grader_proven and s.reward_passes is not True,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("sidecar", "sidecar_death", "grader_proven"),
        suspect=True,  # its image is shared by all workers, so that a second one proves nothing
    ),
    # Our own kill: which clock or cap fired is known to us alone.
    Rule("cost-cap", lambda s: s.cost_cap_hit, Reason.COST_CAP, Phase.AGENT, ("cost_cap_hit",)),
    Rule("step-cap", lambda s: s.step_cap_hit, Reason.STEP_CAP, Phase.AGENT, ("step_cap_hit",)),
    Rule(
        "network-violation",
        lambda s: s.network_violation,
        Reason.NETWORK_VIOLATION,
        Phase.AGENT,
        ("network_violation",),
    ),
    # The host had lost touch with the ledger; somebody else may be running this try by now.
    Rule("lease-lost", lambda s: s.lease_lost, Reason.WORKER_LOST, Phase.AGENT, ("lease_lost",)),
    Rule(
        "provider-outage",
        lambda s: s.provider_outage,
        Reason.PROVIDER_OUTAGE,
        Phase.AGENT,
        ("provider_outage",),
        suspect=True,  # an agent can provoke it, by a flood of calls for instance
    ),
    Rule(
        "relay-fault",
        lambda s: s.relay_fault,
        Reason.RELAY_FAULT,
        Phase.AGENT,
        ("relay_fault",),
        suspect=True,  # the relay reads what the agent sends
    ),
    Rule(
        "wall-clock",
        lambda s: s.agent_clock is Clock.WALL,
        Reason.TIMEOUT,
        Phase.AGENT,
        ("agent_clock", "agent_clock_value"),
    ),
    Rule(
        "output-cap",
        lambda s: s.agent_clock is Clock.OUTPUT,
        Reason.OUTPUT_LIMIT,
        Phase.AGENT,
        ("agent_clock", "agent_clock_value"),
    ),
    Rule(
        "engine-with-agent",
        lambda s: s.engine_error is not None and s.engine_error_phase == Phase.AGENT,
        Reason.ENGINE_ERROR,
        Phase.AGENT,
        ("engine_error", "engine_error_phase"),
        suspect=True,
        turns=True,
    ),
    # Death inside the sandbox's own limits is the agent's.
    Rule(
        "oom-death",
        lambda s: s.agent_death is Death.OOM,
        Reason.OUT_OF_MEMORY,
        Phase.AGENT,
        ("agent_death", "agent_oom_kills", "agent_max_memory_bytes"),
    ),
    Rule(
        "runtime-crash",
        lambda s: s.agent_death is Death.SELF and s.agent_runtime_crash,
        Reason.SANDBOX_LOST,
        Phase.AGENT,
        ("agent_death", "agent_runtime_crash", "agent_pids_limit_hits", "agent_max_memory_bytes"),
        suspect=True,
        turns=True,
    ),
    Rule("self-death", lambda s: s.agent_death is Death.SELF, Reason.CRASH, Phase.AGENT, ("agent_death",)),
    Rule(
        "stream-lost",
        lambda s: s.stream_lost,
        Reason.ENGINE_ERROR,
        Phase.AGENT,
        ("stream_lost",),
        suspect=True,
        turns=True,
    ),
    Rule(
        "artifact-overflow",
        lambda s: s.artifact_overflow,
        Reason.DISK_LIMIT,
        Phase.AGENT,
        ("artifact_overflow",),
    ),
    # The grade. The verifier's image, start and engine are ours whatever the agent left behind.
    Rule(
        "grader-image",
        lambda s: s.grader_image_missing,
        Reason.IMAGE_MISSING,
        Phase.GRADE,
        ("grader_image_missing",),
    ),
    Rule(
        "grader-start",
        lambda s: s.grader_start_error is not None,
        Reason.GRADER_FAULT,
        Phase.GRADE,
        ("grader_start_error",),
    ),
    Rule(
        "engine-with-grader",
        lambda s: s.engine_error is not None and s.engine_error_phase == Phase.GRADE,
        Reason.ENGINE_ERROR,
        Phase.GRADE,
        ("engine_error", "engine_error_phase"),
        suspect=True,  # what the agent left goes through these calls
    ),
    Rule(
        "grader-killed-from-outside",
        lambda s: s.grader_death in (*_FOREIGN, Death.ENGINE_RESTART),
        Reason.GRADER_FAULT,
        Phase.GRADE,
        ("grader_death",),
    ),
    Rule(
        "grader-host-out-of-memory",
        lambda s: s.grader_host_oom is True and s.reward_passes is not True,
        Reason.GRADER_FAULT,
        Phase.GRADE,
        ("grader_host_oom",),
    ),
    Rule(
        "engine-at-record",
        lambda s: s.engine_error is not None,
        Reason.ENGINE_ERROR,
        Phase.RECORD,
        ("engine_error", "engine_error_phase"),
    ),
    Rule(
        "forged-verdict",
        lambda s: s.verdict_problem in _FORGED and s.grader_proven,
        Reason.TAMPERING,
        Phase.GRADE,
        ("verdict_problem", "grader_proven"),
    ),
    # A verifier that never proved itself with the oracle cannot convict an agent by its own silence.
    Rule(
        "unproven-grader-silent",
        lambda s: s.reward_passes is None and not s.grader_proven,
        Reason.GRADER_FAULT,
        Phase.GRADE,
        ("verdict_problem", "grader_clock", "grader_proven"),
        suspect=True,
    ),
    Rule(
        "no-verdict",
        lambda s: s.reward_passes is None,
        Reason.NO_VERDICT,
        Phase.GRADE,
        ("verdict_problem", "grader_clock", "grader_death", "grader_proven"),
    ),
    Rule(
        "verdict-pass",
        lambda s: s.reward_passes is True,
        Reason.ALL_CHECKS_PASSED,
        Phase.GRADE,
        ("reward", "reward_passes"),
    ),
    # From here on the verdict is a fail; the counters only say which kind.
    Rule(
        "fail-after-oom",
        lambda s: (s.agent_oom_kills or 0) > 0 and s.agent_exit_code not in (0, None),
        Reason.OUT_OF_MEMORY,
        Phase.AGENT,
        ("agent_oom_kills", "agent_exit_code", "reward"),
    ),
    Rule(
        "fail-at-pid-limit",
        lambda s: (s.agent_pids_limit_hits or 0) > 0 and s.agent_exit_code not in (0, None),
        Reason.PID_LIMIT,
        Phase.AGENT,
        ("agent_pids_limit_hits", "agent_exit_code", "reward"),
    ),
    Rule(
        "fail-after-sidecar-death",
        lambda s: s.sidecar_death in _OWN,
        Reason.CRASH,
        Phase.AGENT,
        ("sidecar", "sidecar_death", "grader_proven", "reward"),
    ),
    Rule(
        "fail-with-exit-code",
        lambda s: s.agent_exit_code not in (0, None),
        Reason.CRASH,
        Phase.AGENT,
        ("agent_exit_code", "reward"),
    ),
    Rule("verdict-fail", lambda s: True, Reason.WRONG_OUTPUT, Phase.GRADE, ("reward", "reward_passes")),
)


def decide(seen: Observations) -> Decision:
    """The first rule that holds decides; the last one always holds, so the function is total.

    Without evidence nobody is convicted, so that nothing turns while it could not be stored.
    """
    rule = next(rule for rule in RULES if rule.when(seen))
    if rule.turns and seen.suspect_elsewhere and seen.evidence_error is None:
        evidence = (*rule.evidence, "suspect_elsewhere")
        return Decision(OUTCOME_OF[Reason.CRASH], Reason.CRASH, rule.phase, TWICE, evidence, suspect=True)
    return Decision(OUTCOME_OF[rule.reason], rule.reason, rule.phase, rule.name, rule.evidence, rule.suspect)
