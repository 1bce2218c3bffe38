"""The exact weights of same-question comparisons (S1-5 .. S1-10, S1-12), kept task by task."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from bt_builders import NAMES, Scores, boards, exact_wins, table
from hypothesis import given
from hypothesis import strategies as st

from scoring.errors import MalformedInputError
from scoring.leaderboard.entries import BoardRun, TaskScores, sheet_of
from scoring.leaderboard.half_wins import HalfWins
from scoring.leaderboard.pairs import PairWeights, groups


def kept(scores: Scores, names: tuple[str, ...] = NAMES) -> PairWeights:
    weights = PairWeights(names)
    for task, row in scores.items():
        weights.add(TaskScores.of(task, row))
    return weights


def state(weights: PairWeights) -> object:
    """Everything that a solver or a page reads."""
    pairs = {pair: weights.win_weight(*pair) for pair in permutations(weights.entrants, 2)}
    return pairs, weights.records(), [part.tolist() for part in weights.rows()]


@given(boards())
def test_weights_are_the_document_s(scores: Scores) -> None:
    """S1-6 .. S1-9: equal to the definition summed pair by pair in fractions."""
    weights, wanted = kept(scores), exact_wins(scores)
    assert {pair: weights.win_weight(*pair) for pair in wanted} == wanted


@given(boards())
def test_every_entrant_weighs_one_on_a_task(scores: Scores) -> None:
    """S1-9, S1-10: exactly 1 per task with company, exactly 0 alone; wins add up to half of all weight."""
    for task, row in scores.items():
        records = dict(zip(NAMES, kept({task: row}).records(), strict=True))
        weight = Fraction(1 if len(row) > 1 else 0)
        assert {name: records[name][1] for name in row} == dict.fromkeys(row, weight)
        assert sum(wins for wins, _ in records.values()) == weight * len(row) / 2


@given(boards(), st.randoms(use_true_random=False))
def test_the_order_of_tasks_and_batches_has_no_effect(scores: Scores, rng: random.Random) -> None:
    """S1-12: one by one in any order, or grouped: the same whole numbers and the same solver rows."""
    tasks = [TaskScores.of(task, row) for task, row in scores.items()]
    rng.shuffle(tasks)
    shuffled, batched = PairWeights(NAMES), PairWeights(NAMES)
    for task in tasks:
        shuffled.add(task)
    for group in groups(tasks, batched.number):
        batched.add_group(group)
    assert state(shuffled) == state(batched) == state(kept(scores))


@given(boards(), boards())
def test_a_task_is_taken_back_exactly(scores: Scores, more: Scores) -> None:
    """A new result on a task replaces its table: add, remove, and nothing has changed."""
    weights = kept(scores)
    before = state(weights)
    tasks = [TaskScores.of(task, row) for task, row in more.items()]
    for task in tasks:
        weights.add(task)
    for task in tasks:
        weights.remove(task)
    assert state(weights) == before


def test_adding_a_task_touches_n_squared_pairs_only() -> None:
    """A task of 3 among 2,000 entrants adds six ordered pairs, whatever the size of the board."""
    names = tuple(f"e{place:04d}" for place in range(2000))
    weights = kept(table(q={"e0005": 1, "e1000": 0, "e1999": 0}), names)
    winners, losers, values = weights.rows()
    assert list(zip(winners.tolist(), losers.tolist(), values.tolist(), strict=True)) == [
        (5, 1000, 0.5),
        (5, 1999, 0.5),
        (1000, 1999, 0.25),
        (1999, 1000, 0.25),
    ]


def test_a_sparse_table_becomes_dense_and_says_the_same() -> None:
    """100 entrants, many tasks: the store changes its form while it fills, the counts do not."""
    rng = np.random.default_rng(3)
    store, plain = HalfWins(100), np.zeros((100, 100), dtype=np.int64)
    for _ in range(400):
        who = np.sort(rng.choice(100, 8, replace=False)).astype(np.int64)
        counts = rng.integers(0, 3, (8, 8))
        np.fill_diagonal(counts, 0)
        store.add(who, counts)
        plain[np.ix_(who, who)] += counts
    keys, counts = store.table()
    assert store._dense is not None
    assert keys.tolist() == np.flatnonzero(plain).tolist()
    assert counts.tolist() == plain.ravel()[keys].tolist()
    assert [part.tolist() for part in store.sums()] == [
        plain.sum(axis=1).tolist(),
        plain.sum(axis=0).tolist(),
    ]
    assert store.of_pair(3, 7) == plain[3, 7]


def test_a_table_beyond_the_dense_limit_stays_sparse() -> None:
    """10,000 entrants never allocate 100 million cells; a pair that never met is 0."""
    store = HalfWins(10_000)
    for start in range(0, 9_000, 3):
        who = np.array([start, start + 1, start + 999], dtype=np.int64)
        store.add(who, np.array([[0, 2, 1], [0, 0, 2], [1, 0, 0]], dtype=np.int64))
    assert store._dense is None
    assert store.of_pair(0, 1) == 2
    assert store.of_pair(1, 0) == 0
    assert store.of_pair(9_999, 0) == 0
    assert store.table()[1].sum() == 3_000 * 6


@given(st.lists(st.fractions(), min_size=1, max_size=8))
def test_levels_keep_order_and_equality(scores: list[Fraction]) -> None:
    """Only the order on one task counts (S1-6, S1-7): whole-number levels compare as the scores do."""
    names = tuple(f"e{place}" for place in range(len(scores)))
    levels = TaskScores.of("q", dict(zip(names, scores, strict=True))).levels
    for a, b in permutations(range(len(scores)), 2):
        assert (levels[a] > levels[b], levels[a] == levels[b]) == (
            scores[a] > scores[b],
            scores[a] == scores[b],
        )


def test_unknown_and_double_entrants_are_refused() -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError, match="twice"):
        PairWeights(["A", "A"])
    weights = PairWeights(["A", "B"])
    with pytest.raises(MalformedInputError) as caught:
        weights.add(TaskScores.of("q", {"A": Fraction(1), "Z": Fraction(0)}))
    assert caught.value.code == "unknown-entrant"
    with pytest.raises(MalformedInputError):
        weights.win_weight("A", "Z")


def test_repeats_are_compared_as_their_exact_mean() -> None:
    """S1-5, S1-10: 1/3 and 2/3 are exactly 1/2, a draw against 1/2, where binary floats would not agree."""
    parts = [("A", "1/10"), ("A", "2/10"), ("A", "6/10"), ("B", "3/10")]
    runs = [BoardRun(name, "q", Fraction(text)) for name, text in parts]
    made = sheet_of(runs).tables
    assert made == {"q": TaskScores("q", ("A", "B"), (Fraction(3, 10), Fraction(3, 10)), (0, 0))}
