"""Conditions and sides for the tests of comparability and comparison."""

from __future__ import annotations

from typing import Any

from scoring_builders import Screening

from scoring.compare import side_of_card
from scoring.comparison import Side, TaskCounts
from scoring.facts import Conditions, Provenance


def conditions(tasks: tuple[str, ...] = ("t1", "t2"), **changes: Any) -> Conditions:
    """What two comparable screenings have in common."""
    values: dict[str, Any] = {
        "suite_version": "coding-core@1",
        "timeouts_ms": tuple((task, 900_000) for task in sorted(tasks)),
        "step_limit": 50,
        "network_policy": "none",
        "permitted_tools": frozenset({"shell", "edit"}),
        "hardware_class": "c4",
        "runtime": "runc",
        "repeats": 3,
        "provenance": Provenance.INDEPENDENT,
    }
    return Conditions(**{**values, **changes})


def side(name: str, *counts: tuple[int, ...], **changes: Any) -> Side:
    """A Pack Score side: (passes, counted) or (passes, counted, slots) for tasks t1, t2, ..."""
    rows = [(f"t{n:03}", (*one, one[1]) if len(one) == 2 else one) for n, one in enumerate(counts, 1)]
    values: dict[str, Any] = {
        "name": name,
        "methodology": "pack-score/1",
        "conditions": conditions(tuple(task for task, _ in rows)),
        "judge": "programmatic",
        "pack_digest": "b" * 64,
        "tasks": tuple(TaskCounts(task, *one) for task, one in rows),
        "inputs_digest": name.ljust(64, "0"),
    }
    return Side(**{**values, **changes})


def side_of(made: Screening, name: str) -> Side:
    """A screening's card as a side, under the conditions of its tasks."""
    planned = tuple(task for task, tries in made.plan.planned.items() if tries)
    return side_of_card(made.card(), conditions(planned), name)
