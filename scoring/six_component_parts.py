"""The six components of `six-component/1`, each 0..100 and exact, or None when nothing was measured.

The terms are the document's: static tests, adversarial tests with severity weights, code quality by three
judges, deliverables, security deductions, stability.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.domain import TOP, count, mark
from scoring.judges import aggregate
from scoring.six_component_inputs import (
    AdversarialTest,
    Deliverable,
    DeliverableMarks,
    Delivery,
    QualityMarks,
    Running,
    SecurityScan,
    Severity,
    StaticTests,
)

SUITE_SHARE: Final = {
    "functionality": Fraction(50, 100),
    "edge": Fraction(30, 100),
    "integration": Fraction(20, 100),
}
"""Composition of a static suite (S2-7); never a weight of the score."""
SEVERITY_WEIGHT: Final = {
    Severity.CRITICAL: Fraction(3),
    Severity.HIGH: Fraction(2),
    Severity.MEDIUM: Fraction(1),
    Severity.LOW: Fraction(1, 2),
}
"""Weight of one adversarial test (S2-10)."""
QUALITY_WEIGHT: Final = {
    "readability": Fraction(25, 100),
    "architecture": Fraction(25, 100),
    "robustness": Fraction(25, 100),
    "idiomaticity": Fraction(25, 100),
}
DELIVERABLE_WEIGHT: Final = {
    "accuracy": Fraction(40, 100),
    "clarity": Fraction(25, 100),
    "completeness": Fraction(20, 100),
    "actionability": Fraction(15, 100),
}
DEDUCTION: Final = {
    Severity.CRITICAL: 25,
    Severity.HIGH: 15,
    Severity.MEDIUM: 5,
    Severity.LOW: 1,
}
"""Points taken per security issue (S2-23)."""


class Stability(StrEnum):
    """The class of a run (S2-26)."""

    CLEAN = "clean"
    WARNINGS = "warnings"
    CRASHED = "crashed"


STABILITY_SCORE: Final = {
    Stability.CLEAN: Fraction(100),
    Stability.WARNINGS: Fraction(50),
    Stability.CRASHED: Fraction(0),
}


def static_score(tests: StaticTests) -> Fraction | None:
    """100 x passed / total over plain counts (S2-4, S2-8); None without tests."""
    return TOP * Fraction(tests.passed, tests.total) if tests.total else None


def category_diagnostic(tests: StaticTests) -> Fraction | None:
    """100 x the categories' shares weighted 50/30/20 (S2-8); None unless every category has tests. It is
    never part of the score."""
    parts = {"functionality": tests.functionality, "edge": tests.edge, "integration": tests.integration}
    if not all(part.total for part in parts.values()):
        return None
    return TOP * sum(
        (SUITE_SHARE[name] * Fraction(part.passed, part.total) for name, part in parts.items()), Fraction(0)
    )


def adversarial_weights(tests: Sequence[AdversarialTest]) -> tuple[Fraction, Fraction]:
    """(passed weight, total weight)."""
    total = sum((SEVERITY_WEIGHT[test.severity] for test in tests), Fraction(0))
    passed = sum((SEVERITY_WEIGHT[test.severity] for test in tests if test.passed), Fraction(0))
    return passed, total


def adversarial_score(tests: Sequence[AdversarialTest]) -> Fraction | None:
    """100 x passed weight / total weight (S2-9, S2-10); None without tests (S2-12)."""
    passed, total = adversarial_weights(tests)
    return TOP * passed / total if total else None


def quality_total(marks: QualityMarks) -> Fraction:
    """One judge's total: four dimensions at 25% each (S2-13, S2-14)."""
    return sum((weight * getattr(marks, name) for name, weight in QUALITY_WEIGHT.items()), Fraction(0))


def deliverable_total(marks: DeliverableMarks) -> Fraction:
    """One judge's total: .40 accuracy + .25 clarity + .20 completeness + .15 actionability (S2-21)."""
    return sum((weight * getattr(marks, name) for name, weight in DELIVERABLE_WEIGHT.items()), Fraction(0))


def deliverable_value(deliverable: Deliverable) -> Fraction:
    """What one deliverable is worth: its panel under the three-judge rule, 0 unless it is written (S2-22)."""
    if deliverable.delivery is not Delivery.WRITTEN:
        return Fraction(0)
    return aggregate([deliverable_total(marks) for marks in deliverable.panel.values()]).value


def deliverable_score(values: Sequence[Fraction]) -> Fraction | None:
    """Unweighted mean over the deliverables that were asked for (S2-22); None when none was."""
    if not values:
        return None
    return sum((mark("a deliverable", value) for value in values), Fraction(0)) / len(values)


def security_score(scan: SecurityScan) -> Fraction:
    """max(0, 100 - 25 critical - 15 high - 5 medium - 1 low) (S2-23)."""
    taken = sum(DEDUCTION[severity] * count("issues", scan.issues(severity)) for severity in Severity)
    return max(Fraction(0), TOP - taken)


def stability_class(seen: Running) -> Stability:
    """The worst class that was seen; a timeout is a crash (S2-26)."""
    if seen.crashed or seen.timeout:
        return Stability.CRASHED
    return Stability.WARNINGS if seen.warnings else Stability.CLEAN
