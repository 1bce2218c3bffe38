"""Registry entries of the three views of seed 000: headline composite, fitness radar, repeatability.

They answer different questions and are never blended (S0-1).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring import composite, curves, radar_readings, radar_result, repeatability
from scoring.methodology import Methodology
from scoring.radar import score_radar


def _anchors(name: str, curve: curves.Curve) -> tuple[tuple[str, Fraction], ...]:
    """The figures of a curve's anchors, named by the points that each gives."""
    return tuple((f"{name}_at_{points}_points", figure) for figure, points in curve.anchors)


def _line(name: str, line: curves.Line) -> tuple[tuple[str, Fraction], ...]:
    return ((f"{name}_full_at", line.full_at), (f"{name}_points_per_unit", line.per_unit))


COMPOSITE: Final = Methodology(
    id=composite.METHODOLOGY,
    title="Headline composite",
    question="How well does this agent do over all of its completed runs, in success, execution and cost?",
    scorer=composite.score_composite,
    readings=composite.READINGS,
    constants=(
        ("weight_success", composite.SUCCESS_WEIGHT),
        ("weight_execution", composite.EXECUTION_WEIGHT),
        ("weight_cost", composite.COST_WEIGHT),
        ("consistency_gate_runs", Fraction(composite.CONSISTENCY_GATE)),
        ("decimals", Fraction(composite.DECIMALS)),
        *_anchors("latency_ms", curves.LATENCY_CURVE),
        *_anchors("cost_usd", curves.COST_CURVE),
    ),
)
FITNESS_RADAR: Final = Methodology(
    id=radar_result.METHODOLOGY,
    title="Fitness radar",
    question="Where are this agent's recent runs strong and weak?",
    scorer=score_radar,
    readings=radar_readings.READINGS,
    constants=(
        ("window_runs", Fraction(radar_result.WINDOW)),
        ("latency_gate_runs", Fraction(radar_result.LATENCY_GATE)),
        ("robustness_gate_outcomes", Fraction(radar_result.ROBUSTNESS_GATE)),
        *((f"default_weight_{name}", weight) for name, weight in radar_result.EQUAL_WEIGHTS.items()),
        *_line("latency_ms", curves.LATENCY_LINE),
        *_line("cost_usd", curves.COST_LINE),
        *_line("steps", curves.STEPS_LINE),
    ),
)
REPEATABILITY: Final = Methodology(
    id=repeatability.METHODOLOGY,
    title="Repeatability",
    question="How often do repeated attempts at a task all succeed?",
    scorer=repeatability.score_repeatability,
    readings=repeatability.READINGS,
    constants=(
        ("task_gate_outcomes", Fraction(repeatability.TASK_GATE)),
        *((f"level_{place}", Fraction(k)) for place, k in enumerate(repeatability.LEVELS, 1)),
    ),
)
