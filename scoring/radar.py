"""`badgeia-fitness-radar/1`: five diagnostic axes over the latest terminal runs of one agent (seed 000).

Each axis is 0..100 or missing with a reason (S0-16). The profile is a weighted mean of the axes that are
there, under a viewer's weights; it changes local order only and never another figure (S0-25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from scoring.averages import mean_of, median_of
from scoring.curves import COST_LINE, LATENCY_LINE, STEPS_LINE, Line
from scoring.digests import digest
from scoring.errors import MalformedInputError
from scoring.numbers import POINTS, ratio
from scoring.radar_result import (
    LATENCY_GATE,
    METHODOLOGY,
    ROBUSTNESS_GATE,
    WINDOW,
    Axis,
    AxisName,
    FitnessRadar,
    NoAxis,
)
from scoring.runs import Run, cohort


def score_radar(runs: Sequence[Run]) -> FitnessRadar:
    """The radar of one agent's recorded runs, in any order (S0-15 .. S0-23).

    Raises as `scoring.runs.cohort` does, and `MalformedInputError("finish-time")` when there are more
    terminal runs than the window holds and one of them does not say when it finished.
    """
    ordered = cohort(runs)
    seen = latest(ordered)
    return FitnessRadar(
        agent_id=ordered[0].agent_id if ordered else None,
        terminal_runs=sum(run.terminal for run in ordered),
        window_runs=len(seen),
        axes=(
            _correctness(seen),
            _latency(seen),
            _median_axis(AxisName.COST, COST_LINE, _known(seen, lambda run: run.cost_usd), NoAxis.NO_COST),
            _median_axis(AxisName.TOOL_EFFICIENCY, STEPS_LINE, _known(seen, _steps), NoAxis.NO_STEPS),
            _robustness(seen),
        ),
        inputs_digest=digest([METHODOLOGY, ordered]),
    )


def latest(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The latest 100 terminal runs by finish time, then run id (S0-15), oldest first."""
    terminal = [run for run in runs if run.terminal]
    if len(terminal) <= WINDOW:
        return tuple(terminal)
    times = [run.finished_unix_s for run in terminal if run.finished_unix_s is not None]
    if len(times) < len(terminal):
        raise MalformedInputError("finish-time", "a terminal run does not say when it finished")
    pairs = sorted(zip(times, terminal, strict=True), key=lambda pair: (pair[0], pair[1].run_id))
    return tuple(run for _, run in pairs[-WINDOW:])


def _known(runs: Sequence[Run], take: Callable[[Run], Fraction | None]) -> list[Fraction]:
    return [value for value in map(take, runs) if value is not None]


def _steps(run: Run) -> Fraction | None:
    """A run without steps, or with none of them, has no step count (S0-21)."""
    return Fraction(run.steps) if run.steps else None


def _correctness(runs: Sequence[Run]) -> Axis:
    """100 x passes / runs with a known outcome (S0-17)."""
    known = [run.success for run in runs if run.success is not None]
    if not known:
        return Axis(AxisName.CORRECTNESS, None, NoAxis.NO_KNOWN_OUTCOME, None, 0, "no known outcome")
    value = Fraction(POINTS * sum(known), len(known))
    text = f"{POINTS} x {sum(known)} passed / {len(known)} known outcomes = {ratio(value)}"
    return Axis(AxisName.CORRECTNESS, value, None, None, len(known), text)


def _latency(runs: Sequence[Run]) -> Axis:
    """Hidden until five runs have a latency; the raw median stays (S0-18, S0-19)."""
    known = _known(runs, lambda run: run.latency_ms)
    made = _median_axis(AxisName.LATENCY, LATENCY_LINE, known, NoAxis.NO_LATENCY)
    if made.raw is None or len(known) >= LATENCY_GATE:
        return made
    text = f"hidden below {LATENCY_GATE} runs; median of {len(known)} = {ratio(made.raw)} {LATENCY_LINE.unit}"
    return Axis(AxisName.LATENCY, None, NoAxis.FEWER_THAN_FIVE_LATENCIES, made.raw, len(known), text)


def _median_axis(name: AxisName, line: Line, known: Sequence[Fraction], without: NoAxis) -> Axis:
    """The median on its line (S0-20, S0-21, S0-23)."""
    if not known:
        return Axis(name, None, without, None, 0, f"no run with a value for {line.name}")
    raw = median_of(known)
    text = f"median of {len(known)} = {ratio(raw)} {line.unit}; {line.arithmetic(raw)}"
    return Axis(name, line.points(raw), None, raw, len(known), text)


def task_determinism(passes: int, outcomes: int) -> Fraction:
    """1 - 4p(1 - p), p = passes / outcomes, 0..1: 1 when all are the same, 0 at half and half (S0-22).

    Raises `MalformedInputError("pass-count")` unless 0 <= passes <= outcomes and outcomes >= 2.
    """
    if outcomes < ROBUSTNESS_GATE or not 0 <= passes <= outcomes:
        raise MalformedInputError("pass-count", f"{passes} passes of {outcomes} outcomes")
    return 1 - Fraction(4 * passes * (outcomes - passes), outcomes * outcomes)


def _robustness(runs: Sequence[Run]) -> Axis:
    """100 x unweighted mean over tasks with at least two known outcomes (S0-22)."""
    by_task: dict[str, list[bool]] = {}
    for run in runs:
        if run.success is not None:
            by_task.setdefault(run.task_id, []).append(run.success)
    repeated = {task: known for task, known in sorted(by_task.items()) if len(known) >= ROBUSTNESS_GATE}
    name = AxisName.ROBUSTNESS
    if not repeated:
        return Axis(name, None, NoAxis.NO_REPEATED_TASK, None, 0, "no task with two known outcomes")
    shares = [task_determinism(sum(known), len(known)) for known in repeated.values()]
    value = POINTS * mean_of(shares)
    terms = " + ".join(str(share) for share in shares)
    total = f"{POINTS} x ({terms}) / {len(shares)} = {ratio(value)}"
    text = f"{POINTS} x mean over tasks of 1 - 4p(1 - p) = {total}"
    return Axis(name, value, None, None, len(shares), text)
