"""USD on the command line: exact decimals in, whole nano-USD out, nothing rounded."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.canonical import MAX_INTEGER
from orchestrator.cli.money import Usd, usd_text


def parsed(text: str) -> int:
    return Usd().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "nusd"),
    [
        ("0", 0),
        ("0.00", 0),
        ("1", 1_000_000_000),
        ("1.5", 1_500_000_000),
        ("0.000000001", 1),
        ("0.100000000", 100_000_000),
        ("007", 7_000_000_000),
        ("9007199.254740991", MAX_INTEGER),
    ],
)
def test_an_amount_is_taken_exactly(text: str, nusd: int) -> None:
    """Zero is an amount: a cap of zero."""
    assert parsed(text) == nusd


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "-1", "-0.5", "+1", "1,5", "1.", ".5", "1.5.0", "$1", "1 USD", "one", " 1", "1 ", "1\n"),
        *("1e3", "1E-3", "0x10", "1_000", "NaN", "sNaN", "Infinity", "-Infinity", "١", "１"),
        "0.0000000001",
        "1.00000000000000000000000000000000001",
        "9007199.254740992",
        "1" * 400,
        "1e999999999",
    ],
)
def test_what_is_no_plain_amount_is_refused(text: str) -> None:
    """A usage error that repeats what was written; never a rounded amount."""
    with pytest.raises(click.BadParameter) as caught:
        parsed(text)
    assert "is no amount of USD" in caught.value.message


def test_a_default_is_in_nano_usd_already() -> None:
    """Defaults of the option are whole numbers."""
    assert Usd().convert(5, None, None) == 5


@given(st.integers(0, MAX_INTEGER))
def test_an_amount_that_is_shown_can_be_given(nusd: int) -> None:
    """Text and number are each other's inverse, for every amount there is."""
    assert parsed(usd_text(nusd)) == nusd


@pytest.mark.parametrize(
    ("nusd", "text"), [(0, "0.00"), (1_500_000_000, "1.50"), (1, "0.000000001"), (12_340_000_000, "12.34")]
)
def test_an_amount_is_shown_with_the_decimals_it_needs(nusd: int, text: str) -> None:
    """At least two."""
    assert usd_text(nusd) == text
