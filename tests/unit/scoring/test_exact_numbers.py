"""Exact parsing and the one rounding rule (G-1, G-2, G-5), and pass^k."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.errors import MalformedInputError
from scoring.numbers import DASH, exact, fixed, points, ratio, show_points, show_usd, usd
from scoring.passk import mean, pass_hat_k


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("0.10", Fraction(1, 10)),
        ("-2/3", Fraction(-2, 3)),
        ("007", Fraction(7)),
        (0, Fraction(0)),
        (Fraction(3, 4), Fraction(3, 4)),
        ("0.333333333333333333333333333333", Fraction(333333333333333333333333333333, 10**30)),
    ],
)
def test_exact_accepts(given_value: object, expected: Fraction) -> None:
    """G-1: integers, decimals and ratios become fractions without passing through a float."""
    assert exact(given_value) == expected


@pytest.mark.parametrize(
    "bad",
    [
        *(0.1, 1.0, float("nan"), float("inf"), True, None, b"1", Decimal("0.1"), "9" * 41),
        *("", "nan", "inf", "1e3", "+1", " 1", "1 ", "1\n", "1.", ".5"),
        *("1/0", "1/-2", "--1", "1_000", "١", "0x10", "1/2/3"),
    ],
)
def test_exact_refuses(bad: object) -> None:
    """G-1: floats, booleans and loose spellings are refused with a code, never coerced."""
    with pytest.raises(MalformedInputError) as caught:
        exact(bad)
    assert caught.value.code == "number"


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        ("82.5", 0, "83"),  # round() gives 82
        ("84.5", 0, "85"),  # round() gives 84
        ("82.4999999999999999999", 0, "82"),
        ("-82.5", 0, "-83"),
        ("0.05", 1, "0.1"),  # the double nearest to 0.05 is above it, that of 0.15 below: neither matters
        ("0.15", 1, "0.2"),
        ("-0.04", 1, "0.0"),
        ("-0.05", 1, "-0.1"),
        ("275/3", 1, "91.7"),
        ("99.95", 1, "100.0"),
        ("0", 4, "0.0000"),
        ("1/8", 2, "0.13"),
        ("0.00005", 4, "0.0001"),
    ],
)
def test_rounding_is_half_away_from_zero(value: str, decimals: int, text: str) -> None:
    """G-2: four down, five up, on the exact value."""
    assert fixed(exact(value), decimals) == text


@given(st.integers(-(10**12), 10**12), st.integers(0, 9), st.integers(0, 6))
def test_rounding_agrees_with_the_decimal_module(whole: int, scale: int, decimals: int) -> None:
    """G-2 against an independent implementation (ROUND_HALF_UP is half away from zero)."""
    value = Fraction(whole, 10**scale)
    with localcontext() as context:
        context.prec = 60
        want = Decimal(whole).scaleb(-scale).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    assert fixed(value, decimals) == f"{abs(want) if want == 0 else want:f}"


@given(st.fractions(), st.fractions(), st.integers(0, 5))
def test_rounding_is_monotone(a: Fraction, b: Fraction, decimals: int) -> None:
    """Rounding once never swaps an order, so a rounded interval still holds the rounded estimate."""
    low, high = sorted((a, b))
    assert Fraction(fixed(low, decimals)) <= Fraction(fixed(high, decimals))


def test_display_of_money_points_and_what_is_missing() -> None:
    """UI-5, G-5, S3-35: four decimals of USD, one of points; None is a dash and never $0."""
    assert show_usd(usd(123_450_000)) == "$0.1235"
    assert show_usd(Fraction(0)) == "$0.0000"
    assert show_usd(None) == show_points(None) == DASH == "\N{EM DASH}"
    assert show_points(points(Fraction(2, 3))) == "66.7"
    assert ratio(Fraction(100)) == "100/1"
    with pytest.raises(MalformedInputError):
        fixed(Fraction(1), -1)


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("tries", range(1, 8))
def test_pass_k_is_the_share_of_subsets_that_all_pass(tries: int, k: int) -> None:
    """S0-27, ST-6: equal to counting every k-subset of the tries by hand; 0 where there are fewer than k."""
    for passes in range(tries + 1):
        outcomes = [True] * passes + [False] * (tries - passes)
        subsets = list(combinations(outcomes, k))
        want = Fraction(sum(all(s) for s in subsets), len(subsets)) if subsets else Fraction(0)
        assert pass_hat_k(passes, tries, k) == want


@pytest.mark.parametrize(("tries", "k"), [(3, 1), (3, 3), (4, 3), (5, 3), (5, 5), (6, 5)])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 3), Fraction(9, 10)])
def test_pass_k_is_unbiased(tries: int, k: int, rate: Fraction) -> None:
    """ST-6: its expectation over every sequence of outcomes is exactly p^k when n >= k."""
    expectation = sum(
        (
            pass_hat_k(sum(outcomes), tries, k)
            * rate ** sum(outcomes)
            * (1 - rate) ** (tries - sum(outcomes))
            for outcomes in product((0, 1), repeat=tries)
        ),
        Fraction(0),
    )
    assert expectation == rate**k


@given(st.integers(1, 40), st.data())
def test_pass_k_falls_with_k_and_rises_with_passes(tries: int, data: st.DataObject) -> None:
    """Family 6: 1 >= pass^1 >= pass^3 >= pass^5 >= 0, and one more pass never lowers any of them."""
    passes = data.draw(st.integers(0, tries))
    values = [pass_hat_k(passes, tries, k) for k in (1, 3, 5)]
    assert 1 >= values[0] >= values[1] >= values[2] >= 0
    if passes < tries:
        assert all(pass_hat_k(passes + 1, tries, k) >= v for k, v in zip((1, 3, 5), values, strict=True))


@pytest.mark.parametrize(("passes", "tries", "k"), [(2, 1, 1), (-1, 3, 1), (0, 0, 1), (1, 3, 0)])
def test_pass_k_refuses_what_no_run_can_produce(passes: int, tries: int, k: int) -> None:
    """Family 10: passes above tries, negative counts, no tries."""
    with pytest.raises(MalformedInputError) as caught:
        pass_hat_k(passes, tries, k)
    assert caught.value.code == "pass-count"


def test_mean_of_nothing_is_refused() -> None:
    """G-5: there is no mean of nothing, and it is not 0."""
    with pytest.raises(MalformedInputError):
        mean([])
    assert mean([(Fraction(1), 2), (Fraction(0), 1)]) == Fraction(2, 3)
