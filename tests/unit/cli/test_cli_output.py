"""Cells, figures and lists: the pure part of what is printed (UI-2, UI-5, CLI-3)."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli import listing, output, watching, words
from orchestrator.cli.listing import Column, Style
from scoring.vocabulary import Reason

COLUMNS = (Column("a"), Column("b", key="b_ms"))


def printed(rows: list[dict[str, Any]], style: Style) -> str:
    with redirect_stdout(io.StringIO()) as out:
        listing.show_list(style, rows, schema="assize.test/1", key="rows", empty="Nothing.")
    return out.getvalue()


@given(st.text())
def test_safe_text_is_printable_but_for_line_feeds_and_tabs(text: str) -> None:
    """No control, format, private or separator character of any text survives."""
    shown = output.safe(text)
    assert not {"\x1b", "\x9b", "\r", "\u202e", "\u2028", "\ufeff"} & set(shown)
    assert output.safe(shown) == shown
    assert shown.count("\n") == text.count("\n")


@given(st.text())
def test_a_cell_stays_on_its_line(text: str) -> None:
    """No text can begin a new row or column."""
    assert len(output.cell(text).splitlines()) <= 1
    assert "\t" not in output.cell(text)


@given(st.text())
def test_json_is_safe_on_a_terminal_and_still_the_same_data(text: str) -> None:
    """Escapes change the bytes, never the data."""
    with redirect_stdout(io.StringIO()) as out:
        output.emit("assize.test/1", {"text": text})
    assert json.loads(out.getvalue())["text"] == text
    assert output.safe(out.getvalue()) == out.getvalue()
    assert "\t" not in out.getvalue()


@pytest.mark.parametrize(
    ("nusd", "shown"),
    [(None, "—"), (0, "$0.0000"), (49_999, "$0.0000"), (50_000, "$0.0001"), (12_345_678_900, "$12.3457")],
)
def test_money(nusd: int | None, shown: str) -> None:
    """Four decimals, halves up; unknown is a dash and never $0."""
    assert output.dollars(nusd) == shown


@pytest.mark.parametrize(
    ("wall_ms", "shown"),
    [(None, "—"), (0, "0.0s"), (59_940, "59.9s"), (60_000, "1:00"), (3_725_000, "62:05")],
)
def test_durations(wall_ms: int | None, shown: str) -> None:
    """One decimal below a minute, m:ss from there."""
    assert output.duration(wall_ms) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "—"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (5_000_000_000_000, "5000.0 GB")],
)
def test_sizes(number: int | None, shown: str) -> None:
    """Units of 1000; never 1000.0 of a smaller unit."""
    assert output.size(number) == shown


def test_list_formats() -> None:
    """The same rows four times."""
    rows: list[dict[str, Any]] = [{"a": "x|y", "b_ms": None}, {"a": True, "b_ms": [1, 2]}]
    assert printed(rows, Style(COLUMNS, True, "table")) == "a     b\nx|y   —\nTrue  [1, 2]\n"
    assert printed(rows, Style(COLUMNS, True, "csv")) == "a,b_ms\nx|y,\ntrue,1 2\n"
    assert printed(rows, Style(COLUMNS, True, "md")).splitlines()[2] == "| x\\|y | — |"
    data = json.loads(printed(rows, Style(COLUMNS, True, "json")))
    assert data == {"schema": "assize.test/1", "rows": rows}


def test_lists_without_header_and_without_rows() -> None:
    """Rows only; an empty table is a sentence, an empty CSV its header."""
    assert printed([{"a": 1, "b_ms": 2}], Style(COLUMNS, False, "csv")) == "1,2\n"
    assert printed([{"a": 1, "b_ms": 2}], Style(COLUMNS, False, "md")) == "| 1 | 2 |\n"
    assert printed([], Style(COLUMNS, False, "table")) == "Nothing.\n"
    assert printed([], Style(COLUMNS, True, "csv")) == "a,b_ms\n"


@pytest.mark.parametrize("redraw", [False, True])
def test_watch_looks_until_nothing_is_open(redraw: bool) -> None:
    """Plain: one line per change. Redrawn: the last picture stands. It waits only while something is open."""
    looks = iter([("open", 1), ("open", 1), ("open", 2), ("closed", 3)])
    waits: list[None] = []

    def look() -> list[dict[str, Any]]:
        state, number = next(looks)
        return [{"a": state, "b_ms": number}]

    with redirect_stdout(io.StringIO()) as out:
        watching.watch(
            look,
            columns=COLUMNS,
            schema=None,
            is_open=lambda row: row["a"] == "open",
            draw=(lambda rows: [f"state {rows[0]['a']}"]) if redraw else None,
            wait=lambda: waits.append(None),
        )
    assert len(waits) == 3
    assert next(looks, None) is None
    if redraw:
        assert "state closed" in out.getvalue()
    else:
        assert out.getvalue().splitlines() == ["a open  b 1", "a open  b 2", "a closed  b 3"]


def test_every_reason_has_a_sentence_of_its_own() -> None:
    """UI-1: an outcome always comes with its reason, and the reason can be read."""
    assert set(words.REASON_TEXT) == set(Reason)
    assert len(set(words.REASON_TEXT.values())) == len(Reason)
    assert words.sentence("operator_cancelled") is None
