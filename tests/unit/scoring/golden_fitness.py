"""Adapters of the golden groups of the composite, the radar and repeatability (s0-*)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from scoring.composite import outcome_consistency, score_composite
from scoring.curves import COST_CURVE, LATENCY_CURVE
from scoring.numbers import exact
from scoring.radar import score_radar
from scoring.radar_result import EQUAL_WEIGHTS, AxisName, FitnessRadar, weigh
from scoring.repeatability import TaskOutcomes, score_repeatability
from scoring.runs import Run, RunStatus

STATUS = {
    "completed": RunStatus.COMPLETED,
    "failed": RunStatus.FAILED,
    "timeout": RunStatus.TIMEOUT,
}


def known(value: str | int | None) -> Fraction | None:
    return None if value is None else exact(value)


def run_of(number: int, given: dict[str, Any]) -> Run:
    """A vector's run; a status that is not terminal is an open run."""
    return Run(
        run_id=f"{number:09d}",
        agent_id="agent-1",
        task_id=given.get("task", "t"),
        status=STATUS.get(given["status"], RunStatus.OPEN),
        success=given["success"] if "success" in given else given["outcome"],
        latency_ms=known(given["latency_ms"]),
        cost_usd=known(given["cost_usd"]),
        steps=given.get("steps"),
        finished_unix_s=given.get("seq", number),
    )


def runs_of(given: dict[str, Any]) -> list[Run]:
    return [run_of(number, one) for number, one in enumerate(given["runs"])]


def latency_curve(given: dict[str, Any]) -> dict[str, object]:
    """S0-8, S0-9."""
    return {"score": LATENCY_CURVE.points(exact(given["avg_latency_ms"]))}


def cost_curve(given: dict[str, Any]) -> dict[str, object]:
    """S0-8, S0-10."""
    return {"score": COST_CURVE.points(exact(given["avg_cost_usd"]))}


def consistency(given: dict[str, Any]) -> dict[str, object]:
    """S0-5, S0-6."""
    return {"consistency": outcome_consistency(given["successes"], given["completed"])}


def composite(given: dict[str, Any]) -> dict[str, object]:
    """S0-2 .. S0-14."""
    made = score_composite(runs_of(given))
    return {
        "n": made.completed,
        "successes": made.successes,
        "success_rate": made.success_rate,
        "avg_latency_ms": made.avg_latency_ms,
        "avg_cost_usd": made.avg_cost_usd,
        "consistency": made.consistency,
        "latency_score": made.latency_score,
        "cost_score": made.cost_score,
        "raw": made.raw,
        "composite": made.shown,
        "reason": None if made.reason is None else made.reason.value,
        "zero_success_floor": made.zero_success_floor,
    }


def axes(made: FitnessRadar) -> dict[str, object]:
    return {one.name.value: one.value for one in made.axes}


def radar(given: dict[str, Any]) -> dict[str, object]:
    """S0-15 .. S0-24."""
    made = score_radar(runs_of(given))
    return axes(made) | {
        "latency_p50_raw": made.axis(AxisName.LATENCY).raw,
        "profile_equal_weights": made.profile().value,
    }


def renormalise(given: dict[str, Any]) -> dict[str, object]:
    """S0-24, S0-25."""
    weights: Mapping[AxisName, Fraction] = EQUAL_WEIGHTS
    if given["weights"] != "equal":
        weights = {AxisName(name): exact(value) for name, value in given["weights"].items()}
    values = {AxisName(name): known(value) for name, value in given["axes"].items()}
    return {"profile": weigh(values, weights).value}


def repeatability(given: dict[str, Any]) -> dict[str, object]:
    """S0-26 .. S0-31."""
    tasks = [TaskOutcomes(task, sum(made), len(made)) for task, made in given["outcomes"].items()]
    made = score_repeatability(tasks)
    levels: dict[str, object] = {f"pass^{one.k}": one.value for one in made.levels}
    return levels | {
        "qualifying_tasks": made.qualifying_tasks,
        "tasks_with_n_below_k": {f"pass^{one.k}": one.tasks_with_n_below_k for one in made.levels},
    }


ADAPTERS = {
    "s0-latency-curve": latency_curve,
    "s0-cost-curve": cost_curve,
    "s0-consistency": consistency,
    "s0-composite": composite,
    "s0-radar": radar,
    "s0-renormalise": renormalise,
    "s0-repeatability": repeatability,
}
