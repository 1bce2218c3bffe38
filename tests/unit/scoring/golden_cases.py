"""Reading golden vectors, and comparing what an adapter computed with what a vector expects.

An adapter file `golden_<method>.py` beside this one holds `ADAPTERS: dict[str, Adapter]`, group -> adapter.
An adapter gets a vector's `input` and returns the figures under the names of `expected`; more names than
the vector asks for are allowed, fewer are a failure.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

Adapter = Callable[[dict[str, Any]], dict[str, Any]]

HERE = Path(__file__).resolve().parent
OWN_CASES = HERE.parents[1] / "assets" / "scoring" / "scoring_golden.json"


def read_vectors() -> list[dict[str, Any]]:
    """The vectors of ASSIZE_SCORING_CASES, else our own; a file that is not there is an error."""
    path = Path(os.environ.get("ASSIZE_SCORING_CASES") or OWN_CASES)
    vectors: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["vectors"]
    return vectors


def read_adapters() -> dict[str, Adapter]:
    """Every adapter of every `golden_<method>.py`; two files may not claim one group."""
    found: dict[str, Adapter] = {}
    for path in sorted(HERE.glob("golden_*.py")):
        if path.name == Path(__file__).name:
            continue
        adapters: dict[str, Adapter] = importlib.import_module(path.stem).ADAPTERS
        twice = found.keys() & adapters.keys()
        if twice:
            raise ValueError(f"{path.name} claims groups of another file: {sorted(twice)}")
        found |= adapters
    return found


def differences(got: Any, want: Any, tol: float | None = None, where: str = "") -> list[str]:
    """Where `got` is not what the vector expects; empty when it is.

    `exact` wants that very `Fraction` (an int where it is whole), `tol` (beside a number or anywhere above
    it) allows an absolute distance for floats; all else is equality of value and kind, so that a missing
    figure, 0 and False are three different things.
    """
    here = where or "value"
    if isinstance(want, dict) and "exact" in want:
        fits = _is_exact(got) and Fraction(got) == Fraction(want["exact"])
        return [] if fits else [f"{here}: {got!r} is not exactly {want['exact']}"]
    if isinstance(want, dict) and "approx" in want:
        return _near(got, want["approx"], want.get("tol", tol), here)
    if isinstance(want, dict):
        tol = want.get("tol", tol)
        return _fields(got, {name: item for name, item in want.items() if name != "tol"}, tol, where)
    if isinstance(want, list):
        return _items(got, want, tol, where)
    if isinstance(want, float) or (tol is not None and isinstance(got, float)):
        return _near(got, want, tol, here)
    if isinstance(want, int) and not isinstance(want, bool):
        return [] if _is_exact(got) and got == want else [f"{here}: {got!r} is not {want!r}"]
    same = type(got) is type(want) and got == want
    return [] if same else [f"{here}: {got!r} is not {want!r}"]


def _is_exact(value: object) -> bool:
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


def _near(got: object, want: float, tol: float | None, where: str) -> list[str]:
    if tol is None:
        return [f"{where}: the vector states a float {want!r} without a tolerance"]
    if isinstance(got, bool) or not isinstance(got, (int, float, Fraction)):
        return [f"{where}: {got!r} is not a number near {want!r}"]
    near = abs(float(got) - want) <= tol
    return [] if near else [f"{where}: {float(got)!r} is not within {tol} of {want!r}"]


def _fields(got: Any, want: dict[str, Any], tol: float | None, where: str) -> list[str]:
    if not isinstance(got, dict):
        return [f"{where or 'value'}: {got!r} is not a mapping"]
    out = [f"{where}.{name}: not computed" for name in want if name not in got]
    if where:  # inside the result nothing may be there that the vector does not know
        out += [f"{where}.{name}: not expected" for name in got if name not in want]
    for name in want:
        if name in got:
            out += differences(got[name], want[name], tol, f"{where}.{name}")
    return out


def _items(got: Any, want: list[Any], tol: float | None, where: str) -> list[str]:
    if not isinstance(got, (list, tuple)) or len(got) != len(want):
        return [f"{where or 'value'}: {got!r} does not have the {len(want)} items of {want!r}"]
    pairs = enumerate(zip(got, want, strict=True))
    return [text for at, (one, other) in pairs for text in differences(one, other, tol, f"{where}[{at}]")]
