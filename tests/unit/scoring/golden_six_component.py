"""Adapters of the golden groups of `six-component/1` (s2-*)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scoring.judges import aggregate
from scoring.numbers import exact, fixed
from scoring.six_component import final_score
from scoring.six_component_inputs import (
    AdversarialTest,
    DeliverableMarks,
    Running,
    SecurityScan,
    Severity,
    StaticTests,
    SuiteCount,
)
from scoring.six_component_order import shared_ranks, tie_break
from scoring.six_component_parts import (
    STABILITY_SCORE,
    Stability,
    adversarial_score,
    category_diagnostic,
    deliverable_score,
    deliverable_total,
    security_score,
    stability_class,
    static_score,
)
from scoring.six_component_result import ComponentName
from scoring.trajectory import trajectory


def static(given: dict[str, Any]) -> dict[str, object]:
    """S2-4 .. S2-8."""
    counts = {name: SuiteCount(*pair) for name, pair in given["passed_total"].items()}
    tests = StaticTests(**counts)
    return {"score": static_score(tests), "by_category_weighted_diagnostic": category_diagnostic(tests)}


def adversarial(given: dict[str, Any]) -> dict[str, object]:
    """S2-9 .. S2-12."""
    return {"score": adversarial_score([AdversarialTest(Severity(s), ok) for s, ok in given["tests"]])}


def judges(given: dict[str, Any]) -> dict[str, object]:
    """S2-15 .. S2-20."""
    panel = aggregate([exact(score) for score in given["judges"]])
    return {"score": panel.value, "branch": panel.branch.value, "flag": panel.flag}


def deliverable(given: dict[str, Any]) -> dict[str, object]:
    """S2-21."""
    marks = {name: exact(value) for name, value in given.items()}
    return {"score": deliverable_total(DeliverableMarks(**marks))}


def deliverable_set(given: dict[str, Any]) -> dict[str, object]:
    """S2-22."""
    zero = {"missing": Fraction(0), "placeholder": Fraction(0)}
    values = [zero[one] if one in zero else exact(one) for one in given["deliverables"]]
    return {"score": deliverable_score(values)}


def security(given: dict[str, Any]) -> dict[str, object]:
    """S2-23, S2-24."""
    scan = SecurityScan("vector", "vector", **given)
    return {"score": security_score(scan), "critical_flag": scan.critical > 0}


def stability(given: dict[str, Any]) -> dict[str, object]:
    """S2-26."""
    found = Stability(given["class"]) if "class" in given else stability_class(Running(**given["flags"]))
    return {"score": STABILITY_SCORE[found]}


def final(given: dict[str, Any]) -> dict[str, object]:
    """S2-1 .. S2-3."""
    values = {ComponentName(n): None if v is None else exact(v) for n, v in given.items()}
    raw = final_score(values)
    return {"raw": raw, "score": None if raw is None else int(fixed(raw, 0))}


def tie(given: dict[str, Any]) -> dict[str, object]:
    """S2-28; the vectors' seconds are whole milliseconds."""
    keys = {}
    for one in given["entries"]:
        ms = exact(one["time_s"]) * 1000
        assert ms.denominator == 1
        keys[one["id"]] = tie_break(exact(one["raw"]), one["iterations"], int(ms))
    return {"rank": shared_ranks(keys)}


def shape(given: dict[str, Any]) -> dict[str, object]:
    """S2-29."""
    made = trajectory([exact(score) for score in given["scores"]])
    return {"class": made.shape.value, "display": made.display}


ADAPTERS = {
    "s2-static": static,
    "s2-adversarial": adversarial,
    "s2-judges": judges,
    "s2-deliverable": deliverable,
    "s2-deliverable-set": deliverable_set,
    "s2-security": security,
    "s2-stability": stability,
    "s2-final": final,
    "s2-tiebreak": tie,
    "s2-trajectory": shape,
}
