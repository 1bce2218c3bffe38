"""Adapters of the golden groups of `rate-ai-agent/1` (s4-*)."""

from __future__ import annotations

from typing import Any

from scoring.comparability import Condition, differences
from scoring.facts import Conditions, Provenance
from scoring.levels import level
from scoring.numbers import exact
from scoring.rate_agent import rate
from scoring.rate_agent_attempts import Attempt, End
from scoring.rate_agent_composite import composite

PROVENANCE = {
    "independent": Provenance.INDEPENDENT,
    "publisher": Provenance.PUBLISHER,
    "community": Provenance.COMMUNITY,
    "not_evaluated": Provenance.NOT_EVALUATED,
}
REASON_NAMES = {Condition.TIMEOUT: "timeout_s"}
"""The vectors name the timeout with its unit."""


def whole(value: object, scale: int) -> int:
    """An exact value times `scale`, which must be an integer."""
    scaled = exact(value) * scale
    assert scaled.denominator == 1
    return scaled.numerator


def attempt(one: dict[str, Any]) -> Attempt:
    """A vector's attempt: USD to nano-USD, seconds to ms."""
    return Attempt(
        task=one["task"],
        passed=one["passed"],
        end=End(one["end"]),
        cost_nusd=None if one["usd"] is None else whole(one["usd"], 10**9),
        time_ms=whole(one["time_s"], 1000),
        checks_passed=one.get("checks_passed"),
        checks_total=one.get("checks_total"),
    )


def summary(given: dict[str, Any]) -> dict[str, object]:
    """S4-4 .. S4-16."""
    made = rate([attempt(one) for one in given["attempts"]], name="vector", provenance=Provenance.INDEPENDENT)
    time = made.median_time_ms.value
    return {
        "success": made.success.value,
        "attempts": made.attempts,
        "passed": made.passed,
        "tasks_attempted": made.tasks_attempted,
        "tasks_passed": made.tasks_passed,
        "total_cost": made.total_cost_usd.value,
        "cost_per_task": made.cost_per_task_usd.value,
        "cost_per_task_alt_per_distinct_task": made.cost_per_distinct_task_usd.value,
        "cost_per_success": made.cost_per_success_usd.value,
        "median_time_s": None if time is None else time / 1000,
        "failure_rate": made.failure_rate.value,
        "repeatability": made.repeatability.value,
        "partial_progress": made.partial_progress.value,
    }


def levels(given: dict[str, Any]) -> dict[str, object]:
    """S4-17 .. S4-20."""
    return {"level": level(given["passed"], given["attempts"], given["distinct_tasks"]).value}


def composed(given: dict[str, Any]) -> dict[str, object]:
    """S4-24 .. S4-27."""
    known = {name: None if value is None else exact(value) for name, value in given.items()}
    time = known["median_time_s"]
    made = composite(
        known["success_rate"],
        known["cost_per_success_usd"],
        None if time is None else time * 1000,
        known["repeatability"],
    )
    return {"composite": made.value}


def conditions(side: dict[str, Any]) -> Conditions:
    """The vectors have one timeout for the whole suite; model and runner are not compared."""
    tools = side["permitted_tools"]
    return Conditions(
        suite_version=side["suite_version"],
        timeouts_ms=(("every task", whole(side["timeout_s"], 1000)),),
        step_limit=side["step_limit"],
        network_policy=side["network_policy"],
        permitted_tools=None if tools is None else frozenset(tools),
        hardware_class=side["hardware_class"],
        runtime="any",
        repeats=side["repeats"],
        provenance=PROVENANCE[side["provenance"]],
    )


def comparable(given: dict[str, Any]) -> dict[str, object]:
    """S4-33, S4-34."""
    found = differences(conditions(given["a"]), conditions(given["b"]))
    reasons = [REASON_NAMES.get(one.condition, one.condition.value) for one in found]
    return {"comparable": not found, "reasons": reasons}


ADAPTERS = {
    "s4-summary": summary,
    "s4-level": levels,
    "s4-composite": composed,
    "s4-comparable": comparable,
}
