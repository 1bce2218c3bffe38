"""The order of submissions under one six-component methodology (S2-28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from scoring.domain import count, mark
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.numbers import fixed
from scoring.six_component_result import SixComponentResult

_Key = tuple[int, bool, int, bool, int]


def tie_break(raw: Fraction, iterations: int | None, time_ms: int | None) -> _Key:
    """Ascending sort key: published integer descending, fewer iterations, less time; unknown comes last."""
    published = int(fixed(mark("raw", raw), 0))
    used = 0 if iterations is None else count("iterations", iterations, least=1)
    spent = 0 if time_ms is None else count("time_ms", time_ms)
    return -published, iterations is None, used, time_ms is None, spent


def shared_ranks(keys: Mapping[str, _Key]) -> dict[str, int]:
    """Rank of every name by its key, best 1; equal keys share a rank and the next is skipped (1, 1, 3)."""
    ordered = sorted(keys.values())
    first = {key: place for place, key in reversed(list(enumerate(ordered, 1)))}
    return {name: first[key] for name, key in keys.items()}


def rank(results: Sequence[SixComponentResult]) -> dict[str, int | None]:
    """Name to rank; None for a submission without a final score.

    Raises `MethodologyMixError("methodology-mix")` unless all carry one methodology id, and
    `MalformedInputError("duplicate-submission")` for a name that occurs twice.
    """
    if len({one.methodology for one in results}) > 1:
        raise MethodologyMixError("methodology-mix", "results of two methodologies are not ranked together")
    names = [one.name for one in results]
    if len(set(names)) != len(names):
        raise MalformedInputError("duplicate-submission", "a submission is listed twice")
    keys = {
        one.name: tie_break(one.raw, one.iterations, one.time_ms) for one in results if one.raw is not None
    }
    placed = shared_ranks(keys)
    return {name: placed.get(name) for name in sorted(names)}
