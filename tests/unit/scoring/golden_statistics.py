"""Adapters of the golden groups of the paired test, Holm and pass^k's moments (ST-4, ST-6, ST-7)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scoring.holm import holm
from scoring.numbers import exact
from scoring.passk_moments import pass_k_moments
from scoring.sign_flip import sign_flip_p


def sign_flip(given: dict[str, Any]) -> dict[str, object]:
    """ST-4."""
    return {"p_two_sided": sign_flip_p([exact(text) for text in given["task_differences"]])}


def corrected(given: dict[str, Any]) -> dict[str, object]:
    """ST-7; the vectors state p-values as decimal numbers."""
    return {"adjusted": [float(p) for p in holm([Fraction(str(p)) for p in given["p"]])]}


def moments(given: dict[str, Any]) -> dict[str, object]:
    """ST-6."""
    made = pass_k_moments(given["n"], given["k"], exact(given["p"]))
    return {"expectation": made.expectation, "variance": made.variance}


ADAPTERS = {"st-signflip": sign_flip, "st-holm": corrected, "st-passk-variance": moments}
