"""A new price sheet from the data inside the installed genai-prices package; never from the network.

Imported prices are unreviewed. Everything that could not be taken over is named in the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from orchestrator.errors import UsageError
from orchestrator.packs.validation import sentences
from orchestrator.prices import source
from orchestrator.prices.corrections import DISCOUNTED_UNTIMED, DROPPED, KNOWN_SINCE
from orchestrator.prices.entry import ModelPrice, Rates, Window
from orchestrator.prices.errors import PriceError
from orchestrator.prices.sheet import PriceSheet
from orchestrator.prices.source import InexpressibleError, Period, Priced

if TYPE_CHECKING:
    from genai_prices import types as source_types

PROVIDERS: Final = ("anthropic", "deepseek", "google", "groq", "mistral", "openai", "x-ai")
"""Imported unless others are named."""

_OTHER_KINDS: Final = re.compile(
    r"(^|[-/_.])(image|live|moderation|ocr|omni|orpheus|realtime|transcribe|tts|voice|whisper)([-/_.]|$)"
)
_UNREAL_ID: Final = re.compile(r"^ft:|[-.]$")


class SourceMissingError(UsageError):
    """The package that prices are imported from is not installed; everything else works without it."""

    code = "prices-source"


@dataclass(frozen=True)
class Skipped:
    """Something of the source that is not in the sheet: a model, or the part of it that `reason` names."""

    provider: str
    model: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """The new sheet and, in the order of the source, what was left out of it."""

    sheet: PriceSheet
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _Run:
    """One import: its day, what there was before by provider and first id, what is left out so far."""

    day: date
    previous: Mapping[tuple[str, ...], Sequence[ModelPrice]]
    skipped: list[Skipped]


def import_sheet(day: date, *, providers: Sequence[str] | None, previous: PriceSheet | None) -> Imported:
    """A sheet dated `day` of `providers` (None: `PROVIDERS`), chat and embedding models only.

    An entry of `previous` that says the same is kept as it is, with its first day and its review; output
    limits, which the source does not have, and providers that it does not know come from there as well.
    A price without a start in the source holds from `day`. `SourceMissingError` without the package,
    `PriceError` for a provider that it does not know.
    """
    known = {provider.id: provider for provider in _snapshot()}
    wanted = sorted(set(PROVIDERS if providers is None else providers))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise PriceError(f"genai-prices has no provider {unknown[0]!r}", hint=f"it has {', '.join(known)}")
    before = () if previous is None else previous.entries
    by_model: dict[tuple[str, ...], list[ModelPrice]] = {}
    for entry in before:
        by_model.setdefault((entry.provider, entry.ids[0]), []).append(entry)
    run = _Run(day, by_model, [])
    entries = [entry for name in wanted for entry in _entries(known[name], run)]
    entries += [entry for entry in before if entry.provider not in known]
    entries.sort(key=lambda entry: (entry.provider, entry.ids[0], entry.valid_from))
    return Imported(PriceSheet.of(day.isoformat(), day, entries), tuple(run.skipped))


def reimported(sheet: PriceSheet) -> Imported:
    """What an import on the sheet's own date makes of it; equal to it while the source says the same."""
    known = {provider.id for provider in _snapshot()}
    providers = sorted({entry.provider for entry in sheet.entries} & known)
    return import_sheet(sheet.date, providers=providers, previous=sheet)


def _snapshot() -> list[source_types.Provider]:
    try:
        from genai_prices.data import providers
    except ModuleNotFoundError:
        raise SourceMissingError(
            "the package genai-prices is not installed", hint="pip install 'assize[prices]'"
        ) from None
    return providers


def _entries(provider: source_types.Provider, run: _Run) -> Iterator[ModelPrice]:
    for model in provider.models:
        key = (provider.id, model.id)
        try:
            ids = _ids(provider, model, run)
            found = _datable(key, source.periods(model), run)
            made = [_entry(key, ids, period, provider, run) for period in found]
        except InexpressibleError as error:
            run.skipped.append(Skipped(*key, error.message))
        except ValidationError as error:
            run.skipped.append(Skipped(*key, "; ".join(sentences(error))))
        else:
            yield from made


def _ids(provider: source_types.Provider, model: source_types.ModelInfo, run: _Run) -> tuple[str, ...]:
    """Exact ids that the source prices by this model, then those that a reviewer once added to them.

    Refuses models of other kinds.
    """
    if _OTHER_KINDS.search(model.id):
        raise InexpressibleError("is no chat or embedding model")
    ids = [one for one in source.exact_ids(model) if not _UNREAL_ID.search(one)]
    ids += [one for old in run.previous.get((provider.id, *ids[:1]), ()) for one in old.ids]
    ids = [one for one in dict.fromkeys(ids) if provider.find_model(one) is model]
    if not ids:
        raise InexpressibleError("has no exact id")
    return tuple(ids)


def _datable(key: tuple[str, str], found: list[Period], run: _Run) -> list[Period]:
    """The periods whose days are known and whose times of day are, each with its start if it has one."""
    first, last = found[0], found[-1]
    found[0] = replace(first, start=first.start or KNOWN_SINCE.get(key))
    kept = []
    for period in found:
        if last.timed and period is not found[-1]:
            reason = "the source has no times of day for it"
        elif period.end is not None and (period.start or run.day) >= period.end:
            reason = "the source does not say since when it holds"
        else:
            kept.append(period)
            continue
        run.skipped.append(Skipped(*key, f"the price before {period.end}: {reason}"))
    return kept


def _entry(
    key: tuple[str, str],
    ids: tuple[str, ...],
    period: Period,
    provider: source_types.Provider,
    run: _Run,
) -> ModelPrice:
    base = source.priced(period.price)
    _check_kind(key[1], base.standard)
    if base.note is not None:
        run.skipped.append(Skipped(*key, base.note))
    standard, windows = _by_time_of_day(key, period, base)
    values = {
        "provider": key[0],
        "ids": ids,
        "valid_from": period.start or run.day,
        "valid_to": period.end,
        "standard": _without_dropped(key, period, standard, run),
        "tiers": base.tiers,
        "windows": windows,
        "per_call": dict(base.per_call),
        "source": (provider.pricing_urls or [provider.name])[0],
        "retrieved": run.day,
    }
    return _as_before(ModelPrice.model_validate(values), run, dated=period.start is not None)


def _check_kind(model_id: str, rates: Rates) -> None:
    if rates.input is None:
        raise InexpressibleError("has no price for input")
    if rates.output is None and "embed" not in model_id:
        raise InexpressibleError("has no price for output")
    if not rates.input and not rates.output:
        raise InexpressibleError("is free of charge, which is no list price")


def _by_time_of_day(key: tuple[str, str], period: Period, base: Priced) -> tuple[Rates, tuple[Window, ...]]:
    windows = source.windows(period, base)
    if key not in DISCOUNTED_UNTIMED:
        return base.standard, windows
    if len(windows) != 1:
        raise InexpressibleError("has not the one time of day that its correction was made for")
    day = windows[0]
    return day.rates, (Window(start=day.end, end=day.start, rates=base.standard),)


def _without_dropped(key: tuple[str, str], period: Period, rates: Rates, run: _Run) -> Rates:
    dropped = DROPPED.get(key)
    if dropped is None or period.end != dropped.until:
        return rates
    run.skipped.append(Skipped(*key, f"{dropped.bucket} before {dropped.until}: {dropped.why}"))
    return rates.model_copy(update={dropped.bucket: None})


def _as_before(entry: ModelPrice, run: _Run, *, dated: bool) -> ModelPrice:
    """The equal entry of the previous sheet, else `entry` with the output limit known so far."""
    before = run.previous.get((entry.provider, entry.ids[0]), ())
    for old in before:
        same = {"retrieved": old.retrieved, "reviewed": old.reviewed}
        same |= {"max_output_tokens": old.max_output_tokens}
        if not dated and old.valid_from <= entry.valid_from:
            same |= {"valid_from": old.valid_from}
        if entry.model_copy(update=same) == old:
            return old
    limits = [old.max_output_tokens for old in before]
    return entry.model_copy(update={"max_output_tokens": limits[-1]}) if limits else entry
