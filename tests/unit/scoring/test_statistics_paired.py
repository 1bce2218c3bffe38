"""The paired exact test, Holm, rank ranges, pass^k's moments, and the detectable difference of a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import comb, erfc, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.detectable import detectable_from_pair, variance_of_mean
from scoring.errors import MalformedInputError
from scoring.holm import holm, rank_ranges
from scoring.noise import ALPHA
from scoring.passk_moments import pass_k_moments
from scoring.sign_flip import fewest_differences, sign_flip_p, subsets_up_to

DIFFERENCES = st.lists(st.fractions(-1, 1, max_denominator=6), min_size=1, max_size=9)


def by_brute_force(differences: Sequence[Fraction]) -> Fraction:
    """Every sign choice, one by one."""
    observed = abs(sum(differences, Fraction(0)))
    sums = [
        abs(sum((sign * d for sign, d in zip(signs, differences, strict=True)), Fraction(0)))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return Fraction(sum(one >= observed for one in sums), len(sums))


@given(DIFFERENCES)
def test_sign_flip_is_the_brute_force_value(differences: list[Fraction]) -> None:
    """ST-4: convolution and 2^G sign choices agree exactly."""
    assert sign_flip_p(differences) == by_brute_force(differences)


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_sign_flip_properties(differences: list[Fraction], chance: Any) -> None:
    """Families 1 and 14: symmetric, order-free, untouched by scale and by tasks without a difference, at
    least 2^(1-G) for G non-zero differences."""
    p = sign_flip_p(differences)
    shuffled = list(differences)
    chance.shuffle(shuffled)
    assert sign_flip_p(shuffled) == p
    assert sign_flip_p([-d for d in differences]) == p
    assert sign_flip_p([d / 7 for d in differences]) == p
    assert sign_flip_p([*differences, Fraction(0), Fraction(0)]) == p
    moved = sum(bool(d) for d in differences)
    assert Fraction(2, 2 ** max(1, moved)) <= p <= 1


def test_sign_flip_without_any_difference_is_one() -> None:
    """Family 14."""
    assert sign_flip_p([Fraction(0)] * 5) == 1
    assert sign_flip_p([Fraction(1), Fraction(-1)]) == 1


def test_sign_flip_keeps_its_level_exactly() -> None:
    """ST-4: over every sign choice of fixed sizes, p <= alpha happens at most alpha of the time."""
    for sizes in ([1] * 8, [3, 3, 2, 2, 1, 1, 1, 1], [5, 1, 1, 1, 1, 1, 1, 1, 1]):
        ps = [
            sign_flip_p([Fraction(s * n, 6) for s, n in zip(signs, sizes, strict=True)])
            for signs in product((1, -1), repeat=len(sizes))
        ]
        for alpha in (Fraction(1, 100), ALPHA, Fraction(1, 10)):
            assert sum(p <= alpha for p in ps) <= alpha * len(ps)


def test_sign_flip_of_many_tasks_is_near_the_normal_tail() -> None:
    """ST-4 at 400 tasks: exact, and where theory puts it."""
    differences = [Fraction(1 if n % 5 < 3 else -1, 3) for n in range(400)]
    p = sign_flip_p(differences)
    assert p.denominator <= 2**400
    exact = Fraction(2 * sum(comb(400, k) for k in range(161)), 2**400)
    assert p == exact
    assert float(p) == pytest.approx(erfc((80 - 1) / 20 / sqrt(2)), rel=0.1)


def test_subsets_are_counted() -> None:
    """The convolution behind the test, against a plain count."""
    sizes = [1, 2, 2, 3, 7, 9]
    sums = Counter(sum(part) for part in product(*[(0, size) for size in sizes]))
    for most in range(sum(sizes) + 1):
        assert subsets_up_to(sizes, most) == sum(n for value, n in sums.items() if value <= most)


@pytest.mark.parametrize(
    ("differences", "code"),
    [
        ([], "too-few-tasks"),
        ([0.5], "number"),
        ([1], "number"),
        ([float("nan")], "number"),
        ([Fraction(3, 2)], "range"),
    ],
)
def test_sign_flip_refuses_what_is_no_difference_of_shares(differences: Any, code: str) -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError) as caught:
        sign_flip_p(differences)
    assert caught.value.code == code


P_VALUES = st.lists(st.fractions(0, 1, max_denominator=50), max_size=6)


def holm_by_definition(p_values: Sequence[Fraction]) -> list[Fraction]:
    """max over all j with p_j <= p_i of min(1, p_j x number of p-values at or above p_j in rank)."""
    ordered = sorted(p_values)
    steps = [min(Fraction(1), (len(ordered) - place) * p) for place, p in enumerate(ordered)]
    return [max(step for step, q in zip(steps, ordered, strict=True) if q <= p) for p in p_values]


@given(P_VALUES)
def test_holm_is_its_definition(p_values: list[Fraction]) -> None:
    """ST-7; equal p-values have equal adjusted values."""
    assert list(holm(p_values)) == holm_by_definition(p_values)


@given(P_VALUES)
def test_holm_properties(p_values: list[Fraction]) -> None:
    """ST-7: between the raw value and Bonferroni, in the same order, whatever the order of the input."""
    adjusted = holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q <= min(Fraction(1), p * len(p_values))
    by_p = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
    assert all(a <= b for a, b in pairwise(by_p))
    assert holm(p_values[::-1]) == adjusted[::-1]


@pytest.mark.parametrize(
    ("bad", "code"), [(Fraction(-1, 2), "range"), (Fraction(2), "range"), (0.5, "number")]
)
def test_holm_refuses_what_is_no_p_value(bad: Any, code: str) -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError) as caught:
        holm([Fraction(1, 2), bad])
    assert caught.value.code == code


def test_rank_ranges() -> None:
    """ST-7: best = 1 + surely above, worst = n - surely below; nothing separated is 1..n for all."""
    nothing = rank_ranges(["a", "b", "c"], [])
    assert {(one.best, one.worst, one.display) for one in nothing.values()} == {(1, 3, "1-3")}
    some = rank_ranges(["a", "b", "c"], [("a", "c"), ("b", "c")])
    assert {name: one.display for name, one in some.items()} == {"a": "1-2", "b": "1-2", "c": "3"}
    for pairs, code in (
        ([("a", "x")], "foreign-agent"),
        ([("a", "b"), ("b", "a")], "contradicting-order"),
        ([("a", "a")], "contradicting-order"),
    ):
        with pytest.raises(MalformedInputError) as caught:
            rank_ranges(["a", "b", "c"], pairs)
        assert caught.value.code == code
    with pytest.raises(MalformedInputError, match="twice"):
        rank_ranges(["a", "a"], [])


@pytest.mark.parametrize("order", list(permutations("abcd"))[:6])
def test_a_total_order_gives_single_ranks(order: tuple[str, ...]) -> None:
    """ST-7: when everything is separated, every range is one rank."""
    pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :]]
    ranges = rank_ranges(sorted(order), pairs)
    assert [ranges[name].display for name in order] == ["1", "2", "3", "4"]


@given(st.integers(1, 7), st.integers(1, 5), st.fractions(0, 1, max_denominator=6))
def test_pass_k_is_unbiased(tries: int, k: int, rate: Fraction) -> None:
    """ST-6, family 6: the expectation is p^k exactly for n >= k."""
    if tries < k:
        with pytest.raises(MalformedInputError):
            pass_k_moments(tries, k, rate)
        return
    made = pass_k_moments(tries, k, rate)
    assert made.expectation == rate**k
    assert made.variance >= 0
    if tries == k:
        assert made.variance == rate**k * (1 - rate**k)


COUNTS = st.integers(1, 4).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
PAIRS = st.lists(st.tuples(COUNTS, COUNTS), min_size=6, max_size=12)


@given(PAIRS)
def test_detectable_properties(pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """ST-5, family 14: symmetric, above the least step, weakly smaller when every task is there twice."""
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    made, mirrored, twice = (
        detectable_from_pair(a, b),
        detectable_from_pair(b, a),
        detectable_from_pair(a * 2, b * 2),
    )
    assert made is not None and mirrored is not None and twice is not None
    assert made == mirrored
    assert float(made.least_step) <= made.share <= 1
    assert twice.share <= made.share + 1e-12


def test_detectable_is_the_formula_of_the_pair() -> None:
    """ST-5: (z.975 + z.80) x sqrt(var(d) / G) where the task differences spread most."""
    a = [(3, 3)] * 10 + [(0, 3)] * 10
    b = [(0, 3)] * 5 + [(3, 3)] * 5 + [(0, 3)] * 10
    made = detectable_from_pair(a, b)
    assert made is not None
    differences = [Fraction(1)] * 5 + [Fraction(0)] * 15
    assert made.spread == variance_of_mean(differences) == Fraction(15, 80) / 19
    assert made.share == pytest.approx(2.8015852 * sqrt(made.spread), abs=1e-6)
    assert made.least_step == Fraction(6, 3) / 20


def test_detectable_is_never_zero() -> None:
    """ST-5: two agents that pass everything still need six tasks' worth of steps to be told apart."""
    made = detectable_from_pair([(3, 3)] * 20, [(3, 3)] * 20)
    assert made is not None and made.spread == 0
    assert made.share >= 0.1
    single = detectable_from_pair([(1, 1)] * 20, [(1, 1)] * 20)
    assert single is not None and single.rerun == 2 * Fraction(1, 6) / 20


def test_on_few_tasks_nothing_can_be_told_apart() -> None:
    """ST-4, ST-5: six non-zero differences are the least with which p can get to 5%."""
    assert fewest_differences(ALPHA) == 6
    assert sign_flip_p([Fraction(1)] * 6) == Fraction(1, 32) <= ALPHA < sign_flip_p([Fraction(1)] * 5)
    assert detectable_from_pair([(3, 3)] * 5, [(0, 3)] * 5) is None
    assert fewest_differences(Fraction(1, 2)) == 2


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        ([], [], "too-few-tasks"),
        ([(1, 1)], [], "too-few-tasks"),
        ([(2, 1)], [(1, 1)], "pass-count"),
        ([(0, 0)], [(1, 1)], "number"),
    ],
)
def test_detectable_refuses_impossible_counts(a: Any, b: Any, code: str) -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError) as caught:
        detectable_from_pair(a, b)
    assert caught.value.code == code
