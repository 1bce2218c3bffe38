"""The methodologies that are implemented: id, question, scorer, readings (G-4, UI-46).

A new methodology adds one module with its scorer and one entry here; nothing is shared between two ids but
the input types and the number rules. Old ids stay.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from scoring.errors import ScoringError
from scoring.intervals import LEVEL
from scoring.methodology import Methodology
from scoring.noise import ALPHA, OMEGA2, POWER, SIGMA2
from scoring.numbers import POINTS
from scoring.pack_card import EVERY_TRY, METHODOLOGY
from scoring.pack_readings import READINGS
from scoring.pack_score import score_pack
from scoring.registry_fitness import COMPOSITE, FITNESS_RADAR, REPEATABILITY
from scoring.registry_leaderboard import SAME_QUESTION
from scoring.registry_rate_agent import RATE_AI_AGENT
from scoring.registry_six_component import SIX_COMPONENT, SIX_COMPONENT_CLIFF
from scoring.registry_statistics import STATISTICS
from scoring.rubric import PASS_COVERAGE


class UnknownMethodologyError(ScoringError):
    """No methodology has the given id."""


PACK_SCORE: Final = Methodology(
    id=METHODOLOGY,
    title="Benchmark Packs: Pack Score",
    question="How often does this agent finish the tasks of one named benchmark?",
    scorer=score_pack,
    readings=READINGS,
    constants=(
        ("scale_points", Fraction(POINTS)),
        ("every_try_k", Fraction(EVERY_TRY)),
        ("interval_level", LEVEL),
        ("detectable_omega2", OMEGA2),
        ("detectable_sigma2", SIGMA2),
        ("detectable_alpha", ALPHA),
        ("detectable_power", POWER),
        ("rubric_pass_coverage", PASS_COVERAGE),
    ),
)

METHODOLOGIES: Final[dict[str, Methodology]] = {
    entry.id: entry
    for entry in (
        COMPOSITE,
        FITNESS_RADAR,
        REPEATABILITY,
        SAME_QUESTION,
        SIX_COMPONENT,
        SIX_COMPONENT_CLIFF,
        PACK_SCORE,
        RATE_AI_AGENT,
        STATISTICS,
    )
}


def find(methodology: str) -> Methodology:
    """The methodology with exactly this id; raises `UnknownMethodologyError("unknown-methodology")`."""
    try:
        return METHODOLOGIES[methodology]
    except KeyError:
        known = ", ".join(sorted(METHODOLOGIES))
        raise UnknownMethodologyError(
            "unknown-methodology", f"no methodology {methodology!r:.60}; known: {known}"
        ) from None


def as_data() -> list[dict[str, Any]]:
    """Every methodology as plain data, sorted by id."""
    return [METHODOLOGIES[name].as_data() for name in sorted(METHODOLOGIES)]
