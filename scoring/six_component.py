"""`six-component/1`: one 0..100 score of a code submission from six weighted components.

final = .35 static + .15 adversarial + .20 code quality + .15 deliverable + .10 security + .05 stability
(S2-1), exact, shown as an integer (S2-2); one missing component and there is no final score (S2-3). The
cliff variant, which caps the score at a critical security issue, is in `six_component_cliff`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from scoring.digests import digest
from scoring.domain import TOP, mark
from scoring.judges import Panel, aggregate
from scoring.six_component_inputs import Deliverable, Severity, Submission
from scoring.six_component_parts import (
    DEDUCTION,
    STABILITY_SCORE,
    adversarial_score,
    adversarial_weights,
    category_diagnostic,
    deliverable_score,
    deliverable_total,
    deliverable_value,
    quality_total,
    security_score,
    stability_class,
    static_score,
)
from scoring.six_component_result import (
    METHODOLOGY,
    Component,
    ComponentName,
    MissingPart,
    SixComponentScore,
)
from scoring.trajectory import trajectory

__all__ = ["METHODOLOGY", "WEIGHTS", "final_score", "score_submission"]

WEIGHTS: Final = {
    ComponentName.STATIC: Fraction(35, 100),
    ComponentName.ADVERSARIAL: Fraction(15, 100),
    ComponentName.CODE_QUALITY: Fraction(20, 100),
    ComponentName.DELIVERABLE: Fraction(15, 100),
    ComponentName.SECURITY: Fraction(10, 100),
    ComponentName.STABILITY: Fraction(5, 100),
}
"""Weights of the final score (S2-1)."""


def final_score(values: Mapping[ComponentName, Fraction | None]) -> Fraction | None:
    """The weighted sum of the six components (each 0..100), exact; None when one is missing (S2-3)."""
    total = Fraction(0)
    for name, weight in WEIGHTS.items():
        value = values.get(name)
        if value is None:
            return None
        total += weight * mark(name, value)
    return total


def score_submission(submission: Submission) -> SixComponentScore:
    """Score one submission (S2-1 .. S2-30). The order of tests, judges and deliverables has no effect.

    Raises `MalformedInputError`, mostly while the inputs are built: `number`, `range`, `pass-count`,
    `judge-count`, `provenance`, `trajectory-length`, `duplicate-deliverable`.
    """
    components = components_of(submission)
    raw = final_score({one.name: one.value for one in components})
    static, security = submission.static, submission.security
    return SixComponentScore(
        name=submission.name,
        components=components,
        raw=raw,
        raw_reason=None if raw is not None else MissingPart.COMPONENT_MISSING,
        critical_flag=security is not None and security.critical > 0,
        human_review=_flags(submission),
        category_diagnostic=None if static is None else category_diagnostic(static),
        iterations=submission.iterations,
        time_ms=submission.time_ms,
        trajectory=trajectory(submission.scores) if submission.scores else None,
        inputs_digest=digest(_ordered(submission)),
    )


def components_of(submission: Submission) -> tuple[Component, ...]:
    """The six components in the document's order, each with the sum behind it."""
    return (
        _static(submission),
        _adversarial(submission),
        _quality(submission),
        _deliverable(submission),
        _security(submission),
        _stability(submission),
    )


def _component(name: ComponentName, value: Fraction | None, arithmetic: str, empty: MissingPart) -> Component:
    if value is None:
        return Component(name, None, empty, WEIGHTS[name], f"missing ({empty})")
    return Component(name, value, None, WEIGHTS[name], arithmetic)


def _absent(name: ComponentName) -> Component:
    return _component(name, None, "", MissingPart.NOT_MEASURED)


def _static(submission: Submission) -> Component:
    tests = submission.static
    if tests is None:
        return _absent(ComponentName.STATIC)
    value = static_score(tests)
    text = f"100 x {tests.passed} passed / {tests.total} tests = {value}"
    return _component(ComponentName.STATIC, value, text, MissingPart.NO_TESTS)


def _adversarial(submission: Submission) -> Component:
    tests = submission.adversarial
    if tests is None:
        return _absent(ComponentName.ADVERSARIAL)
    value = adversarial_score(tests)
    passed, total = adversarial_weights(tests)
    by_severity = ", ".join(
        f"{sum(t.passed for t in tests if t.severity is s)} of {sum(t.severity is s for t in tests)} {s}"
        for s in Severity
    )
    text = f"100 x {passed} passed weight / {total} weight = {value} ({by_severity})"
    return _component(ComponentName.ADVERSARIAL, value, text, MissingPart.NO_TESTS)


def quality_panel(submission: Submission) -> Panel | None:
    """The three-judge rule on the judges' weighted totals (S2-14); None when it was not judged."""
    if submission.code_quality is None:
        return None
    return aggregate([quality_total(marks) for marks in submission.code_quality.values()])


def _quality(submission: Submission) -> Component:
    panel = quality_panel(submission)
    if panel is None:
        return _absent(ComponentName.CODE_QUALITY)
    return _component(ComponentName.CODE_QUALITY, panel.value, panel.arithmetic, MissingPart.NOT_MEASURED)


def _deliverable(submission: Submission) -> Component:
    asked = submission.deliverables
    if asked is None:
        return _absent(ComponentName.DELIVERABLE)
    ordered = sorted(asked, key=lambda one: one.name)
    values = [deliverable_value(one) for one in ordered]
    value = deliverable_score(values)
    terms = " + ".join(f"{one.name} {value}" for one, value in zip(ordered, values, strict=True))
    text = f"({terms}) / {len(values)} = {value}" + "".join(f"; {_panel_text(one)}" for one in ordered)
    return _component(ComponentName.DELIVERABLE, value, text, MissingPart.NOTHING_ASKED)


def _panel_text(one: Deliverable) -> str:
    panel = _panel_of(one)
    return f"{one.name} is {one.delivery}: 0" if panel is None else f"{one.name}: {panel.arithmetic}"


def _panel_of(one: Deliverable) -> Panel | None:
    return aggregate([deliverable_total(marks) for marks in one.panel.values()]) if one.panel else None


def _security(submission: Submission) -> Component:
    scan = submission.security
    if scan is None:
        return _absent(ComponentName.SECURITY)
    value = security_score(scan)
    taken = " - ".join(f"{DEDUCTION[severity]} x {scan.issues(severity)} {severity}" for severity in Severity)
    text = f"max(0, {TOP} - {taken}) = {value} ({scan.scanner}, rules {scan.ruleset})"
    return _component(ComponentName.SECURITY, value, text, MissingPart.NOT_MEASURED)


def _stability(submission: Submission) -> Component:
    if submission.stability is None:
        return _absent(ComponentName.STABILITY)
    found = stability_class(submission.stability)
    value = STABILITY_SCORE[found]
    return _component(ComponentName.STABILITY, value, f"{found} = {value}", MissingPart.NOT_MEASURED)


def _flags(submission: Submission) -> tuple[str, ...]:
    """What a human must look at (S2-17)."""
    note = "judges could not agree"
    panel = quality_panel(submission)
    flags = [f"code quality: {note}"] if panel is not None and panel.flag else []
    for one in sorted(submission.deliverables or (), key=lambda item: item.name):
        judged = _panel_of(one)
        if judged is not None and judged.flag:
            flags.append(f"deliverable {one.name}: {note}")
    return tuple(flags)


def _ordered(submission: Submission) -> dict[str, object]:
    """The inputs without the order in which tests and deliverables were listed."""
    tests = submission.adversarial
    asked = submission.deliverables
    return {
        **vars(submission),
        "adversarial": None
        if tests is None
        else sorted([test.severity.value, test.origin.value, test.passed] for test in tests),
        "deliverables": None if asked is None else sorted(asked, key=lambda one: one.name),
    }
