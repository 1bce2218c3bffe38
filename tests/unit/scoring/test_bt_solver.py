"""The joint fit: the exact gradient recomputed independently, hard cases, and refusal instead of a wrong
number."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from bt_builders import ELO_TOLERANCE, REFERENCES, Scores, boards, fitted, gradient_norm, page
from hypothesis import given

from scoring.errors import MalformedInputError
from scoring.leaderboard import solver
from scoring.leaderboard.elo import ELO_PER_NAT
from scoring.leaderboard.operators import DensePairs, Floats, SparsePairs
from scoring.leaderboard.solver import Fit, NotConvergedError, fit_rows

BAR = 1e-9


def fit_pairs(rows: list[tuple[int, int, float]], references: list[float]) -> Fit:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    who = [np.array(column, dtype=np.int64) for column in columns[:2]]
    return fit_rows(who[0], who[1], np.array(columns[2], dtype=float), np.array(references))


def random_rows(seed: int, size: int, rows: int) -> tuple[np.ndarray, np.ndarray, Floats]:
    rng = np.random.default_rng(seed)
    winners = rng.integers(0, size, rows)
    losers = (winners + rng.integers(1, size, rows)) % size
    return winners, losers, rng.integers(1, 20, rows) / 6


@given(boards(), REFERENCES)
def test_the_gradient_of_any_board_is_zero_to_1e_9(scores: Scores, references: dict[str, float]) -> None:
    """S1-11, S1-14, S1-15: maximum of the document's likelihood, in long double, own references."""
    fit = fitted(scores, references)
    assert gradient_norm(scores, fit, references) < BAR
    assert gradient_norm(scores, fitted(scores)) < BAR


def test_the_gradient_of_a_large_board_is_zero_to_1e_9() -> None:
    """60 entrants, 400 tasks of 2..12 of them, some far stronger than others."""
    rng = random.Random(11)
    names = [f"e{place:02d}" for place in range(60)]
    scores: Scores = {}
    for task in range(400):
        who = rng.sample(names, rng.randint(2, 12))
        scores[f"q{task}"] = {n: Fraction(rng.randint(0, 3) + int(n[1:]) // 6) for n in who}
    made = page(scores)
    fit = {row.entrant: row.score for row in made.rows}
    assert gradient_norm(scores, fit) < BAR
    assert made.gradient_norm < BAR


def test_the_gradient_check_can_fail() -> None:
    """A score that is off by a hundred-thousandth of a point is seen."""
    scores = {"q": {"A": Fraction(1), "B": Fraction(0)}}
    fit = fitted(scores)
    assert gradient_norm(scores, {**fit, "A": fit["A"] + 1e-5}) > BAR


@pytest.mark.parametrize("wins", [1.0, 1e3, 1e6])
def test_straight_wins_stay_finite(wins: float) -> None:
    """S1-15: all wins and all losses, up to a million of them, have a finite score; symmetric around 1000."""
    fit = fit_pairs([(0, 1, wins)], [1000.0, 1000.0])
    assert np.all(np.isfinite(fit.scores))
    assert fit.scores[0] + fit.scores[1] == pytest.approx(2000, abs=9e-5)
    # stationarity of the pair, by hand: w (1 - s(gap)) = 2 s(m) - 1 with m nats from the reference
    m = (fit.scores[0] - 1000) / ELO_PER_NAT
    gap = (fit.scores[0] - fit.scores[1]) / ELO_PER_NAT
    assert wins / (1 + np.exp(gap)) == pytest.approx(2 / (1 + np.exp(-m)) - 1, abs=BAR)


def test_groups_that_never_met_keep_their_own_scale() -> None:
    """S1-15: a disconnected board has one answer: each part is fitted as if it were alone."""
    both = fit_pairs([(0, 1, 3.0), (2, 3, 1.0)], [1000.0] * 4).scores
    assert both[:2] == pytest.approx(fit_pairs([(0, 1, 3.0)], [1000.0] * 2).scores, abs=ELO_TOLERANCE)
    assert both[2:] == pytest.approx(fit_pairs([(0, 1, 1.0)], [1000.0] * 2).scores, abs=ELO_TOLERANCE)


def test_a_long_chain_converges() -> None:
    """300 entrants who each met only their neighbours, ten thousand times: the worst graph for conjugate
    gradients, because a correction travels one entrant per product."""
    rows = [(at, at + 1, 1.1e4) for at in range(299)] + [(at + 1, at, 1e4) for at in range(299)]
    fit = fit_pairs(rows, [1000.0] * 300)
    assert fit.gradient_norm <= BAR
    assert np.all(np.diff(fit.scores) < 0)


@pytest.mark.parametrize("spread", [0.0, 4_000.0, 19_000.0])
def test_references_far_apart_do_not_overflow(spread: float) -> None:
    """Own references may disagree with the results by any amount that is let in."""
    fit = fit_pairs([(1, 0, 50.0), (0, 2, 1.0)], [1000.0 + spread, 1000.0 - spread, 1000.0])
    assert fit.gradient_norm <= BAR
    assert np.all(np.isfinite(fit.scores))


def test_nothing_played_is_the_reference_exactly() -> None:
    """S1-16: without comparisons the score is the reference, bit for bit."""
    references = [1000.1, 987.654321, 1333.0]
    assert fit_pairs([], references).scores.tolist() == references
    assert fit_pairs([(0, 2, 5.0)], references).scores[1] == references[1]
    assert fit_pairs([], []).scores.tolist() == []


@pytest.mark.parametrize("seed", range(4))
def test_dense_and_sparse_pairs_are_the_same_sums(seed: int) -> None:
    """Both operators against each other on the same rows, repeats included."""
    winners, losers, weights = random_rows(seed, 40, 300)
    table = np.zeros((40, 40))
    np.add.at(table, (winners, losers), weights)
    dense, sparse = DensePairs(table), SparsePairs(40, winners, losers, weights)
    x = np.exp(np.random.default_rng(seed).normal(0, 2, 40))
    v = np.random.default_rng(seed + 1).normal(0, 1, 40)
    assert dense.wins == pytest.approx(sparse.wins, rel=1e-12)
    assert dense.games == pytest.approx(sparse.games, rel=1e-12)
    assert dense.linearise(x) == pytest.approx(sparse.linearise(x), rel=1e-12)
    assert dense.curvature(v) == pytest.approx(sparse.curvature(v), rel=1e-9, abs=1e-12)
    assert dense.log_sum(x) == pytest.approx(sparse.log_sum(x), rel=1e-12)


def test_a_sparse_board_beyond_the_dense_limit_is_solved() -> None:
    """5,000 entrants in a ring with chords: no full table of pairs is made; the gradient is zero."""
    size = 5000
    ring = np.arange(size, dtype=np.int64)
    winners, losers = np.concatenate([ring, ring]), np.concatenate([(ring + 1) % size, (ring * 7 + 3) % size])
    keep = winners != losers
    winners, losers = winners[keep], losers[keep]
    weights = np.ones(len(winners))
    fit = fit_rows(winners, losers, weights, np.full(size, 1000.0))
    t = fit.scores.astype(np.longdouble) * (np.log(np.longdouble(10)) / 400)
    base = 1000 * np.log(np.longdouble(10)) / 400
    slope = 1 - 2 / (1 + np.exp(base - t))
    lost = 1 / (1 + np.exp(t[winners] - t[losers]))
    np.add.at(slope, winners, lost)
    np.add.at(slope, losers, -lost)
    assert float(np.sqrt(np.sum(slope * slope))) < BAR


def test_a_bad_start_is_rescued_by_halving_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a wildly wrong start full steps overshoot; Armijo backtracking on the likelihood still arrives."""
    used: list[int] = []
    plain = solver._Newton._backtrack

    def counted(self: solver._Newton, move: Floats, step: Floats, slope: float) -> Floats:
        used.append(1)
        return plain(self, move, step, slope)

    monkeypatch.setattr(solver._Newton, "_backtrack", counted)
    monkeypatch.setattr(solver, "STEP_NATS", 40.0)
    rows = [(0, 1, 1e6), (1, 2, 1e-3), (2, 0, 1e-3), (2, 3, 40.0)]
    fit = fit_pairs(rows, [1000.0, 9000.0, -7000.0, 1000.0])
    assert fit.gradient_norm <= BAR
    assert used


def test_too_few_steps_is_an_error_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm above 1e-9 after the last step raises; nothing is returned."""
    monkeypatch.setattr(solver, "MAX_STEPS", 1)
    with pytest.raises(NotConvergedError) as caught:
        fit_pairs([(0, 1, 1000.0), (1, 2, 3.0)], [1000.0, 1300.0, 700.0])
    assert caught.value.code == "not-converged"


def test_weights_beyond_double_precision_are_refused() -> None:
    """A trillion comparisons: the rounding of the sums alone is above the tolerance, so no score is
    published."""
    with pytest.raises(NotConvergedError):
        fit_pairs([(0, 1, 1e12 / 3), (1, 0, 2e12 / 7), (1, 2, 1e12 / 9)], [1000.0, 1010.0, 990.0])


@pytest.mark.parametrize(
    ("rows", "references", "code"),
    [
        ([(0, 0, 1.0)], [1000.0], "rows"),
        ([(0, 2, 1.0)], [1000.0, 1000.0], "rows"),
        ([(-1, 0, 1.0)], [1000.0, 1000.0], "rows"),
        ([(0, 1, -1.0)], [1000.0, 1000.0], "rows"),
        ([(0, 1, float("nan"))], [1000.0, 1000.0], "rows"),
        ([(0, 1, float("inf"))], [1000.0, 1000.0], "rows"),
        ([(0, 1, 1.0)], [1000.0, float("nan")], "reference"),
        ([(0, 1, 1.0)], [1000.0, 1e5], "reference"),
    ],
)
def test_rows_that_no_board_produces_are_refused(
    rows: list[tuple[int, int, float]], references: list[float], code: str
) -> None:
    """Family 10: refused with a code, never coerced."""
    with pytest.raises(MalformedInputError) as caught:
        fit_pairs(rows, references)
    assert caught.value.code == code
