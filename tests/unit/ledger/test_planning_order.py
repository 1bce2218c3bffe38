"""The plan: which slots, in which order, when; what is the same screening and what may be compared."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from orchestrator.errors import UsageError
from orchestrator.planning.conditions import (
    CapOverrides,
    ScreeningConditions,
    screening_identity,
)
from orchestrator.planning.plan import PlannedTask, new_seed, plan_slots

FIXED = [("1", 1), ("2", 1), ("0", 1), ("1", 2), ("0", 2), ("2", 2)]


def tasks(count: int) -> list[PlannedTask]:
    return [PlannedTask(f"task-{n}", 1000 + n) for n in range(count)]


@given(st.integers(1, 12), st.integers(1, 5), st.text(max_size=8), st.sampled_from([0, 1, 10_000]))
def test_blocks_interleaved_and_spread(count: int, tries: int, seed: str, window: int) -> None:
    """4.5: every (task, k) once, all k=1 before k=2, never two tries of a task in a row, starts in order."""
    slots = plan_slots(tasks(count), tries, seed=seed, start_ms=5_000, window_ms=window)
    assert [slot.start_order for slot in slots] == list(range(count * tries))
    assert {(slot.task_id, slot.k) for slot in slots} == {
        (task.task_id, k) for task in tasks(count) for k in range(1, tries + 1)
    }
    assert [slot.k for slot in slots] == sorted(slot.k for slot in slots)
    if count > 1:
        assert all(a.task_id != b.task_id for a, b in itertools.pairwise(slots))
    starts = [slot.not_before_ms for slot in slots]
    assert starts == sorted(starts)
    assert all(start == 0 if window == 0 else 5_000 <= start <= 5_000 + window for start in starts)


def test_the_seed_decides_everything() -> None:
    """The stored seed reproduces the plan, whatever order the tasks came in; another seed does not."""
    one = plan_slots(tasks(8), 3, seed="a", window_ms=1000)
    assert one == plan_slots(tasks(8)[::-1], 3, seed="a", window_ms=1000)
    assert one != plan_slots(tasks(8), 3, seed="b", window_ms=1000)
    assert [slot.task_id for slot in one[:8]] != [slot.task_id for slot in one[8:16]]


def test_a_fixed_plan() -> None:
    """Frozen, so that a plan of today can be recomputed from its seed by any later version."""
    slots = plan_slots(tasks(3), 2, seed="assize")
    assert [(slot.task_id[-1], slot.k) for slot in slots] == FIXED


def test_starts_fill_the_window() -> None:
    """Uniform over the window: 1,000 draws leave no tenth of it empty."""
    slots = plan_slots(tasks(500), 2, seed="s", window_ms=999)
    assert {slot.not_before_ms // 100 for slot in slots} == set(range(10))


@pytest.mark.parametrize(
    ("wrong", "tries", "window"), [([], 1, 0), (tasks(1) * 2, 1, 0), (tasks(1), 0, 0), (tasks(1), 1, -1)]
)
def test_impossible_plans_are_refused(wrong: list[PlannedTask], tries: int, window: int) -> None:
    """Nothing is planned by accident."""
    with pytest.raises(UsageError):
        plan_slots(wrong, tries, seed="s", window_ms=window)


def test_seeds_are_fresh() -> None:
    """64 hex characters, never the same."""
    assert len(new_seed()) == 64 and new_seed() != new_seed()


BASE = ScreeningConditions(hardware_class="cpu2-mem4g")
CHANGES: list[dict[str, object]] = [
    {"tries": 2},
    {"tasks": ("a",)},
    {"caps": CapOverrides(agent_wall_ms=5)},
    {"caps": CapOverrides(memory_bytes=5)},
    {"step_limit": 5},
    {"permitted_tools": ("bash",)},
    {"runtime": "runsc"},
    {"hardware_class": "cpu4"},
    {"provenance": "self-reported"},
    {"agent_user": "1000"},
    {"cost_cap_nusd": 5},
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_condition_alone_makes_another_screening(change: dict[str, object]) -> None:
    """The same command means the same pack, agent, conditions, requester and funder, nothing less."""
    other = BASE.model_copy(update=change)
    key = {"pack_digest": "p", "agent_digest": "a", "requester": "r", "funder": "f"}
    assert screening_identity(other, **key) != screening_identity(BASE, **key)
    for name in key:
        assert screening_identity(BASE, **{**key, name: "x"}) != screening_identity(BASE, **key)


def test_sets_are_sets() -> None:
    """Tools and tasks compare as sets (S4-33), whatever order they were given in."""
    one = ScreeningConditions.model_validate(
        {"hardware_class": "c", "tasks": ["b", "a"], "permitted_tools": ["y", "x", "x"]}
    )
    assert one.tasks == ("a", "b") and one.permitted_tools == ("x", "y")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"hardware_class": "c", "tries": 0},
        {"hardware_class": "c", "tries": True},
        {"hardware_class": "c", "network": "host"},
        {"hardware_class": "c", "typo": 1},
        {"hardware_class": "c", "tasks": "all"},
        {"hardware_class": "c", "cost_cap_nusd": 0.5},
    ],
)
def test_wrong_conditions_are_refused(wrong: dict[str, object]) -> None:
    """Strict: no coercion, no unknown field."""
    with pytest.raises(ValidationError):
        ScreeningConditions.model_validate(wrong)
