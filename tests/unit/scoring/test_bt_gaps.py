"""Task-clustered intervals on differences, Holm and rank ranges (section 5, ST-7)."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from bt_builders import Scores, boards, page, table
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring.holm import holm as exact_holm
from scoring.holm import rank_ranges
from scoring.leaderboard.board import Board, NoGaps
from scoring.leaderboard.pairs import Group, PairWeights
from scoring.leaderboard.sandwich import differences, holm
from scoring.leaderboard.solver import fit_rows

NAT = 400 / np.log(10)


def sandwich_by_hand(scores: Scores, made: Board, first: str, second: str) -> tuple[float, float]:
    """(sandwich, least) standard errors in Elo, task by task and pair by pair, by numerical formulas of its
    own."""
    names = sorted({name for row in scores.values() for name in row})
    t = {row.entrant: row.score / NAT for row in made.rows}
    r = {row.entrant: row.reference / NAT for row in made.rows}
    hessian, meat, tasks = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2), 0
    for row in scores.values():
        g = np.zeros(len(names))
        for a, b in combinations(sorted(row), 2):
            i, j, w = names.index(a), names.index(b), 1 / (len(row) - 1)
            p = 1 / (1 + np.exp(t[b] - t[a]))
            seen = 0.5 if row[a] == row[b] else float(row[a] > row[b])
            c = np.zeros(len(names))
            c[i], c[j] = 1, -1
            hessian += w * p * (1 - p) * np.outer(c, c)
            g += w * (seen - p) * c
        meat += np.outer(g, g)
        tasks += len(row) > 1
    for i, name in enumerate(names):
        s = 1 / (1 + np.exp(r[name] - t[name]))
        hessian[i, i] += 2 * s * (1 - s)
    c = np.zeros(len(names))
    c[names.index(first)], c[names.index(second)] = 1, -1
    h = np.linalg.solve(hessian, c)
    clustered = max(float(h @ meat @ h), 0.0) * tasks / (tasks - 1)
    return NAT * np.sqrt(clustered), NAT * 0.5 * c @ h


@given(boards(min_entrants=2))
def test_intervals_are_the_sandwich_of_the_tasks(scores: Scores) -> None:
    """Bounds = difference +- t(T-1) x the larger of the clustered and the least standard error; p from it."""
    made = page(scores)
    if made.gaps is None:
        assert len(scores) < 2
        return
    reach = stats.t.ppf(0.975, len(scores) - 1)
    for first, second in permutations([row.entrant for row in made.rows], 2):
        gap, error = made.gap(first, second), max(sandwich_by_hand(scores, made, first, second))
        assert gap is not None
        assert gap.difference == made.row(first).score - made.row(second).score
        assert gap.high - gap.difference == pytest.approx(reach * error, rel=1e-6)
        assert gap.difference - gap.low == pytest.approx(reach * error, rel=1e-6)
        p_value = 2 * stats.t.sf(abs(gap.difference) / error, len(scores) - 1)
        assert gap.p_value == pytest.approx(p_value, rel=1e-5, abs=1e-9)


@given(st.lists(st.integers(0, 1000), min_size=0, max_size=12))
def test_holm_is_the_exact_one(thousandths: list[int]) -> None:
    """The array version agrees with the exact correction that comparisons use."""
    got = holm(np.array(thousandths, dtype=float) / 1000)
    want = exact_holm([Fraction(value, 1000) for value in thousandths])
    assert got.tolist() == pytest.approx([float(value) for value in want], abs=1e-12)


def strong_board(tasks: int) -> Scores:
    """A above B above C on three tasks of four; D and E draw at the bottom."""
    rows = {}
    for at in range(tasks):
        upset = at % 4 == 3
        rows[f"q{at}"] = {"A": 3 - 2 * upset, "B": 2, "C": 1 + 2 * upset, "D": 0, "E": 0}
    return table(**rows)


@pytest.mark.parametrize("tasks", [2, 4, 40, 400])
def test_rank_ranges_follow_the_corrected_tests(tasks: int) -> None:
    """ST-7: best = 1 + surely above, worst = n - surely below, by the exact module from the published p
    values; the rank lies inside."""
    made = page(strong_board(tasks))
    names = [row.entrant for row in made.rows]
    sure = []
    for first, second in permutations(names, 2):
        gap = made.gap(first, second)
        assert gap is not None
        if gap.difference > 0 and gap.p_holm <= 0.05:
            sure.append((first, second))
    ranges = rank_ranges(names, sure)
    assert {row.entrant: (row.best, row.worst) for row in made.rows} == {
        name: (one.best, one.worst) for name, one in ranges.items()
    }
    assert all(row.best <= row.rank <= row.worst for row in made.rows)
    assert made.gaps is not None and made.gaps.separated() == len(sure)


def test_few_tasks_separate_nothing_and_many_do() -> None:
    """Never one rank without its range: at 2 tasks all ranges are the whole page, at 400 they are narrow."""
    assert {(row.best, row.worst) for row in page(strong_board(2)).rows} == {(1, 5)}
    many = {row.entrant: (row.best, row.worst) for row in page(strong_board(400)).rows}
    assert many == {"A": (1, 1), "B": (2, 2), "C": (3, 3), "D": (4, 5), "E": (4, 5)}


def test_unanimous_draws_do_not_make_a_difference_certain() -> None:
    """`GAP_FLOOR`: thirty draws under references 200 apart: the small gap left is the references' alone,
    without any spread over tasks, and must not read as sure."""
    scores = table(**{f"q{at}": {"A": 1, "B": 1} for at in range(30)})
    made = page(scores, {"A": 1100.0, "B": 900.0})
    gap = made.gap("A", "B")
    clustered, least = sandwich_by_hand(scores, made, "A", "B")
    assert gap is not None and gap.difference > 0
    assert clustered * stats.t.ppf(0.975, 29) < gap.difference < least * stats.t.ppf(0.975, 29)
    assert gap.low < 0 < gap.high
    assert [(row.best, row.worst) for row in made.rows] == [(1, 2), (1, 2)]


def test_unanimous_wins_are_told_apart_without_a_zero_width() -> None:
    """Forty wins out of forty: surely better, and the interval is wide, not a point."""
    gap = page(table(**{f"q{at}": {"A": 1, "B": 0} for at in range(40)})).gap("A", "B")
    assert gap is not None
    assert gap.low > 0
    assert gap.high - gap.low > 100


def test_what_cannot_have_an_interval_says_why() -> None:
    """One task has no spread, one entrant no difference: None with a reason, and ranges as wide as the
    page."""
    one_task = page(table(q={"A": 1, "B": 0}))
    assert (one_task.gaps, one_task.gaps_reason) == (None, NoGaps.FEW_TASKS)
    assert one_task.gap("A", "B") is None
    assert [(row.rank, row.best, row.worst) for row in one_task.rows] == [(1, 1, 2), (2, 1, 2)]
    alone = page(table(q={"A": 1}, p={"A": 0}))
    assert alone.gaps_reason is NoGaps.ONE_ENTRANT
    assert [(row.best, row.worst) for row in alone.rows] == [(1, 1)]
    assert page(table(q={"A": 1, "B": 0}, p={"A": 1, "B": 0})).gaps_reason is None


def test_intervals_cover_and_equal_entrants_are_rarely_separated() -> None:
    """Simulated boards of 8 entrants x 30 tasks: 95% intervals cover 90..99% of true gaps, and of 100
    boards of equal entrants at most 10 separate any pair (5 expected)."""
    rng = np.random.default_rng(20261129)
    names = [f"e{at}" for at in range(8)]
    inside, total, false_alarms = 0, 0, 0
    for spread, boards_ in ((100.0, 60), (0.0, 100)):
        for _ in range(boards_):
            truth = rng.normal(0, spread, 8) if spread else np.zeros(8)
            levels = np.round(2 * (truth / NAT + rng.gumbel(size=(30, 8)))).astype(np.int64)
            group = Group(np.arange(8), levels)
            weights = PairWeights(names)
            weights.add_group(group)
            held = np.full(8, 1000.0)
            made = differences(names, fit_rows(*weights.rows(), held).scores, held, [group])
            assert made is not None
            false_alarms += spread == 0 and made.separated() > 0
            for a, b in combinations(range(8), 2):
                gap = made.gap(names[a], names[b])
                inside += gap.low <= truth[a] - truth[b] <= gap.high
                total += 1
    assert 0.90 <= inside / total <= 0.99
    assert false_alarms <= 10
