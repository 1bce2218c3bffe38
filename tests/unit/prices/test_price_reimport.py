"""Importing again: what stays as it was, what is new, and how two sheets differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("genai_prices", reason="the source of imported prices is not installed")
from genai_prices.types import ClauseEquals, ClauseStartsWith, ModelInfo, ModelPrice

from orchestrator.prices.compare import differences
from orchestrator.prices.importer import Imported, reimported
from orchestrator.prices.sheet import PriceSheet

Imports = Callable[..., Imported]


def model(model_id: str = "m", *, prefix: bool = False, usd: int = 3) -> ModelInfo:
    """One model of the source at `usd` per million input tokens, matched by its id or by a prefix."""
    match = ClauseStartsWith(starts_with=model_id) if prefix else ClauseEquals(equals=model_id)
    price = ModelPrice(input_mtok=Decimal(usd), output_mtok=Decimal(15))
    return ModelInfo(id=model_id, match=match, prices=price)


def with_changes(sheet: PriceSheet, **change: Any) -> PriceSheet:
    """The sheet with its first entry changed."""
    first, *others = sheet.entries
    return PriceSheet.of(sheet.id, sheet.date, [first.model_copy(update=change), *others])


def test_an_unchanged_entry_is_kept_with_its_review_and_first_day(imports: Imports) -> None:
    """A later import of the same price changes nothing about it."""
    reviewed = with_changes(imports(model()).sheet, reviewed=True, max_output_tokens=64)
    later = imports(model(), day=date(2027, 2, 1), previous=reviewed).sheet
    assert later.entries == reviewed.entries


def test_a_changed_entry_is_unreviewed_and_keeps_what_the_source_has_not(imports: Imports) -> None:
    """A new price holds from the day it was seen; the output limit and ids added by hand stay."""
    reviewed = with_changes(
        imports(model(prefix=True)).sheet,
        reviewed=True,
        max_output_tokens=64,
        ids=("m", "m-20260101", "other"),
    )
    dearer = model(prefix=True, usd=4)
    (entry,) = imports(dearer, day=date(2027, 2, 1), previous=reviewed).sheet.entries
    assert (entry.reviewed, entry.valid_from, entry.max_output_tokens) == (False, date(2027, 2, 1), 64)
    # `other` was never priced by this model, so it is not taken over.
    assert entry.ids == ("m", "m-20260101")


def test_entries_of_unknown_providers_are_taken_over(imports: Imports, data_of: Callable[..., Any]) -> None:
    """Fictional and hand-written providers stay as they are."""
    previous = PriceSheet.from_data(data_of({"provider": "rehearsal", "reviewed": True}))
    made = imports(model(), previous=previous).sheet
    assert [entry.provider for entry in made.entries] == ["p", "rehearsal"]
    assert made.entries[1] == previous.entries[0]


def test_reimport_of_an_unchanged_sheet_is_equal(imports: Imports) -> None:
    """What `check` compares with."""
    sheet = imports(model(), model("n")).sheet
    assert differences(sheet, reimported(sheet).sheet) == ()


def test_differences_name_what_changed(imports: Imports) -> None:
    """New, changed with both values, gone; a review or a retrieval date is no change of price."""
    old = imports(model("kept"), model("dearer"), model("gone")).sheet
    dearer = model("dearer", usd=4)
    new = imports(model("kept"), dearer, model("new"), day=date(2026, 12, 1), previous=old).sheet
    found = differences(old, with_changes(new, reviewed=True))
    kinds = [(one.kind, one.model) for one in found]
    assert kinds == [("changed", "dearer"), ("gone", "gone"), ("new", "new")]
    assert "standard.input 3000000000 -> 4000000000" in found[0].detail
    assert "valid_from 2026-11-30 -> 2026-12-01" in found[0].detail
