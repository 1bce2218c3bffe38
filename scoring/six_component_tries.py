"""What a verified try says about a submission: its hidden checks and its time, nothing more."""

from __future__ import annotations

from scoring.classify import FINISHED, View, classify
from scoring.six_component_inputs import StaticTests, Submission, SuiteCount
from scoring.tries import VerifiedTry


def submission_of(try_: VerifiedTry, view: View) -> Submission | None:
    """The try as a submission whose static component is known where its checks were counted.

    None for a try that `view` does not see or that did not finish, verified: there is no submission. Code
    quality, deliverables, adversarial tests, security and stability are added by who has them; until then
    there is no final score (S2-3).
    """
    if classify(try_, view) not in FINISHED:
        return None
    passed, total = try_.checks_passed, try_.checks_total
    known = passed is not None and total is not None
    return Submission(
        name=f"{try_.agent_id} {try_.task_id} {try_.index}",
        static=StaticTests(other=SuiteCount(passed or 0, total or 0)) if known else None,
        iterations=1,
        time_ms=try_.wall_ms,
    )
