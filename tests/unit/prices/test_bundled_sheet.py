"""The bundled sheet: recomputed by the source's own code, and against the reference table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.cost import cost
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.errors import NoPrice, UnpricedError
from orchestrator.prices.importer import reimported
from orchestrator.prices.sheet import PriceSheet

SHEET = PriceSheet.bundled()
SHEETS = Path(__file__).parents[3] / "orchestrator" / "prices" / "sheets"
WITH_SOURCE = pytest.mark.skipif(find_spec("genai_prices") is None, reason="genai-prices is not installed")
TODAY = datetime(2026, 11, 30, 12, tzinfo=UTC)


def list_usd(provider: str, model: str, used: Buckets, at: datetime) -> Decimal:
    """The list price in USD."""
    return Decimal(cost(SHEET.entry(provider, model, at.date()), used, at).list_nusd) / 10**9


@pytest.mark.parametrize(
    ("provider", "model", "used", "at", "usd"),
    [
        ("openai", "gpt-4o-mini", Buckets(10_000, output=1000), TODAY, "0.0021"),
        ("openai", "gpt-5", Buckets(2000, cache_read=8000, output=2000), TODAY, "0.0235"),
        ("openai", "o3", Buckets(10_000, output=1000), datetime(2025, 5, 1, tzinfo=UTC), "0.14"),
        ("openai", "o3", Buckets(10_000, output=1000), TODAY, "0.028"),
        ("anthropic", "claude-sonnet-4-5", Buckets(3, cache_write_5m=12_304, output=550), TODAY, "0.054399"),
        (
            "anthropic",
            "claude-sonnet-4-5",
            Buckets(100, cache_write_1h=10_000, cache_read=5000, output=500),
            TODAY,
            "0.0693",
        ),
        ("google", "gemini-2.5-pro", Buckets(150_000, output=5000), TODAY, "0.2375"),
        ("google", "gemini-2.5-pro", Buckets(250_000, output=5000), TODAY, "0.7"),
        ("deepseek", "deepseek-chat", Buckets(10_000, output=1000), TODAY, "0.0038"),
        ("deepseek", "deepseek-chat", Buckets(10_000, output=1000), TODAY.replace(hour=20), "0.0019"),
        ("deepseek", "deepseek-v4-flash", Buckets(10_000, output=1000), TODAY.replace(hour=3), "0.0042"),
        ("deepseek", "deepseek-v4-flash", Buckets(10_000, output=1000), TODAY.replace(hour=20), "0.0021"),
        ("anthropic", "claude-opus-4-6", Buckets(250_000, output=1000), TODAY, "1.275"),
        (
            "anthropic",
            "claude-opus-4-6",
            Buckets(250_000, output=1000),
            datetime(2026, 2, 20, tzinfo=UTC),
            "2.5375",
        ),
        ("openai", "gpt-5.6-sol", Buckets(10_000, output=1000), TODAY, "0.06"),
        ("openai", "gpt-5.6-sol", Buckets(10_000, output=1000), datetime(2026, 7, 15, tzinfo=UTC), "0.08"),
        ("openai", "text-embedding-3-small", Buckets(10_000), TODAY, "0.0002"),
    ],
)
def test_the_reference_table(provider: str, model: str, used: Buckets, at: datetime, usd: str) -> None:
    """reference/relay.md section 4, the column of genai-prices; undated rows on the day of the sheet."""
    assert list_usd(provider, model, used, at) == Decimal(usd)


@pytest.mark.parametrize(
    ("provider", "model", "on", "reason"),
    [
        ("openai", "gpt-99-nope", TODAY.date(), NoPrice.UNKNOWN_MODEL),
        ("anthropic", "claude-sonnet-4-5-99999999", TODAY.date(), NoPrice.UNKNOWN_MODEL),
        ("openai", "gpt-5", date(2020, 1, 1), NoPrice.OUTSIDE_VALIDITY),
        ("openai", "o3", date(2025, 4, 15), NoPrice.OUTSIDE_VALIDITY),
    ],
)
def test_what_the_source_prices_by_accident_is_refused(
    provider: str, model: str, on: date, reason: NoPrice
) -> None:
    """Invented snapshots, unknown models, days before a release."""
    with pytest.raises(UnpricedError) as refused:
        SHEET.entry(provider, model, on)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    ("provider", "model", "used", "day"),
    [
        ("openai", "text-embedding-3-small", Buckets(10, output=1), TODAY.date()),
        ("openai", "o3", Buckets(10, cache_read=5), date(2025, 5, 1)),
        ("google", "gemini-2.5-flash", Buckets(10, audio_input=5), TODAY.date()),
    ],
)
def test_what_the_source_prices_wrongly_is_refused(
    provider: str, model: str, used: Buckets, day: date
) -> None:
    """Output of an embedding, o3's cached rate before June 2025, audio whose cached rate is apart."""
    with pytest.raises(UnpricedError) as refused:
        cost(SHEET.entry(provider, model, day), used, TODAY)
    assert refused.value.reason is NoPrice.MISSING_DIMENSION


def moments(entry: ModelPrice) -> Iterator[datetime]:
    """Noon of the first day, and the edges of every window on it."""
    yield datetime.combine(entry.valid_from, time(12), UTC)
    for window in entry.windows:
        for clock in (window.start, window.end):
            edge = datetime.combine(entry.valid_from, time.fromisoformat(clock), UTC)
            yield edge
            yield edge + timedelta(minutes=1)


def uses(entry: ModelPrice) -> Iterator[Buckets]:
    """Every priced bucket at once, below every tier and just above each, then every fee."""
    priced = sorted(entry.standard.priced())
    yield Buckets(calls={}, **{bucket: 101 + 10 * place for place, bucket in enumerate(priced)})
    few = Buckets(calls={}, **dict.fromkeys(priced, 7))
    for tier in entry.tiers:
        for more in (0, 1):
            yield few + Buckets(input=tier.above_input_tokens + more - few.input_total)
    yield Buckets(input=1, calls=dict.fromkeys(entry.per_call, 3))


def source_usd(entry: ModelPrice, model_id: str, used: Buckets, at: datetime) -> Decimal:
    """What genai-prices itself says that this use costs."""
    from genai_prices import Usage, calc_price

    usage = Usage(
        input_tokens=used.input_total,
        cache_read_tokens=used.cache_read,
        cache_write_tokens=used.cache_write_5m + used.cache_write_1h,
        cache_write_1h_tokens=used.cache_write_1h,
        input_audio_tokens=used.audio_input,
        output_tokens=used.output + used.audio_output,
        output_audio_tokens=used.audio_output,
        web_searches=used.calls.get("web_search", 0),
        storage_searches=used.calls.get("file_search", 0),
    )
    return calc_price(usage, model_id, provider_id=entry.provider, genai_request_timestamp=at).total_price


@WITH_SOURCE
@pytest.mark.parametrize(
    "entry",
    [entry for entry in SHEET.entries if entry.provider != "rehearsal"],
    ids=lambda entry: f"{entry.label}@{entry.valid_from}",
)
def test_every_entry_costs_what_the_source_computes(entry: ModelPrice) -> None:
    """On its first day, for every bucket, tier, time of day, fee and id: two programs, one answer."""
    for at in moments(entry):
        for used in uses(entry):
            got = cost(entry, used, at)
            for model_id in entry.ids:
                assert got.list_nusd == math.ceil(source_usd(entry, model_id, used, at) * 10**9), (at, used)


@WITH_SOURCE
def test_the_sheet_is_what_the_importer_makes() -> None:
    """Nothing in it was changed by hand but reviews, limits and ids, which the importer keeps."""
    assert reimported(SHEET).sheet == SHEET


def test_the_file_is_in_our_own_layout() -> None:
    """Named by its date, one entry a line, so that reviews are readable as differences."""
    assert (SHEETS / f"{SHEET.date}.json").read_text(encoding="utf-8") == SHEET.text()
    assert SHEET.id == SHEET.date.isoformat()


def test_entries_with_a_second_opinion_against_them_are_unreviewed() -> None:
    """The two libraries disagree about these; docs/prices.md names them."""
    page = (SHEETS.parents[2] / "docs" / "prices.md").read_text()
    open_ones = {entry.ids[0] for entry in SHEET.entries if not entry.reviewed}
    assert open_ones and all(f"`{name}`" in page for name in open_ones)


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google", "small"])
def test_rehearsals_are_priced_on_any_day(kind: str) -> None:
    """Fictional prices in the same arithmetic, so that a rehearsal needs no real price."""
    for at in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)):
        price = SHEET.entry("rehearsal", f"rehearsal-{kind}", at.date())
        used = Buckets(input=1, cache_read=1, cache_write_5m=1, cache_write_1h=1, output=1)
        assert cost(price, used, at).list_nusd == 150 + 75 + 188 + 300 + 600
        assert (price.max_output_tokens, price.source) == (8192, "fictional")
