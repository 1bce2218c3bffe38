"""The price sheet: strict files, one digest, exact ids, days of validity."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from orchestrator import canonical
from orchestrator.prices import sheet as sheet_module
from orchestrator.prices.errors import NoPrice, PriceError, UnpricedError
from orchestrator.prices.sheet import PriceSheet

DataOf = Callable[..., dict[str, Any]]
BAD_NAMES = sorted(
    json.loads((Path(__file__).parents[2] / "assets" / "prices" / "bad_entries.json").read_text())
)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_entry_is_refused_in_words(name: str, bad_entries: dict[str, Any], data_of: DataOf) -> None:
    """Every way to write an entry wrong is refused by a sentence that names it."""
    with pytest.raises(PriceError) as refused:
        PriceSheet.from_data(data_of(bad_entries[name]["entry"]))
    assert refused.value.code == "prices"
    assert bad_entries[name]["says"] in refused.value.message


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not strict JSON"),
        (b"\xff", "not strict JSON"),
        (b"\xef\xbb\xbf{}", "not strict JSON"),
        (b'{"id": 1, "id": 2}', "an object repeats a key"),
        (b'{"id": 1.0}', "the number 1.0 is not an integer"),
        (b'{"id": 1e3}', "the number 1e3 is not an integer"),
        (b'{"id": NaN}', "the number NaN is not an integer"),
        (b"[" * 100_000, "not strict JSON"),
        (b"[" * 70 + b"]" * 70, "nested deeper"),
        (b"9" * 5000, "not strict JSON"),
        (b"[]", "the whole file"),
        (b"{}", "format is missing"),
    ],
)
def test_a_bad_file_is_refused_in_words(raw: bytes, says: str, tmp_path: Path) -> None:
    """Not JSON, not strict, not integers, not a sheet: each says so, and names the file."""
    path = tmp_path / "bad.json"
    path.write_bytes(raw)
    with pytest.raises(PriceError) as refused:
        PriceSheet.load(path)
    assert says in refused.value.message
    assert "bad.json" in refused.value.message


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "assize.prices/2"}, "format = 'assize.prices/2'"),
        ({"id": "../x"}, "id = '../x'"),
        ({"date": "2026-13-01"}, "date = '2026-13-01'"),
        ({"entries": []}, "entries"),
        ({"more": 1}, "more is not a known key"),
    ],
)
def test_a_bad_head_is_refused(change: dict[str, Any], says: str, data_of: DataOf) -> None:
    """Format, id, date and an entry at least."""
    with pytest.raises(PriceError) as refused:
        PriceSheet.from_data({**data_of(), **change})
    assert says in refused.value.message


def test_every_problem_is_listed(data_of: DataOf) -> None:
    """One sentence for each, not only the first."""
    with pytest.raises(PriceError) as refused:
        PriceSheet.from_data(data_of({"ids": []}, {"reviewed": 1}))
    assert len(refused.value.problems) == 2
    assert refused.value.message.startswith("the price sheet: 2 problems\n  - ")


def test_a_missing_and_a_huge_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a traceback nor a read without end."""
    with pytest.raises(PriceError, match=r"price sheet none\.json: cannot be read"):
        PriceSheet.load(tmp_path / "none.json")
    monkeypatch.setattr(sheet_module, "MAX_FILE_BYTES", 3)
    (tmp_path / "big.json").write_text("[   ]")
    with pytest.raises(PriceError, match="larger than 3 bytes"):
        PriceSheet.load(tmp_path / "big.json")


def test_two_prices_of_one_id_on_one_day_are_refused(data_of: DataOf) -> None:
    """The same id of the same provider may have one price a day; the sentence names both entries."""
    with pytest.raises(PriceError) as refused:
        PriceSheet.from_data(
            data_of({"valid_to": "2026-06-02"}, {"ids": ["n", "m"], "valid_from": "2026-06-01"})
        )
    assert "p m has two prices on the same day: the entries from 2026-01-01 and from 2026-06-01 overlap" in (
        refused.value.message
    )


def test_one_price_after_another_and_other_providers_are_no_overlap(data_of: DataOf) -> None:
    """The end is exclusive, and a provider is part of what is priced."""
    sheet = PriceSheet.from_data(
        data_of({"valid_to": "2026-06-01"}, {"valid_from": "2026-06-01"}, {"provider": "q"})
    )
    assert sheet.entry("p", "m", date(2026, 5, 31)) is sheet.entries[0]
    assert sheet.entry("p", "m", date(2026, 6, 1)) is sheet.entries[1]
    assert sheet.providers_of("m", date(2026, 6, 1)) == ("p", "q")
    assert sheet.providers_of("m", date(2025, 6, 1)) == ()
    assert sheet.providers_of("n", date(2026, 6, 1)) == ()


@pytest.mark.parametrize("asked", ["M", "m ", "m-20991231", "p/m", "", "m\n"])
def test_ids_are_matched_exactly(asked: str, data_of: DataOf) -> None:
    """No prefix, no case folding, no invented snapshot: anything else has no price."""
    with pytest.raises(UnpricedError) as refused:
        PriceSheet.from_data(data_of()).entry("p", asked, date(2026, 6, 1))
    assert (refused.value.reason, refused.value.code) == (NoPrice.UNKNOWN_MODEL, "unpriced")


def test_another_provider_has_no_price(data_of: DataOf) -> None:
    """A model is priced for the provider that bills it."""
    with pytest.raises(UnpricedError) as refused:
        PriceSheet.from_data(data_of()).entry("q", "m", date(2026, 6, 1))
    assert refused.value.reason is NoPrice.UNKNOWN_MODEL


@pytest.mark.parametrize("day", [date(2025, 12, 31), date(2026, 3, 1), date(2027, 1, 1)])
def test_a_day_without_a_price_is_refused(day: date, data_of: DataOf) -> None:
    """Before the first day, in a gap, after the last: no other day's price is used."""
    sheet = PriceSheet.from_data(
        data_of(
            {"valid_to": "2026-03-01"},
            {"valid_from": "2026-03-02", "valid_to": "2027-01-01"},
        )
    )
    with pytest.raises(UnpricedError) as refused:
        sheet.entry("p", "m", day)
    assert refused.value.reason is NoPrice.OUTSIDE_VALIDITY


def test_the_digest_is_that_of_the_canonical_content(data_of: DataOf, tmp_path: Path) -> None:
    """Layout and left-out defaults do not change it; any price does."""
    sheet = PriceSheet.from_data(data_of())
    assert sheet.digest == canonical.digest(sheet.to_data())
    for layout in (None, 4):
        path = tmp_path / f"{layout}.json"
        path.write_text(json.dumps(sheet.to_data(), indent=layout, sort_keys=True))
        assert PriceSheet.load(path) == sheet
    other = PriceSheet.from_data(data_of({"standard": {"input": 3_000_000_001, "output": 15_000_000_000}}))
    assert other.digest != sheet.digest


def test_text_is_read_back_as_the_same_sheet(data_of: DataOf, tmp_path: Path) -> None:
    """What is written is what is read, one entry a line."""
    sheet = PriceSheet.from_data(data_of({"ids": ["modèle"]}, {"provider": "q"}))
    path = tmp_path / "sheet.json"
    path.write_text(sheet.text(), encoding="utf-8")
    assert PriceSheet.load(path) == sheet
    assert sum('"provider":' in line for line in sheet.text().splitlines()) == 2


def test_the_newest_bundled_sheet_is_taken(
    tmp_path: Path, data_of: DataOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the date in the file name."""
    for name in ("2026-09-30", "2026-11-30", "2026-10-31"):
        sheet = PriceSheet.from_data({**data_of(), "id": name})
        (tmp_path / f"{name}.json").write_text(sheet.text())
    monkeypatch.setattr(sheet_module, "_SHEETS", tmp_path)
    assert PriceSheet.bundled().id == "2026-11-30"
