"""A dated price sheet: list prices of models by exact id, in one file with one digest.

The file is JSON with integers only. White space in it is free, so that a reviewer reads lines; the
digest is the SHA-256 of the canonical form, so that layout does not matter. Nothing is ever fetched.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator import canonical
from orchestrator.packs.validation import sentences
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.errors import NoPrice, UnpricedError, price_error

FORMAT: Final = "assize.prices/1"
MAX_FILE_BYTES: Final = 16 * 2**20
_SHEETS: Final = Path(__file__).parent / "sheets"


class _SheetFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["assize.prices/1"]
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
    date: datetime.date
    entries: tuple[ModelPrice, ...]


@dataclass(frozen=True)
class PriceSheet:
    """A checked sheet. `digest` is its identity: 64 hex digits over the canonical bytes."""

    id: str
    date: datetime.date
    entries: tuple[ModelPrice, ...]
    digest: str
    _by_id: Mapping[tuple[str, str], tuple[ModelPrice, ...]] = field(repr=False, compare=False)

    @classmethod
    def from_data(cls, data: Any, subject: str = "the price sheet") -> PriceSheet:
        """A sheet from JSON-ready data; `PriceError` lists every problem, each in one sentence."""
        try:
            read = _SheetFile.model_validate_json(canonical.encode(data))
        except canonical.CanonicalFormError as error:
            raise price_error(subject, [error.message]) from None
        except ValidationError as error:
            raise price_error(subject, sentences(error)) from None
        return cls.of(read.id, read.date, read.entries, subject)

    @classmethod
    def of(
        cls,
        sheet_id: str,
        day: datetime.date,
        entries: Sequence[ModelPrice],
        subject: str = "the price sheet",
    ) -> PriceSheet:
        """A sheet from checked entries; none, or two that price the same id on one day, are refused."""
        by_id: dict[tuple[str, str], list[ModelPrice]] = {}
        problems = [] if entries else ["it has no entries"]
        for entry in entries:
            for model_id in entry.ids:
                same = by_id.setdefault((entry.provider, model_id), [])
                problems += [_clash(model_id, entry, other) for other in same if entry.overlaps(other)]
                same.append(entry)
        if problems:
            raise price_error(subject, problems)
        index = {key: tuple(found) for key, found in by_id.items()}
        digest = canonical.digest(_data(sheet_id, day, entries))
        return cls(sheet_id, day, tuple(entries), digest, index)

    @classmethod
    def load(cls, path: Path) -> PriceSheet:
        """The sheet in a file; `PriceError` when it is missing, too large, not strict JSON or not valid."""
        subject = f"price sheet {path.name}"
        try:
            with path.open("rb") as stream:
                raw = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
            raise price_error(subject, [problem], hint="give the path of a sheet's .json file") from None
        if len(raw) > MAX_FILE_BYTES:
            raise price_error(subject, [f"larger than {MAX_FILE_BYTES} bytes"])
        return cls.from_data(_parsed(raw, subject), subject)

    @classmethod
    def bundled(cls) -> PriceSheet:
        """The newest sheet shipped with this version; their file names are their dates."""
        return cls.load(max(_SHEETS.glob("*.json")))

    def entry(self, provider: str, model_id: str, on: datetime.date) -> ModelPrice:
        """The entry for exactly this id on this UTC day; `UnpricedError` when there is none."""
        known = self._by_id.get((provider, model_id))
        if known is None:
            raise UnpricedError(
                f"price sheet {self.id} has no model {model_id!r} of provider {provider!r}",
                NoPrice.UNKNOWN_MODEL,
                hint="ids are matched exactly; see assize prices show",
            )
        for entry in known:
            if entry.valid_on(on):
                return entry
        raise UnpricedError(
            f"price sheet {self.id} has no price of {provider} {model_id} on {on}",
            NoPrice.OUTSIDE_VALIDITY,
            hint=f"assize prices show {model_id} lists the days it has prices for",
        )

    def providers_of(self, model_id: str, on: datetime.date) -> tuple[str, ...]:
        """Providers that have a price for exactly this id on this UTC day, by name."""
        return tuple(
            sorted({entry.provider for entry in self.entries if model_id in entry.ids and entry.valid_on(on)})
        )

    def to_data(self) -> dict[str, Any]:
        """JSON-ready data with every key, the inverse of `from_data`."""
        return _data(self.id, self.date, self.entries)

    def text(self) -> str:
        """The content of a sheet's file, one entry a line."""
        data = self.to_data()
        lines = [canonical.encode(entry).decode() for entry in data.pop("entries")]
        head = [f'"{key}": {json.dumps(value)},' for key, value in data.items()]
        return "\n".join(["{", *head, '"entries": [', ",\n".join(lines), "]", "}", ""])


def _data(sheet_id: str, day: datetime.date, entries: Sequence[ModelPrice]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "id": sheet_id,
        "date": day.isoformat(),
        "entries": [entry.model_dump(mode="json") for entry in entries],
    }


def _clash(model_id: str, one: ModelPrice, other: ModelPrice) -> str:
    return (
        f"{one.provider} {model_id} has two prices on the same day: the entries from "
        f"{other.valid_from} and from {one.valid_from} overlap"
    )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("an object repeats a key")
    return out


def _whole_only(text: str) -> Any:
    raise ValueError(f"the number {text[:40]} is not an integer")


def _parsed(raw: bytes, subject: str) -> Any:
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_float=_whole_only,
            parse_constant=_whole_only,
        )
    except (ValueError, RecursionError) as error:
        raise price_error(subject, [f"not strict JSON: {error}"]) from None
