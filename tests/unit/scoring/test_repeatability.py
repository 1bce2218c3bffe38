"""`badgeia-repeatability/1`: pass^k over tasks with at least three outcomes, and the estimator itself."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import run, run_lists

from orchestrator import canonical
from scoring.errors import MalformedInputError
from scoring.numbers import DASH
from scoring.passk import pass_hat_k
from scoring.repeatability import (
    LEVELS,
    READINGS,
    NoRepeatability,
    TaskOutcomes,
    outcomes_of,
)
from scoring.repeatability import score_repeatability as score
from scoring.runs import Run, RunStatus


@st.composite
def task_lists(draw: st.DrawFn) -> list[TaskOutcomes]:
    out = []
    for number in range(draw(st.integers(0, 6))):
        outcomes = draw(st.integers(0, 12))
        out.append(TaskOutcomes(f"t{number}", draw(st.integers(0, outcomes)), outcomes))
    return out


def values(tasks: list[TaskOutcomes]) -> list[Fraction | None]:
    return [one.value for one in score(tasks).levels]


def test_pass_k_is_the_share_of_subsets_that_all_passed() -> None:
    """S0-27 by enumeration: every subset of every outcome list up to seven outcomes."""
    for outcomes in range(1, 8):
        for passes in range(outcomes + 1):
            made = [place < passes for place in range(outcomes)]
            for k in range(1, outcomes + 1):
                subsets = list(combinations(made, k))
                share = Fraction(sum(all(one) for one in subsets), len(subsets))
                assert pass_hat_k(passes, outcomes, k) == share


@pytest.mark.parametrize("chance", [Fraction(1, 3), Fraction(1, 2), Fraction(4, 5)])
def test_pass_k_is_unbiased(chance: Fraction) -> None:
    """Family 6, ST-6: over all outcome lists, weighted by their chance, the mean is p^k when n >= k."""
    for outcomes in (3, 5):
        for k in (1, 3, outcomes):
            expected = Fraction(0)
            for made in product((False, True), repeat=outcomes):
                passes = sum(made)
                weight = chance**passes * (1 - chance) ** (outcomes - passes)
                expected += weight * pass_hat_k(passes, outcomes, k)
            assert expected == chance**k


@given(task_lists())
def test_levels_fall_with_k(tasks: list[TaskOutcomes]) -> None:
    """Family 6: pass^1 >= pass^3 >= pass^5 on average, all in 0..1; all missing together."""
    made = values(tasks)
    if made[0] is None:
        assert made == [None, None, None]
    else:
        known = [one for one in made if one is not None]
        assert len(known) == 3
        assert 1 >= known[0] >= known[1] >= known[2] >= 0


@given(task_lists())
def test_the_aggregate_is_the_unweighted_mean_of_qualifying_tasks(tasks: list[TaskOutcomes]) -> None:
    """S0-28 .. S0-30 once more, straight from the document."""
    entering = [one for one in tasks if one.outcomes >= 3]
    for k, value in zip(LEVELS, values(tasks), strict=True):
        pairs = [(one.successes, one.outcomes) for one in entering]
        parts = [Fraction(comb(c, k), comb(n, k)) if c >= k else Fraction(0) for c, n in pairs]
        assert value == (sum(parts, Fraction(0)) / len(parts) if parts else None)
    assert score(tasks).qualifying_tasks == len(entering)
    assert score(tasks).tasks_left_out == len(tasks) - len(entering)


def test_one_easy_task_gains_no_weight() -> None:
    """Seed 000: a thousand repeats of an easy task weigh as much as three of a hard one."""
    hard = TaskOutcomes("hard", 0, 3)
    for repeats in (3, 1000):
        assert values([hard, TaskOutcomes("easy", repeats, repeats)])[0] == Fraction(1, 2)


def test_three_of_three_has_a_literal_zero_at_five() -> None:
    """S0-31: pass^5 of a pack run three times is 0, and the line says of how many tasks that is so."""
    made = score([TaskOutcomes("a", 3, 3), TaskOutcomes("b", 5, 5), TaskOutcomes("c", 4, 4)])
    assert [one.value for one in made.levels] == [1, 1, Fraction(1, 3)]
    assert [one.tasks_with_n_below_k for one in made.levels] == [0, 0, 2]
    assert "2 tasks with fewer than 5 outcomes give 0" in made.arithmetic[-1]


def test_two_outcomes_do_not_enter() -> None:
    """S0-29, S0-30: fewer than three outcomes everywhere is missing with a reason, never 0."""
    made = score([TaskOutcomes("a", 2, 2), TaskOutcomes("b", 0, 1), TaskOutcomes("c", 0, 0)])
    assert {one.reason for one in made.levels} == {NoRepeatability.NO_QUALIFYING_TASK}
    assert (made.qualifying_tasks, made.tasks_left_out) == (0, 3)
    assert all(DASH in line for line in made.arithmetic[-3:])


def test_runs_with_unknown_outcomes_are_not_recorded_outcomes() -> None:
    """S0-26: all terminal runs with a known outcome, timeouts too, of any age; open and unknown ones not."""
    runs = [
        run(1, finished_unix_s=0),
        run(2, status=RunStatus.TIMEOUT, success=False),
        run(3, status=RunStatus.FAILED, success=None),
        run(4, status=RunStatus.OPEN, success=True),
        run(5, finished_unix_s=10**9),
        *[run(n, task_id="t2") for n in range(100, 400)],
    ]
    assert outcomes_of(runs) == (TaskOutcomes("t1", 2, 3), TaskOutcomes("t2", 300, 300))


@given(run_lists(), st.randoms(use_true_random=False))
def test_order_changes_nothing(runs: list[Run], shuffler: random.Random) -> None:
    """Families 1, 15: any order of runs and of tasks."""
    mixed = list(runs)
    shuffler.shuffle(mixed)
    tasks = list(outcomes_of(mixed))
    shuffler.shuffle(tasks)
    assert score(tasks) == score(outcomes_of(runs))


@given(task_lists(), st.data())
def test_one_more_success_never_lowers_a_level(tasks: list[TaskOutcomes], data: st.DataObject) -> None:
    """Family 4: fail -> pass never lowers pass^k."""
    losing = [place for place, one in enumerate(tasks) if one.successes < one.outcomes]
    if losing:
        at = data.draw(st.sampled_from(losing))
        better = list(tasks)
        better[at] = TaskOutcomes(tasks[at].task_id, tasks[at].successes + 1, tasks[at].outcomes)
        for before, after in zip(values(tasks), values(better), strict=True):
            assert (before is None) == (after is None)
            assert before is None or after is None or after >= before


@given(task_lists(), st.data())
def test_doubling_every_run_of_a_task(tasks: list[TaskOutcomes], data: st.DataObject) -> None:
    """Family 5: pass^1 is unchanged if the task had three outcomes already; a task of two comes in."""
    if tasks:
        at = data.draw(st.integers(0, len(tasks) - 1))
        one = tasks[at]
        twice = TaskOutcomes(one.task_id, 2 * one.successes, 2 * one.outcomes)
        doubled = [*tasks[:at], twice, *tasks[at + 1 :]]
        if one.outcomes >= 3:
            assert values(doubled)[0] == values(tasks)[0]
        else:
            entered = one.outcomes == 2
            assert score(doubled).qualifying_tasks == score(tasks).qualifying_tasks + entered


@pytest.mark.parametrize(
    ("successes", "outcomes"),
    [(4, 3), (-1, 3), (0, -1), (1.0, 3), (True, 3), (1, True), (Fraction(1), 3), ("1", 3), (1, float("nan"))],
)
def test_counts_that_no_task_can_have(successes: Any, outcomes: Any) -> None:
    """Family 10: passes above tries, negatives, floats, booleans."""
    with pytest.raises(MalformedInputError) as caught:
        TaskOutcomes("t", successes, outcomes)
    assert caught.value.code == "pass-count"


def test_what_no_report_can_hold() -> None:
    """Family 10: a task twice, another thing, a level that is not published."""
    one = TaskOutcomes("t", 1, 3)
    wrong: list[tuple[list[Any], str]] = [([one, one], "duplicate-task"), ([(1, 3)], "not-task-outcomes")]
    for tasks, code in wrong:
        with pytest.raises(MalformedInputError) as caught:
            score(tasks)
        assert caught.value.code == code
    with pytest.raises(MalformedInputError) as caught:
        score([one]).level(2)
    assert caught.value.code == "level"
    assert score([one]).level(3).value == 0


@given(task_lists())
def test_the_sums_can_be_redone_from_the_text(tasks: list[TaskOutcomes]) -> None:
    """UI-3, UI-22: each level's line adds up to its value."""
    made = score(tasks)
    for level, line in zip(made.levels, made.arithmetic[-3:], strict=True):
        found = re.search(r"= \((.+)\) / (\d+) = (\S+);", line)
        if level.value is None:
            assert found is None
        else:
            assert found, line
            terms = [Fraction(term) for term in found[1].split(" + ")]
            assert len(terms) == int(found[2]) == made.qualifying_tasks
            assert sum(terms, Fraction(0)) / len(terms) == Fraction(found[3]) == level.value


@given(task_lists(), task_lists())
def test_data_is_canonical_and_complete(tasks: list[TaskOutcomes], others: list[TaskOutcomes]) -> None:
    """G-4, family 15: plain data without floats; the digest differs exactly when the input does."""
    made = score(tasks)
    data = made.as_data()
    assert json.loads(json.dumps(data)) == data == canonical.decode_strict(canonical.encode(data))
    assert data["methodology"] == "badgeia-repeatability/1"
    assert [one["code"] for one in data["readings"]] == [one.code for one in READINGS]
    assert len({one.code for one in READINGS}) == len(READINGS)
    assert (made.inputs_digest == score(others).inputs_digest) == (tasks == others)
