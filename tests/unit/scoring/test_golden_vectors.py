"""Every golden vector of every group: from tests/assets/scoring, or from the file of ASSIZE_SCORING_CASES."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from golden_cases import OWN_CASES, differences, read_adapters, read_vectors

ADAPTERS = read_adapters()
VECTORS = read_vectors()


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in VECTORS])
def test_golden_vector(vector: dict[str, Any]) -> None:
    """Each expected value of the vector, nothing skipped; a group without an adapter fails."""
    adapter = ADAPTERS.get(vector["group"])
    assert adapter is not None, f"no adapter for the group {vector['group']}"
    assert differences(adapter(vector["input"]), vector["expected"]) == []


def test_ids_are_unique() -> None:
    """No vector hides behind another one's id."""
    ids = [vector["id"] for vector in VECTORS]
    assert len(ids) == len(set(ids)) > 0


def test_our_own_file_is_whole() -> None:
    """tests/assets/scoring holds 226 vectors in 40 groups, and the adapters are for exactly these."""
    own = json.loads(OWN_CASES.read_text(encoding="utf-8"))["vectors"]
    groups = {vector["group"] for vector in own}
    assert (len(own), len(groups)) == (226, 40)
    assert set(ADAPTERS) == groups


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ({"a": Fraction(1, 3)}, {"a": {"exact": "1/3", "approx": 0.3}}),
        ({"a": 2, "more": 1}, {"a": {"exact": "2/1", "approx": 2.0}}),
        ({"a": None, "b": True, "c": "x"}, {"a": None, "b": True, "c": "x"}),
        ({"a": [0.1 + 0.2]}, {"a": [0.3], "tol": 1e-9}),
        ({"a": {"b": 1.0}}, {"a": {"b": {"approx": 1.0000001, "tol": 1e-6}}}),
        ({"a": Fraction(95)}, {"a": 95}),
    ],
)
def test_the_comparison_accepts_what_is_right(got: Any, want: Any) -> None:
    """Exact, approximate, plain and nested values."""
    assert differences(got, want) == []


@pytest.mark.parametrize(
    ("got", "want"),
    [
        ({"a": Fraction(1, 3)}, {"a": {"exact": "1/2", "approx": 0.5}}),
        ({"a": 0.5}, {"a": {"exact": "1/2", "approx": 0.5}}),
        ({"a": True}, {"a": {"exact": "1/1", "approx": 1.0}}),
        ({"a": 0}, {"a": None}),
        ({"a": None}, {"a": 0}),
        ({"a": False}, {"a": 0}),
        ({"a": 1}, {"a": True}),
        ({}, {"a": None}),
        ({"a": {}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}),
        ({"a": [0.3, 0.4]}, {"a": [0.3], "tol": 1e-9}),
        ({"a": [0.31]}, {"a": [0.3], "tol": 1e-9}),
        ({"a": float("nan")}, {"a": {"approx": 1.0, "tol": 1e-6}}),
        ({"a": 0.3}, {"a": 0.3}),
        ({"a": "1"}, {"a": 1}),
    ],
)
def test_the_comparison_can_fail(got: Any, want: Any) -> None:
    """A wrong value, kind, length, name or a tolerance that nobody stated is seen."""
    assert differences(got, want) != []
