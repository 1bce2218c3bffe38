"""What `rate-ai-agent/1` counts: attempts in the document's words, and how a verified try becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scoring.classify import COUNTED, PASSES, TryClass, View, classify
from scoring.domain import count, pair
from scoring.errors import MalformedInputError
from scoring.facts import TaskTags
from scoring.pack_tally import tally
from scoring.tries import Plan, VerifiedTry
from scoring.vocabulary import Reason


class End(StrEnum):
    """How an attempt ended (S4-13, S4-14). `COMPLETED` and not passed is wrong output."""

    COMPLETED = "completed"
    TIMEOUT = "timeout"
    CRASH = "crash"
    TOOL_ERROR = "tool_error"
    PLATFORM_FAULT = "platform_fault"
    NOT_EVALUABLE = "not_evaluable"
    NOT_VERIFIED = "not_verified"
    LEFT_OUT_CERTIFICATE = "left_out_certificate"


FAILURES: Final = (End.TIMEOUT, End.CRASH, End.TOOL_ERROR)
"""In the failure rate; wrong output is not (S4-13)."""
COUNTED_ENDS: Final = frozenset({End.COMPLETED, *FAILURES})
"""In the denominator; platform faults and what was not evaluable or verified are logged only (S4-14)."""

NO_TAGS: Final = TaskTags((), None)


@dataclass(frozen=True)
class Attempt:
    """One attempt on one task. Times in ms from hand-off to end, queueing included (S4-12); `cost_nusd` is
    integer nano-USD of metered tokens at list price on the run date plus paid tool calls, None where
    unknown (S4-11); check counts are None where nothing was graded. `reason` is our word for the end."""

    task: str
    passed: bool
    end: End
    cost_nusd: int | None
    time_ms: int
    checks_passed: int | None = None
    checks_total: int | None = None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        for value, kind in ((self.passed, bool), (self.end, End), (self.task, str)):
            if not isinstance(value, kind):
                raise MalformedInputError("attempt", f"{value!r:.40} is no {kind.__name__}")
        if self.passed and self.end is not End.COMPLETED:
            raise MalformedInputError("passed-end", f"an attempt that ended as {self.end} did not pass")
        count("time_ms", self.time_ms)
        if self.cost_nusd is not None:
            count("cost_nusd", self.cost_nusd)
        if (self.checks_passed is None) != (self.checks_total is None):
            raise MalformedInputError("check-count", "passed and total checks go together")
        if self.checks_total is not None:
            pair("checks", self.checks_passed, self.checks_total)
            if self.passed and self.checks_passed != self.checks_total:
                raise MalformedInputError("check-count", "a passing attempt passes every check (S4-5)")

    @property
    def counted(self) -> bool:
        """Whether it is in the denominator."""
        return self.end in COUNTED_ENDS


END_OF_REASON: Final[dict[Reason, End]] = {
    Reason.ALL_CHECKS_PASSED: End.COMPLETED,
    Reason.WRONG_OUTPUT: End.COMPLETED,
    Reason.NO_VERDICT: End.COMPLETED,
    Reason.TAMPERING: End.COMPLETED,
    Reason.TIMEOUT: End.TIMEOUT,
    Reason.DEADLINE_OVERRUN: End.TIMEOUT,
    Reason.COST_CAP: End.TIMEOUT,
    Reason.STEP_CAP: End.TIMEOUT,
    Reason.NETWORK_VIOLATION: End.CRASH,
    Reason.OUT_OF_MEMORY: End.CRASH,
    Reason.DISK_LIMIT: End.CRASH,
    Reason.PID_LIMIT: End.CRASH,
    Reason.OUTPUT_LIMIT: End.CRASH,
    Reason.CRASH: End.CRASH,
    Reason.TOOL_ERROR: End.TOOL_ERROR,
}
"""Our reasons of passes and failures in the document's classes; total over both outcomes."""

_OUTSIDE: Final = {
    TryClass.PLATFORM_FAULT: End.PLATFORM_FAULT,
    TryClass.NOT_EVALUABLE: End.NOT_EVALUABLE,
    TryClass.NOT_VERIFIED: End.NOT_VERIFIED,
    TryClass.LEFT_OUT_CERTIFICATE: End.LEFT_OUT_CERTIFICATE,
}


def attempt_of(try_: VerifiedTry, class_: TryClass) -> Attempt:
    """One verified try, already classified and not hidden, as an attempt."""
    passed = class_ in PASSES
    # A pass with some of its checks failing cannot come from a grader of this method; the counts of other
    # graders (a reward above a threshold) are not hidden checks in the sense of S4-5.
    graded = try_.checks_total is not None and not (passed and try_.checks_passed != try_.checks_total)
    return Attempt(
        task=try_.task_id,
        passed=passed,
        end=END_OF_REASON[try_.reason] if class_ in COUNTED else _OUTSIDE[class_],
        cost_nusd=try_.run_date_cost_nusd,
        time_ms=try_.wall_ms,
        checks_passed=try_.checks_passed if graded else None,
        checks_total=try_.checks_total if graded else None,
        reason=try_.reason,
    )


def attempts_of(plan: Plan, tries: Sequence[VerifiedTry], view: View) -> tuple[Attempt, ...]:
    """The tries that `view` may see, as attempts, sorted by slot; a planned slot without one is an attempt
    that the platform never recorded.

    Refuses what no screening can produce, and a try under another provenance label than its plan's (S4-1),
    with the codes of `pack_tally.tally`.
    """
    visible = tally(plan, tries, view).visible
    found = {(try_.task_id, try_.index): attempt_of(try_, classify(try_, view)) for try_ in visible}
    slots = [(task, index) for task, tries in sorted(plan.planned.items()) for index in range(1, tries + 1)]
    return tuple(found.get(slot) or _never_recorded(slot[0]) for slot in slots)


def _never_recorded(task: str) -> Attempt:
    return Attempt(task, False, End.PLATFORM_FAULT, None, 0, reason=Reason.NEVER_RECORDED)
