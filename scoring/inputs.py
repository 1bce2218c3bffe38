"""The digest of what a result was computed from; it is stored with every published figure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Final

from scoring.numbers import ratio
from scoring.tries import Plan, VerifiedTry


def inputs_digest(plan: Plan, tries: Sequence[VerifiedTry], **settings: str | Fraction | None) -> str:
    """SHA-256 hex over the plan, the settings and the tries, one compact ASCII JSON line each.

    Tries are taken in the order of their slots and sets and maps are sorted, so two exports of the same
    screening in any order give the same digest.
    """
    digest = hashlib.sha256()
    digest.update(_line([[item.name, _plain(getattr(plan, item.name))] for item in fields(plan)]))
    digest.update(_line([[name, _plain(settings[name])] for name in sorted(settings)]))
    for try_ in sorted(tries, key=lambda item: (item.task_id, item.index)):
        digest.update(_line([getattr(try_, name) for name in VerifiedTry.__slots__]))
    return digest.hexdigest()


def _line(value: object) -> bytes:
    return _ENCODER.encode(value).encode("ascii") + b"\n"


def _plain(value: object) -> object:
    """What JSON does not know; records become the list of their fields."""
    if isinstance(value, Fraction):
        return ratio(value)
    if isinstance(value, dict):
        return [[key, value[key]] for key in sorted(value)]
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, item.name) for item in fields(value)]
    return value


# Made once: a screening has one line for each of its tries.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), default=_plain)
