"""The admission gate: what was not shown counts against a task (reference/packs.md section 8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.packs.admission import TaskEvidence, grader_stable, judge_pack, judge_task
from scoring.vocabulary import Outcome

PASSED, FAILED, FAULT = Outcome.PASSED, Outcome.FAILED, Outcome.PLATFORM_FAULT
GOOD = TaskEvidence("t", True, (), (PASSED,) * 3, (FAILED,), ("1", "1.0"))


def test_a_good_task_is_admitted() -> None:
    """All four checks hold; numbers are compared by value."""
    judged = judge_task(GOOD)
    assert (judged.verdict, judged.reasons) == ("admitted", ())
    assert (judged.oracle_passes, judged.oracle_runs, judged.nop_fails, judged.grader_stable) == (
        3,
        3,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest_ok": False}, "its files are not the pinned ones"),
        ({"refusals": ("no GPU",)}, "cannot be run faithfully: no GPU"),
        ({"oracle": (PASSED, PASSED, FAILED)}, "the reference solution passed 2 of 3 times (else failed)"),
        (
            {"oracle": (PASSED, FAULT, PASSED)},
            "the reference solution passed 2 of 3 times (else platform_fault)",
        ),
        ({"oracle": (PASSED, PASSED)}, "the reference solution ran 2 of 3 times"),
        ({"oracle": ()}, "the reference solution ran 0 of 3 times"),
        ({"nop": (PASSED,)}, "an agent that does nothing passes"),
        ({"nop": (FAILED, PASSED)}, "an agent that does nothing passes"),
        ({"nop": ()}, "an agent that does nothing was not run"),
        ({"nop": (FAULT,)}, "a run of the agent that does nothing ended without a verdict on it"),
        ({"gradings": ("1", "0.9")}, "grading one end state again does not give the same number (1, 0.9)"),
        (
            {"gradings": ("1", None)},
            "grading one end state again does not give the same number (1, no verdict)",
        ),
        ({"gradings": ("1",)}, "grading one end state again does not give the same number (1)"),
        ({"gradings": ()}, "grading one end state again does not give the same number (none)"),
    ],
)
def test_each_failure_refuses_the_task_with_its_reason(change: dict[str, object], reason: str) -> None:
    """One thing wrong, one reason."""
    judged = judge_task(replace(GOOD, **change))  # type: ignore[arg-type]
    assert (judged.verdict, judged.reasons) == ("refused", (reason,))


def test_a_pack_needs_every_task_and_at_least_one() -> None:
    """Do-nothing passes are listed in pack order; an empty pack is not admitted."""
    free = replace(GOOD, task_id="free", nop=(PASSED,))
    report = judge_pack("d" * 64, [GOOD, free, replace(free, task_id="free2")])
    assert (report.admitted, report.do_nothing_passes) == (False, ("free", "free2"))
    assert [task.verdict for task in report.tasks] == ["admitted", "refused", "refused"]
    assert judge_pack("d" * 64, [GOOD]).admitted
    assert not judge_pack("d" * 64, []).admitted


def test_numbers_that_are_none_are_not_stable() -> None:
    """NaN equals nothing, text is no number."""
    assert not grader_stable(("NaN", "NaN"))
    assert not grader_stable(("one", "one"))
    assert grader_stable(("0.50", "0.5", "5E-1"))
