"""Intervals and chance figures: against scipy.stats, by enumeration, by seeded simulation (ST-1 .. ST-5)."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring.errors import MalformedInputError
from scoring.intervals import (
    Interval,
    clustered_mean,
    clustered_t,
    effective_wilson,
    jeffreys,
    t_quantile,
    wilson,
    wilson_counts,
)
from scoring.noise import harmonic_mean, minimum_detectable_difference, rerun_half_width, rerun_variance

TASKS = st.lists(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=12
)


def shares(tasks: list[tuple[int, int]]) -> list[Fraction]:
    return [Fraction(passes, tries) for passes, tries in tasks]


def card_interval(tasks: list[tuple[int, int]]) -> Interval:
    return effective_wilson(shares(tasks), sum(tries for _, tries in tasks)).interval


@given(st.integers(1, 200), st.data())
def test_plain_intervals_against_scipy(n: int, data: st.DataObject) -> None:
    """ST-1: Wilson against scipy's own, Jeffreys against quantiles of its beta distribution."""
    k = data.draw(st.integers(0, n))
    want = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    got = wilson_counts(k, n)
    assert [got.low, got.high] == pytest.approx([want.low, want.high], abs=1e-9)
    beta = stats.beta(k + 0.5, n - k + 0.5)
    bounds = [0.0 if k == 0 else float(beta.ppf(0.025)), 1.0 if k == n else float(beta.ppf(0.975))]
    made = jeffreys(k, n)
    assert [made.low, made.high] == pytest.approx(bounds, abs=1e-7)


def test_t_quantile_against_scipy() -> None:
    """The t correction uses Student's t with G - 1 degrees of freedom."""
    for degrees in (1, 2, 3, 19, 21, 999):
        assert t_quantile(degrees) == pytest.approx(float(stats.t.ppf(0.975, degrees)), rel=1e-10)


@given(TASKS)
def test_intervals_hold_the_estimate_inside_the_unit_range(tasks: list[tuple[int, int]]) -> None:
    """Family 14: contain the estimate and lie in [0, 1]; also the clustered t interval."""
    estimate = float(clustered_mean(shares(tasks)).mean)
    for interval in (card_interval(tasks), clustered_t(shares(tasks))):
        assert 0 <= interval.low <= estimate <= interval.high <= 1


@given(TASKS)
def test_card_interval_shrinks_when_every_task_is_doubled(tasks: list[tuple[int, int]]) -> None:
    """Family 14: twice the tasks with the same shares never widen it, nor raise the chance figures."""
    assert card_interval(tasks * 2).half_width <= card_interval(tasks).half_width + 1e-12
    if all(tries > 1 for _, tries in tasks):
        assert rerun_half_width(tasks * 2) <= rerun_half_width(tasks)
    k = harmonic_mean([tries for _, tries in tasks])
    assert minimum_detectable_difference(2 * len(tasks), k) < minimum_detectable_difference(len(tasks), k)


@given(TASKS)
def test_card_interval_mirrors_when_passes_and_failures_swap(tasks: list[tuple[int, int]]) -> None:
    """Nothing in the interval prefers passes over failures."""
    a, b = card_interval(tasks), card_interval([(n - c, n) for c, n in tasks])
    assert [a.low, a.high] == pytest.approx([1 - b.high, 1 - b.low], abs=1e-12)


@given(TASKS, st.randoms(use_true_random=False))
def test_card_interval_does_not_depend_on_the_order_of_tasks(
    tasks: list[tuple[int, int]], shuffler: random.Random
) -> None:
    """Family 1: bit for bit equal, because sums are exact until the last step."""
    mixed = tasks.copy()
    shuffler.shuffle(mixed)
    assert card_interval(mixed) == card_interval(tasks)


@given(TASKS)
def test_effective_tries_stay_between_tasks_and_tries(tasks: list[tuple[int, int]]) -> None:
    """ST-3: n_eff is clipped to G .. G x K, and it is G when the tasks do not differ."""
    made = effective_wilson(shares(tasks), sum(tries for _, tries in tasks))
    assert len(tasks) <= made.n_effective <= sum(tries for _, tries in tasks)
    assert made.n_adjusted < made.n_effective
    if len(set(shares(tasks))) == 1:
        assert made.n_effective == len(tasks)


def test_full_marks_do_not_give_certainty() -> None:
    """ST-3: 20 of 20 tasks passing three times reads 82.0 to 100."""
    interval = card_interval([(3, 3)] * 20)
    assert interval.high == 1.0
    assert interval.low == pytest.approx(0.8203, abs=5e-5)


def test_card_interval_covers_what_it_says() -> None:
    """ST-3: seeded packs of 20 x 3 with task rates from a Beta of ICC 0.5; 95% nominal.

    Measured for the reference: .95-.96 at p = .8 and .97 at p = .95, where the t interval covers .84.
    """
    rng = random.Random(20261129)
    for rate, least in ((0.8, 0.93), (0.95, 0.94)):
        hits, t_hits, packs = 0, 0, 600
        for _ in range(packs):
            rates = [rng.betavariate(rate, 1 - rate) for _ in range(20)]  # a + b = 1: ICC = 1/(a+b+1) = .5
            tasks = [(sum(rng.random() < p for _ in range(3)), 3) for p in rates]
            made, by_t = card_interval(tasks), clustered_t(shares(tasks))
            hits += made.low <= rate <= made.high
            t_hits += by_t.low <= rate <= by_t.high
        assert hits / packs >= least
        assert hits >= t_hits


@pytest.mark.parametrize("tries", [2, 3, 5])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(4, 5)])
def test_rerun_variance_is_unbiased_over_all_outcomes(tries: int, rate: Fraction) -> None:
    """Each term's expectation is p(1-p)/n exactly, the variance of a task's share when it is run again.

    A first task that always splits keeps the zero rule out of the enumeration; its own term is taken off.
    """
    splitter = (1, 2)
    own = Fraction(1, 4)
    expectation = Fraction(0)
    for outcomes in product((0, 1), repeat=tries):
        passes = sum(outcomes)
        chance = rate**passes * (1 - rate) ** (tries - passes)
        expectation += chance * (rerun_variance([splitter, (passes, tries)]) * 4 - own)
    assert expectation == rate * (1 - rate) / tries


def test_rerun_noise_of_a_typical_pack() -> None:
    """20 x 3 at 50% with ICC .5 re-runs within about 9 points, the reference says (z x sqrt(.125/60))."""
    # Thirds in the proportions of a Beta(1/2, 1/2): expected within-task variance .125.
    tasks = [(0, 3)] * 25 + [(1, 3)] * 15 + [(2, 3)] * 15 + [(3, 3)] * 25
    per_task = rerun_variance(tasks) * 80 * 3
    assert per_task == Fraction(1, 8)
    assert 1.959964 * sqrt(per_task / 60) == pytest.approx(0.0895, abs=5e-5)


def test_rerun_noise_is_never_zero() -> None:
    """When no task split its tries, one split task's share of noise stands in: 1/n per G tasks."""
    assert rerun_variance([(3, 3)] * 10 + [(0, 3)] * 10) == Fraction(1, 3**2 * 20**2)
    assert rerun_half_width([(3, 3)] * 20) == pytest.approx(1.959964 / 60, abs=1e-6)
    smallest_split = rerun_variance([(2, 3)] + [(3, 3)] * 19)
    assert rerun_variance([(3, 3)] * 20) == smallest_split


def test_detectable_differences_of_the_reference() -> None:
    """ST-5: 29.5 points for 20 x 3, 28.2 for 22 x 3, 13.2 for 100 x 3, 23.8 for 20 x 10."""
    for tasks, tries, want in ((20, 3, 29.5), (22, 3, 28.2), (100, 3, 13.2), (20, 10, 23.8)):
        assert round(100 * minimum_detectable_difference(tasks, Fraction(tries)), 1) == want


def test_harmonic_mean_is_what_unequal_tries_need() -> None:
    """With tries n_i the mean of sigma2/n_i is sigma2/K for the harmonic mean K, not for the plain mean."""
    assert harmonic_mean([3, 3, 3]) == 3
    assert harmonic_mean([1, 3]) == Fraction(3, 2)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: wilson(Fraction(3, 2), 3), "proportion"),
        (lambda: wilson(Fraction(1, 2), 0), "proportion"),
        (lambda: wilson(Fraction(1, 2), float("nan")), "proportion"),
        (lambda: wilson(Fraction(1, 2), 3, Fraction(1)), "level"),
        (lambda: wilson_counts(4, 3), "pass-count"),
        (lambda: jeffreys(0, 0), "pass-count"),
        (lambda: clustered_mean([Fraction(1)]), "too-few-tasks"),
        (lambda: clustered_mean([Fraction(1), Fraction(2)]), "proportion"),
        (lambda: effective_wilson([Fraction(1), Fraction(0)], 1), "pass-count"),
        (lambda: t_quantile(0), "too-few-tasks"),
        (lambda: rerun_variance([]), "too-few-tasks"),
        (lambda: rerun_variance([(1, 1)]), "pass-count"),
        (lambda: rerun_variance([(4, 3)]), "pass-count"),
        (lambda: minimum_detectable_difference(0, Fraction(3)), "too-few-tasks"),
        (lambda: minimum_detectable_difference(3, Fraction(0)), "too-few-tasks"),
        (lambda: minimum_detectable_difference(3, Fraction(3), omega2=Fraction(-1)), "variance"),
        (lambda: minimum_detectable_difference(3, Fraction(3), power=Fraction(1)), "level"),
        (lambda: harmonic_mean([0]), "too-few-tasks"),
    ],
)
def test_statistics_refuse_what_has_no_answer(call: object, code: str) -> None:
    """Family 10: refused with a code, never coerced."""
    assert callable(call)
    with pytest.raises(MalformedInputError) as caught:
        call()
    assert caught.value.code == code
