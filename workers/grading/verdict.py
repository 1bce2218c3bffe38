"""From the files of a dead verifier container to one verdict or a named problem: pure.

Harbor's convention: `reward.json` (flat object of finite numbers) wins over `reward.txt` (one number).
Two files that contradict each other are no verdict: one of them was not written by the tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Final

from orchestrator.observations import VerdictProblem

MAX_REWARD_BYTES: Final = 64 * 1024
MAX_PLACES: Final = 18
_MAX_DIGITS: Final = 40
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_EXACT: Final = Context(prec=3 * _MAX_DIGITS, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Verdict:
    """`reward` as the grader wrote it (decimal string), and the checks it counted, where it says so."""

    reward: str | None
    passes: bool | None
    problem: VerdictProblem | None
    checks_passed: int | None = None
    checks_total: int | None = None


@dataclass(frozen=True)
class PassRule:
    """The pack's rule: reward under `key` is at least `at_least`, and never above `most`."""

    key: str
    at_least: Decimal
    least: Decimal = Decimal(0)
    most: Decimal = Decimal(1)


class _Problem(Exception):
    def __init__(self, problem: VerdictProblem) -> None:
        super().__init__(problem.value)
        self.problem = problem


class _Token(str):
    """A JSON number as it was written; a JSON string stays a plain `str` and is refused."""


def _number(text: str) -> Decimal:
    text = text.strip()
    if len(text) > 2 * _MAX_DIGITS or not _NUMBER.fullmatch(text):
        raise _Problem(VerdictProblem.UNPARSABLE)
    value = Decimal(text)
    if len(value.as_tuple().digits) > _MAX_DIGITS or abs(value.adjusted()) > _MAX_DIGITS:
        raise _Problem(VerdictProblem.UNPARSABLE)
    return value if value else Decimal(0)  # no minus and no places on a zero


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that names something twice says two things."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Problem(VerdictProblem.UNPARSABLE)
    return found


def _from_json(data: bytes, key: str) -> Decimal:
    try:
        found = json.loads(
            data.decode("utf-8"),
            parse_float=_Token,
            parse_int=_Token,
            parse_constant=_Token,
            object_pairs_hook=_once,
        )
    except (ValueError, RecursionError):
        raise _Problem(VerdictProblem.UNPARSABLE) from None
    if not isinstance(found, dict) or not found:
        raise _Problem(VerdictProblem.UNPARSABLE)
    if not all(isinstance(value, _Token) for value in found.values()):
        raise _Problem(VerdictProblem.UNPARSABLE)
    numbers = {name: _number(value) for name, value in found.items()}
    if key in numbers:
        return numbers[key]
    if len(numbers) == 1:
        return next(iter(numbers.values()))
    raise _Problem(VerdictProblem.UNPARSABLE)


def _read(files: Mapping[str, bytes], name: str) -> bytes | None:
    data = files.get(name)
    if data is not None and len(data) > MAX_REWARD_BYTES:
        raise _Problem(VerdictProblem.UNPARSABLE)
    return data


def _filled(data: bytes) -> bytes:
    if not data.strip():
        raise _Problem(VerdictProblem.EMPTY)
    return data


def _reward(files: Mapping[str, bytes], rule: PassRule) -> Decimal:
    as_json, as_text = _read(files, "reward.json"), _read(files, "reward.txt")
    if as_json is None and as_text is None:
        raise _Problem(VerdictProblem.MISSING)
    values = []
    if as_json is not None:
        values.append(_from_json(_filled(as_json), rule.key))
    if as_text is not None:
        values.append(_number(_filled(as_text).decode("ascii", "replace")))
    if len(set(values)) > 1:
        raise _Problem(VerdictProblem.CONTRADICTORY)
    if not rule.least <= values[0] <= rule.most:
        raise _Problem(VerdictProblem.OUT_OF_RANGE)
    return values[0]


def _checks(files: Mapping[str, bytes]) -> tuple[int | None, int | None]:
    """Counts from `checks.json` ({"passed": n, "total": m}); evidence only, never part of the verdict."""
    try:
        found = json.loads(files["checks.json"][:MAX_REWARD_BYTES])
        passed, total = found["passed"], found["total"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None, None
    if type(passed) is int and type(total) is int and 0 <= passed <= total <= 1_000_000:
        return passed, total
    return None, None


def _written(reward: Decimal) -> str:
    """Plain decimal text with at most 18 places, cut towards the smaller number.

    A bound has no more places, so that the text reaches it exactly when the number does.
    """
    exponent = reward.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -MAX_PLACES:
        reward = reward.quantize(Decimal(1).scaleb(-MAX_PLACES), context=_EXACT)
    return format(reward, "f")


def read_verdict(files: Mapping[str, bytes], foreign: bool, rule: PassRule) -> Verdict:
    """The verdict in `/logs/verifier`; `foreign` says that a reward file was not a regular file."""
    passed, total = _checks(files)
    if foreign:
        return Verdict(None, None, VerdictProblem.FOREIGN_FILE, passed, total)
    try:
        reward = _reward(files, rule)
    except _Problem as found:
        return Verdict(None, None, found.problem, passed, total)
    return Verdict(_written(reward), reward >= rule.at_least, None, passed, total)
