"""Boards for the Bradley-Terry tests, and an independent look at the likelihood in long double.

Nothing of the solver, of the weights or of the scale is used below `gradient_norm`: it goes from raw scores
to the gradient with its own loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from scoring.leaderboard.board import Board, Level, Page
from scoring.leaderboard.entries import BoardRun, sheet_of
from scoring.leaderboard.pages import page_of

Scores = dict[str, dict[str, Fraction]]
"""task -> entrant -> score."""
ELO_TOLERANCE = 1e-6
"""Two fits of one problem agree far better than this; the reference bounds a fit's error by 9e-5."""


def table(**tasks: Mapping[str, int | str]) -> Scores:
    """`table(q1={"A": 3, "B": "1/2"})`."""
    return {task: {name: Fraction(value) for name, value in row.items()} for task, row in tasks.items()}


def runs_of(scores: Scores) -> list[BoardRun]:
    return [BoardRun(name, task, score) for task, row in scores.items() for name, score in row.items()]


def page(scores: Scores, references: Mapping[str, float] | None = None) -> Board:
    """One page; references default to the 1000 of the overall one."""
    sheet = sheet_of(runs_of(scores))
    return page_of(Page(Level.OVERALL), sheet, list(sheet.cells), references, "")


def fitted(scores: Scores, references: Mapping[str, float] | None = None) -> dict[str, float]:
    return {row.entrant: row.score for row in page(scores, references).rows}


def exact_wins(scores: Scores) -> dict[tuple[str, str], Fraction]:
    """(winner, loser) -> weight by the document's words: n entrants, 1/(n-1) each comparison, draws half."""
    wins: dict[tuple[str, str], Fraction] = {}
    for row in scores.values():
        for a, b in permutations(row, 2):
            share = Fraction(1, 2) if row[a] == row[b] else Fraction(row[a] > row[b])
            wins[a, b] = wins.get((a, b), Fraction(0)) + share / (len(row) - 1)
    return wins


def long(value: Fraction | float) -> np.longdouble:
    if isinstance(value, Fraction):
        return np.longdouble(str(value.numerator)) / np.longdouble(str(value.denominator))
    return np.longdouble(value)


def gradient_norm(
    scores: Scores, fit: Mapping[str, float], references: Mapping[str, float] | None = None
) -> float:
    """Euclidean norm of the gradient of the document's likelihood, per natural-log unit, in long double."""
    nat = np.log(np.longdouble(10)) / 400
    slope = {name: np.longdouble(0) for name in fit}
    for (winner, loser), weight in exact_wins(scores).items():
        lost = long(weight) / (1 + np.exp((long(fit[winner]) - long(fit[loser])) * nat))
        slope[winner] += lost
        slope[loser] -= lost
    for name, score in fit.items():
        own = 1000.0 if references is None else references[name]
        above = 1 / (1 + np.exp((long(own) - long(score)) * nat))
        slope[name] += (1 - above) - above  # one win and one loss against the opponent held there
    return float(np.sqrt(sum(value * value for value in slope.values())))


NAMES = ("A", "B", "C", "D", "E")


@st.composite
def boards(draw: st.DrawFn, max_tasks: int = 6, min_entrants: int = 1) -> Scores:
    """1..6 tasks with 1..5 of five entrants each, few distinct scores so that draws are common."""
    rows = st.dictionaries(
        st.sampled_from(NAMES), st.integers(0, 3).map(Fraction), min_size=min_entrants, max_size=5
    )
    made = draw(st.lists(rows, min_size=1, max_size=max_tasks))
    return {f"q{place}": row for place, row in enumerate(made)}


REFERENCES = st.fixed_dictionaries(
    {name: st.integers(600_000, 1_400_000).map(lambda milli: milli / 1000) for name in NAMES}
)
