"""Durations on the command line."""

from __future__ import annotations

import click
import pytest

from orchestrator.cli.durations import Duration


@pytest.mark.parametrize(
    ("text", "ms"), [("0s", 0), ("90s", 90_000), ("30m", 1_800_000), ("6h", 21_600_000), ("2d", 172_800_000)]
)
def test_a_number_with_its_unit(text: str, ms: int) -> None:
    """Seconds, minutes, hours, days."""
    assert Duration().convert(text, None, None) == ms


@pytest.mark.parametrize("text", ["", "6", "h", "-6h", "1.5h", "6 h", "6H", "1w", "367d", "9999999999s"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """No guess at what was meant."""
    with pytest.raises(click.BadParameter, match=r"for example 6h|longer than a year"):
        Duration().convert(text, None, None)
