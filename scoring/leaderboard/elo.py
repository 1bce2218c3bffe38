"""The scale: Elo points, natural-log units, and one entrant against fixed opponents (S1-13, S1-17)."""

from __future__ import annotations

from fractions import Fraction
from math import log, log10
from typing import Final

from scoring.errors import MalformedInputError

ELO_DIVISOR: Final = 400
"""A difference d is worth odds of 10^(d/400): 400 points are 10 to 1 (S1-13)."""
ELO_PER_NAT: Final = ELO_DIVISOR / log(10)
"""Elo points in one natural-log unit of the odds, the unit of the solver."""
OVERALL_REFERENCE: Final = 1000
"""The reference score of every entrant on the overall page (S1-19)."""
REFERENCE_DRAWS: Final = 2
"""Draws that each entrant plays against a private opponent held at its reference score, weight 1 each
(S1-14)."""
REFERENCE_WINS: Final = REFERENCE_DRAWS // 2
"""Wins that those draws amount to: half a win each."""


def held_fixed(reference: Fraction, wins: Fraction, games: Fraction, *, with_reference: bool = True) -> float:
    """Score in Elo of one entrant whose opponents are all held at `reference`: the illustration of the
    document.

    reference + 400 log10((w+1) / (g-w+1)) with the two draws, without the ones before. It explains the pull
    towards the reference and is never the board: there opponents are free, and one joint fit decides
    (S1-17). Raises `MalformedInputError("games")` unless 0 <= wins <= games; without the reference an
    all-won or all-lost record has no finite score and is refused too.
    """
    extra = REFERENCE_WINS if with_reference else 0
    won, lost = wins + extra, games - wins + extra
    if wins < 0 or games < wins or won <= 0 or lost <= 0:
        raise MalformedInputError("games", f"{wins} wins in {games} games have no finite score here")
    return float(reference) + ELO_DIVISOR * log10(won / lost)
