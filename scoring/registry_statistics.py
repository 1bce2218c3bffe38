"""Registry entry of `statistics/1`, the comparison of two results."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring.compare import compare
from scoring.comparison import METHODOLOGY
from scoring.intervals import LEVEL
from scoring.methodology import Methodology
from scoring.noise import ALPHA, POWER, SIGMA2
from scoring.sign_flip import fewest_differences
from scoring.statistics_readings import READINGS

STATISTICS: Final = Methodology(
    id=METHODOLOGY,
    title="Intervals, noise and comparisons",
    question="Can these two results be told apart on the same tasks?",
    scorer=compare,
    readings=READINGS,
    constants=(
        ("interval_level", LEVEL),
        ("test_alpha", ALPHA),
        ("detectable_power", POWER),
        ("planning_sigma2", SIGMA2),
        ("fewest_tasks", Fraction(fewest_differences(ALPHA))),
    ),
)
