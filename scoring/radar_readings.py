"""The readings of `badgeia-fitness-radar/1`: what was chosen where the document is silent."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading
from scoring.runs import RUN_READINGS

WINDOW_ORDER: Final = Reading(
    "window-order",
    "S0-15",
    "The latest 100 terminal runs are taken by finish time, then run id.",
)
CONTINUOUS_LATENCY: Final = Reading(
    "continuous-latency",
    "S0-18",
    "Two points per 100 ms are taken off continuously, not in steps.",
)
LATENCY_EVIDENCE: Final = Reading(
    "latency-evidence",
    "S0-19",
    "The latency axis needs five runs of the window that have a latency; the raw median is kept below that.",
)
NO_STEPS: Final = Reading(
    "no-steps",
    "S0-21",
    "A run with no step count, or one of 0, is not in the median of the tool axis.",
)
ROBUSTNESS: Final = Reading(
    "robustness-formula",
    "S0-22",
    "100 x the unweighted mean of 1 - 4p(1 - p) over tasks with at least two known outcomes.",
)
EVEN_MEDIAN: Final = Reading(
    "median-even",
    "S0-23",
    "The median of an even number of values is the mean of the middle two.",
)
ZERO_WEIGHT: Final = Reading(
    "zero-weight",
    "S0-25",
    "When the weights of the available axes add up to 0 there is no profile.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "G-2",
    "Axes and profile are exact; they are shown with one decimal, rounded once, half away from zero.",
)
READINGS: Final[tuple[Reading, ...]] = (
    WINDOW_ORDER,
    CONTINUOUS_LATENCY,
    LATENCY_EVIDENCE,
    NO_STEPS,
    ROBUSTNESS,
    EVEN_MEDIAN,
    ZERO_WEIGHT,
    ROUNDING,
    *RUN_READINGS,
)
