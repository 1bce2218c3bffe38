"""Registry entry of `same-question-bt/1`, the Bradley-Terry board."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring.intervals import LEVEL
from scoring.leaderboard.board import METHODOLOGY
from scoring.leaderboard.elo import ELO_DIVISOR, OVERALL_REFERENCE, REFERENCE_DRAWS
from scoring.leaderboard.ranking import RANK_DECIMALS
from scoring.leaderboard.readings import READINGS
from scoring.leaderboard.score import score_board
from scoring.methodology import Methodology

SAME_QUESTION: Final = Methodology(
    id=METHODOLOGY,
    title="Same-question board: Bradley-Terry",
    question="Which harness and model wins more often on the same question?",
    scorer=score_board,
    readings=READINGS,
    constants=(
        ("elo_divisor", Fraction(ELO_DIVISOR)),
        ("overall_reference", Fraction(OVERALL_REFERENCE)),
        ("reference_draws", Fraction(REFERENCE_DRAWS)),
        ("rank_decimals", Fraction(RANK_DECIMALS)),
        ("interval_level", LEVEL),
    ),
)
