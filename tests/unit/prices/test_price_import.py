"""The importer, on made-up providers in the source's own types: exact, complete, nothing silent."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("genai_prices", reason="the source of imported prices is not installed")
from genai_prices.types import (
    ClauseContains,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from orchestrator.errors import UsageError
from orchestrator.prices import importer
from orchestrator.prices.corrections import DISCOUNTED_UNTIMED, DROPPED, KNOWN_SINCE
from orchestrator.prices.errors import PriceError
from orchestrator.prices.importer import Imported, Skipped, import_sheet

DAY = date(2026, 11, 30)
PLAIN = {"input_mtok": Decimal("3"), "output_mtok": Decimal("15")}
Imports = Callable[..., Imported]


def price(**change: Any) -> ModelPrice:
    """Three and fifteen USD per million tokens, and what `change` adds."""
    return ModelPrice(**{**PLAIN, **change})


def model(model_id: str = "m", match: Any = None, prices: Any = None) -> ModelInfo:
    """One model of the source."""
    found = price() if prices is None else prices
    return ModelInfo(id=model_id, match=match or ClauseEquals(equals=model_id), prices=found)


@pytest.mark.parametrize(
    ("match", "ids"),
    [
        (ClauseEquals(equals="m"), ("m",)),
        (ClauseOr(or_=[ClauseEquals(equals="m-2"), ClauseEquals(equals="m")]), ("m", "m-2")),
        (ClauseOr(or_=[ClauseOr(or_=[ClauseEquals(equals="a")]), ClauseEquals(equals="b")]), ("a", "b")),
        (ClauseStartsWith(starts_with="m"), ("m",)),
        (ClauseContains(contains="m"), ("m",)),
        (ClauseOr(or_=[ClauseRegex(regex="^m-\\d{8}$"), ClauseEquals(equals="m-1")]), ("m-1",)),
    ],
)
def test_only_ids_named_in_full_are_taken(match: Any, ids: tuple[str, ...], imports: Imports) -> None:
    """Prefixes and patterns give nothing but the model's own id, and that only if they accept it."""
    assert imports(model("m", match)).sheet.entries[0].ids == ids


def test_an_id_belongs_to_the_model_that_the_source_prices_it_by(imports: Imports) -> None:
    """Where an earlier model's prefix takes the id, it is not ours to give to the later one."""
    made = imports(model("m", ClauseStartsWith(starts_with="m")), model("m-large"))
    assert [entry.ids for entry in made.sheet.entries] == [("m",)]
    assert made.skipped == (Skipped("p", "m-large", "has no exact id"),)


def test_rates_are_converted_exactly(imports: Imports) -> None:
    """USD per million to whole nano-USD per million; per thousand calls to nano-USD per call."""
    made = imports(
        model(
            prices=price(
                input_mtok=Decimal("0.0375"),
                cache_read_mtok=Decimal("0.003625"),
                cache_write_mtok=Decimal("3.125"),
                cache_write_1h_mtok=Decimal("5"),
                input_audio_mtok=Decimal("40"),
                output_audio_mtok=Decimal("80"),
                web_searches_kcount=Decimal("10"),
                storage_searches_kcount=Decimal("2.5"),
            )
        )
    )
    (entry,) = made.sheet.entries
    assert entry.standard.model_dump() == {
        "input": 37_500_000,
        "output": 15_000_000_000,
        "cache_read": 3_625_000,
        "cache_write_5m": 3_125_000_000,
        "cache_write_1h": 5_000_000_000,
        "audio_input": 40_000_000_000,
        "audio_output": 80_000_000_000,
    }
    assert entry.per_call == {"web_search": 10_000_000, "file_search": 2_500_000}
    assert (entry.reviewed, entry.retrieved, entry.source) == (False, DAY, "https://p.example")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"input_mtok": Decimal("0.0000000001")}, "1E-10 USD is no whole number of nano-USD"),
        ({"web_searches_kcount": Decimal("0.0000001")}, "1E-7 USD is no whole number of nano-USD"),
        ({"output_image_mtok": Decimal("30")}, "has a price for output_image_mtok"),
        ({"audio_hours": Decimal("1")}, "has a price for audio_hours"),
        ({"input_mtok": None}, "has no price for input"),
        ({"output_mtok": None}, "has no price for output"),
        ({"input_mtok": Decimal(0), "output_mtok": Decimal(0)}, "is free of charge, which is no list price"),
    ],
)
def test_what_cannot_be_said_is_named(change: dict[str, Any], reason: str, imports: Imports) -> None:
    """The model is left out, with the reason; the others are imported."""
    made = imports(model("bad", prices=price(**change)), model("good"))
    assert made.skipped == (Skipped("p", "bad", reason),)
    assert [entry.ids for entry in made.sheet.entries] == [("good",)]


@pytest.mark.parametrize(
    "model_id", ["m-tts", "gpt-image-1", "m-realtime-2", "m-live", "whisper-1", "x/orpheus-1"]
)
def test_other_kinds_of_models_are_left_out(model_id: str, imports: Imports) -> None:
    """Speech, images and the like are no chat and no embedding."""
    assert imports(model(model_id), model("delivery")).skipped == (
        Skipped("p", model_id, "is no chat or embedding model"),
    )


def test_an_embedding_has_no_output_price(imports: Imports) -> None:
    """Where the source says nothing of output, neither do we; where it says zero, zero."""
    made = imports(
        model("embed-1", prices=price(output_mtok=None)),
        model("embed-2", prices=price(output_mtok=Decimal(0))),
    )
    assert [entry.standard.output for entry in made.sheet.entries] == [None, 0]


def test_cached_audio_leaves_audio_unpriced(imports: Imports) -> None:
    """Our buckets cannot tell it apart, so calls with audio are refused rather than priced too low."""
    change = {"input_audio_mtok": Decimal(1), "cache_audio_read_mtok": Decimal("0.1")}
    made = imports(model(prices=price(**change)))
    assert made.sheet.entries[0].standard.audio_input is None
    assert "calls with audio are not priced" in made.skipped[0].reason


def test_tiers_are_complete_rates_at_every_limit(imports: Imports) -> None:
    """Limits of different buckets are merged; a bucket without a tier keeps its rate; base is standard."""
    made = imports(
        model(
            prices=price(
                input_mtok=TieredPrices(Decimal(1), [Tier(200, Decimal(2)), Tier(400, Decimal(4))]),
                output_mtok=TieredPrices(Decimal(5), [Tier(300, Decimal(6))]),
                cache_read_mtok=Decimal("0.5"),
            )
        )
    )
    (entry,) = made.sheet.entries
    assert (entry.standard.input, entry.standard.output) == (10**9, 5 * 10**9)
    assert [
        (tier.above_input_tokens, tier.rates.input, tier.rates.output, tier.rates.cache_read)
        for tier in entry.tiers
    ] == [
        (200, 2 * 10**9, 5 * 10**9, 5 * 10**8),
        (300, 2 * 10**9, 6 * 10**9, 5 * 10**8),
        (400, 4 * 10**9, 6 * 10**9, 5 * 10**8),
    ]


def rows(*starts: date | None) -> list[ConditionalPrice]:
    """Prices of 1, 2, ... USD from these days on."""
    return [
        ConditionalPrice(
            constraint=None if start is None else StartDateConstraint(start),
            prices=price(input_mtok=Decimal(number)),
        )
        for number, start in enumerate(starts, 1)
    ]


def test_dated_rows_become_days_of_validity(imports: Imports) -> None:
    """Each price ends where the next begins; the last one has no end."""
    made = imports(model(prices=rows(date(2026, 1, 1), date(2026, 3, 1), date(2027, 1, 1))))
    assert [(entry.valid_from, entry.valid_to, entry.standard.input) for entry in made.sheet.entries] == [
        (date(2026, 1, 1), date(2026, 3, 1), 10**9),
        (date(2026, 3, 1), date(2027, 1, 1), 2 * 10**9),
        (date(2027, 1, 1), None, 3 * 10**9),
    ]


def test_a_price_without_a_start_holds_from_the_day_of_the_import(imports: Imports) -> None:
    """No price is claimed for days before it was seen; one that had ended by then is left out, by name."""
    assert imports(model()).sheet.entries[0].valid_from == DAY
    made = imports(model(prices=rows(None, date(2027, 1, 1))))
    assert [(entry.valid_from, entry.valid_to) for entry in made.sheet.entries] == [
        (DAY, date(2027, 1, 1)),
        (date(2027, 1, 1), None),
    ]
    made = imports(model(prices=rows(None, DAY)))
    assert [entry.valid_from for entry in made.sheet.entries] == [DAY]
    assert made.skipped == (
        Skipped("p", "m", "the price before 2026-11-30: the source does not say since when it holds"),
    )


@pytest.mark.parametrize(
    "starts", [(None, None), (date(2026, 1, 1), None), (date(2026, 2, 1), date(2026, 1, 1))], ids=str
)
def test_rows_out_of_order_are_left_out(starts: tuple[date | None, ...], imports: Imports) -> None:
    """Which of them holds is not guessed."""
    made = imports(model(prices=rows(*starts)), model("good"))
    assert made.skipped == (Skipped("p", "m", "its rows are not one price after another"),)


def timed(start: time, end: time, **change: Any) -> ConditionalPrice:
    """A price of 9 USD between these times."""
    return ConditionalPrice(
        constraint=TimeOfDateConstraint(start, end), prices=price(input_mtok=Decimal(9), **change)
    )


def test_times_of_day_become_windows(imports: Imports) -> None:
    """The un-timed row is the standard price."""
    made = imports(model(prices=[ConditionalPrice(prices=price()), timed(time(22), time(1, 30))]))
    (entry,) = made.sheet.entries
    assert entry.standard.input == 3 * 10**9
    assert [(one.start, one.end, one.rates.input) for one in entry.windows] == [("22:00", "01:30", 9 * 10**9)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (timed(time(1, 0, 30), time(2)), "a time of day is not a whole minute"),
        (timed(time(1), time(2), web_searches_kcount=Decimal(1)), "tiers or fees that depend on the time"),
        (timed(time(1), time(2), cache_read_mtok=Decimal(1)), "prices other buckets than the standard"),
        (timed(time(1), time(1)), "the window 01:00-01:00 is empty"),
    ],
)
def test_times_of_day_that_cannot_be_said_are_named(
    row: ConditionalPrice, reason: str, imports: Imports
) -> None:
    """Seconds, fees and buckets by the hour."""
    made = imports(model(prices=[ConditionalPrice(prices=price()), row]), model("good"))
    assert len(made.skipped) == 1 and reason in made.skipped[0].reason


def test_times_of_day_belong_to_the_last_price_only(imports: Imports) -> None:
    """The source cannot say them for earlier ones, which are left out, by name."""
    made = imports(model(prices=[*rows(date(2026, 1, 1), date(2026, 3, 1)), timed(time(1), time(2))]))
    assert [(entry.valid_from, len(entry.windows)) for entry in made.sheet.entries] == [(date(2026, 3, 1), 1)]
    assert made.skipped == (
        Skipped("p", "m", "the price before 2026-03-01: the source has no times of day for it"),
    )


def test_corrections_are_applied_and_named(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first day that we know, a rate known to be wrong, a night discount that is no standard price."""
    monkeypatch.setattr(importer, "KNOWN_SINCE", {("p", "m"): date(2025, 4, 16)})
    monkeypatch.setattr(importer, "DROPPED", {("p", "m"): DROPPED["openai", "o3"]})
    monkeypatch.setattr(importer, "DISCOUNTED_UNTIMED", {("p", "night")})
    cached = price(cache_read_mtok=Decimal("0.5"))
    two = [
        ConditionalPrice(prices=cached),
        ConditionalPrice(constraint=StartDateConstraint(date(2025, 6, 10)), prices=cached),
    ]
    by_day = timed(time(0, 30), time(16, 30))
    made = imports(model(prices=two), model("night", prices=[ConditionalPrice(prices=price()), by_day]))
    early, late, night = made.sheet.entries
    assert (early.valid_from, early.standard.cache_read, late.standard.cache_read) == (
        date(2025, 4, 16),
        None,
        5 * 10**8,
    )
    assert made.skipped[0].reason.startswith("cache_read before 2025-06-10: ")
    assert night.standard.input == 9 * 10**9
    assert [(one.start, one.end, one.rates.input) for one in night.windows] == [("16:30", "00:30", 3 * 10**9)]


def test_every_correction_names_a_model_of_the_source() -> None:
    """A table entry whose model the source has no more is to be removed."""
    made = import_sheet(DAY, providers=None, previous=None).sheet
    for provider, name in {*DROPPED, *KNOWN_SINCE, *DISCOUNTED_UNTIMED}:
        assert any((one.provider, one.ids[0]) == (provider, name) for one in made.entries), name


def test_an_unknown_provider_is_refused(imports: Imports) -> None:
    """With the names that there are."""
    imports(model())
    with pytest.raises(PriceError, match="no provider 'nope'") as refused:
        import_sheet(DAY, providers=["nope"], previous=None)
    assert refused.value.hint == "it has p"


def test_without_the_source_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install."""
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    with pytest.raises(UsageError) as refused:
        import_sheet(DAY, providers=None, previous=None)
    assert refused.value.hint == "pip install 'assize[prices]'"


def test_an_import_never_opens_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data inside the package, nothing else."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert import_sheet(DAY, providers=None, previous=None).sheet.entries
