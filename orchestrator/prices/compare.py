"""Where two price sheets differ: entry by entry, for reviewers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.sheet import PriceSheet

_NOT_THE_PRICE: Final = frozenset({"retrieved", "reviewed", "source"})
Kind = Literal["new", "changed", "gone"]


@dataclass(frozen=True)
class Difference:
    """One entry that is new, changed or gone; `detail` says what changed, old value first."""

    kind: Kind
    provider: str
    model: str
    valid_from: str
    detail: str


def differences(old: PriceSheet, new: PriceSheet) -> tuple[Difference, ...]:
    """Every entry whose ids, days, rates, tiers, times, fees or limits differ, by provider and model."""
    left, right = _only_in(old, new), _only_in(new, old)
    found: list[Difference] = []
    for entry in left:
        other = next((one for one in right if _same_subject(entry, one)), None)
        if other is None:
            found.append(_difference("gone", entry, "no such entry any more"))
        else:
            right.remove(other)
            found.append(_difference("changed", entry, "; ".join(_changes(entry, other))))
    found += [_difference("new", entry, "not there before") for entry in right]
    return tuple(sorted(found, key=lambda one: (one.provider, one.model, one.valid_from)))


def _only_in(one: PriceSheet, other: PriceSheet) -> list[ModelPrice]:
    known = {tuple(_facts(entry)) for entry in other.entries}
    return [entry for entry in one.entries if tuple(_facts(entry)) not in known]


def _same_subject(one: ModelPrice, other: ModelPrice) -> bool:
    """Two entries about the same model and a day in common."""
    return one.provider == other.provider and not {*one.ids}.isdisjoint(other.ids) and one.overlaps(other)


def _difference(kind: Kind, entry: ModelPrice, detail: str) -> Difference:
    return Difference(kind, entry.provider, entry.ids[0], entry.valid_from.isoformat(), detail)


def _changes(old: ModelPrice, new: ModelPrice) -> Iterator[str]:
    before, after = dict(_facts(old)), dict(_facts(new))
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield f"{name} {before.get(name)} -> {after.get(name)}"


def _facts(entry: ModelPrice) -> Iterable[tuple[str, Any]]:
    data = entry.model_dump(mode="json", exclude=set(_NOT_THE_PRICE))
    return _flat("", data)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves of JSON-ready data with their paths; a list of texts is one leaf."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}".lstrip("."), item)
    elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
        for position, item in enumerate(value):
            yield from _flat(f"{path}[{position}]", item)
    else:
        yield path, " ".join(value) if isinstance(value, list) else value
