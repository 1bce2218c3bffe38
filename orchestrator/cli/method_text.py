"""A screening under a methodology other than the Pack Score, for a person and as data (UI-3, UI-46)."""

from __future__ import annotations

from typing import Any, Final

from orchestrator.cli.output import DASH, cell, facts, table_lines
from orchestrator.screenings.methods import Excluded, Result, Submissions
from scoring.levels import USE_CASES, GroupLevel
from scoring.numbers import fixed, show_points
from scoring.rate_agent_attempts import End
from scoring.rate_agent_result import AgentRating
from scoring.results import MethodologyResult
from scoring.six_component_result import ComponentName, SixComponentResult

_END: Final = {End.COMPLETED: "wrong output", End.TOOL_ERROR: "tool error"}
"""Ends of attempts that did not pass, where their own word would mislead."""


def method_data(found: Result, *, explain: bool) -> dict[str, Any]:
    """`result` is null with its reason where the method has no figure; arithmetic is there on request."""
    if isinstance(found, Excluded):
        return {"result": None, "reason": {"code": found.code, "text": found.sentence}}
    if isinstance(found, Submissions):
        return {"result": {"submissions": [_data(one, explain) for one in found.scores]}, "reason": None}
    return {"result": _data(found, explain), "reason": None}


def _data(result: Any, explain: bool) -> dict[str, Any]:
    data: dict[str, Any] = result.as_data()
    if not explain:
        data.pop("arithmetic", None)
    return data


def method_lines(found: Result, method: str, title: str) -> list[str]:
    """The figures, or one sentence after a dash where the population rule leaves the screening out."""
    if isinstance(found, Excluded):
        return [cell(f"{DASH} {found.sentence}")]
    lines = [cell(f"{method}  {title}")]
    if isinstance(found, AgentRating):
        return [*lines, *_rating(found)]
    if isinstance(found, Submissions):
        return [*lines, *_submissions(found)]
    return [*lines, *(f"  {line}" for line in arithmetic_lines(found))]


def arithmetic_lines(found: Result) -> list[str]:
    """The sum behind every figure, and the readings."""
    if isinstance(found, Excluded):
        return []
    parts: tuple[Any, ...] = found.scores if isinstance(found, Submissions) else (found,)
    lines: list[str] = []
    for one in parts:
        lines += [one.name] if isinstance(one, SixComponentResult) else []
        lines += one.arithmetic
    return [cell(line) for line in (*lines, *_readings(parts[:1]))]


def _readings(results: tuple[MethodologyResult, ...]) -> list[str]:
    return [f"reading {one.code} ({one.requirement}): {one.text}" for r in results for one in r.readings]


def _rating(made: AgentRating) -> list[str]:
    data = made.as_data()
    names = (
        ("success", "task success score"),
        ("cost_per_task", "USD per task"),
        ("cost_per_success", "USD per success"),
        ("total_cost", "USD in all"),
        ("median_time", "median time"),
        ("failure_rate", "failure rate"),
        ("repeatability", "repeatability"),
        ("partial_progress", "partial progress"),
    )
    outside = ", ".join(f"{one['count']} {one['reason']}" for one in data["outside_reasons"]) or "none"
    ends = ", ".join(f"{number} {_END.get(end, end.value)}" for end, number in made.ends) or "none"
    rows = [
        ("status", f"{made.status.value}, {made.provenance.value}"),
        *((shown, _figure(data[key])) for key, shown in names),
        ("attempts", f"{made.passed} of {made.attempts} passed"),
        ("tasks", f"{made.tasks_passed} of {made.tasks_attempted} passed in most attempts"),
        ("did not pass", ends),
        ("not counted", outside),
    ]
    lines = [f"  {line}" for line in facts(rows)]
    groups = [_group(one, USE_CASES.get(one.group, one.group)) for one in made.use_cases]
    groups += [_group(one, one.group) for one in made.difficulties]
    if groups:
        table = table_lines(("kind of work", "level", "passed", "tasks"), groups)
        lines += ["", *(f"  {line}" for line in table), ""]
    else:
        lines.append(f"  levels  {DASH}  (no counted attempt on a task whose tags are known here)")
    return [*lines, f"  inputs {made.inputs_digest[:16]}"]


def _figure(data: dict[str, Any]) -> str:
    return str(data["display"]) if data["reason"] is None else f"{DASH}  ({data['reason']})"


def _group(one: GroupLevel, name: str) -> tuple[str, str, str, str]:
    level = DASH if one.level is None else one.level.value
    return name, level, f"{one.passed}/{one.attempts}", str(one.tasks)


def _submissions(found: Submissions) -> list[str]:
    rows = [_submission(one) for one in found.scores]
    if not rows:
        return [f"  {DASH}  no finished, verified try is a submission"]
    headers = ("submission", "final score", "static", "missing components")
    return [f"  {line}" for line in table_lines(headers, rows)]


def _submission(one: SixComponentResult) -> tuple[str, str, str, str]:
    static = one.component(ComponentName.STATIC).value
    missing = [part.name.value for part in one.components if part.value is None]
    final = DASH if one.raw is None else fixed(one.raw, 0)
    return one.name, final, show_points(static), ", ".join(missing) or "none"
