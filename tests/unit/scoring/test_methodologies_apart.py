"""Results of different methods are never blended (S0-1, S3-5, G-4): no arithmetic, no order, no mean."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import permutations, product
from statistics import mean
from typing import Any

import pytest
from scoring_builders import run, runs_with, screening

from scoring import registry
from scoring.composite import score_composite
from scoring.errors import MethodologyMixError
from scoring.radar import score_radar
from scoring.repeatability import TaskOutcomes, score_repeatability
from scoring.results import MethodologyResult

RESULTS: list[MethodologyResult] = [
    score_composite(runs_with(2, 1)),
    score_radar([run(1)]),
    score_radar([run(1)]).profile(),
    score_repeatability([TaskOutcomes("t", 1, 3)]),
    screening("PPF").card(),
]
OPERATIONS: list[Callable[[Any, Any], Any]] = [
    *(operator.add, operator.sub, operator.mul, operator.truediv),
    *(operator.lt, operator.le, operator.gt, operator.ge),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.__name__))
def test_no_operation_joins_two_methods(operation: Callable[[Any, Any], Any]) -> None:
    """Another id is a typed error with a code; the error is a TypeError, not a warning."""
    for one, other in permutations(RESULTS, 2):
        if one.methodology != other.methodology:
            with pytest.raises(MethodologyMixError) as caught:
                operation(one, other)
            assert caught.value.code == "methodology-mix"
            assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.__name__))
def test_no_operation_makes_a_number_of_a_result(operation: Callable[[Any, Any], Any]) -> None:
    """Neither with a number nor with a result of the same method."""
    for one, number in product(RESULTS, (0, 1.5)):
        with pytest.raises(TypeError):
            operation(one, number)
        with pytest.raises(TypeError):
            operation(one, one)


def test_no_sum_mean_or_ranking_over_results() -> None:
    """The built-in ways to blend fail too."""
    blends: list[Callable[[Any], Any]] = [sum, mean, sorted, max, min]
    for blend in blends:
        with pytest.raises(TypeError):
            blend(RESULTS)


def test_results_of_two_methods_are_never_equal() -> None:
    """Equality is answered, and is no."""
    for one, other in permutations(RESULTS, 2):
        assert (one == other) is (one is other)


def result_classes(root: type[MethodologyResult] = MethodologyResult) -> list[type[MethodologyResult]]:
    """Every result class of the scoring package (other tests make some of their own)."""
    found = [made for child in root.__subclasses__() for made in (child, *result_classes(child))]
    return [made for made in found if made.__module__.startswith("scoring.")]


def test_every_result_class_refuses_and_belongs_to_one_registered_method() -> None:
    """G-4: whatever the registry can hand out keeps the refusals of its base, and each id has a class."""
    refusing = [name for name, made in vars(MethodologyResult).items() if callable(made)]
    assert {"__add__", "__radd__", "__lt__", "__ge__"} <= set(refusing)
    ids = set()
    for made in result_classes():
        for name in refusing:
            assert getattr(made, name) is getattr(MethodologyResult, name), (made, name)
        if "methodology" in vars(made):
            ids.add(made.methodology)
            assert made.readings == registry.find(made.methodology).readings
    assert ids == set(registry.METHODOLOGIES)
