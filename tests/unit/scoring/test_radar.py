"""`badgeia-fitness-radar/1`: window, axes, gates, renormalisation, and what a viewer may change."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import run, run_lists, runs_with

from orchestrator import canonical
from scoring.composite import score_composite
from scoring.errors import MalformedInputError
from scoring.numbers import DASH
from scoring.radar import latest, score_radar, task_determinism
from scoring.radar_readings import READINGS
from scoring.radar_result import EQUAL_WEIGHTS, AxisName, NoAxis, NoProfile, local_order, weigh
from scoring.runs import Run, RunStatus

AXES = {name: Fraction(place * 20) for place, name in enumerate(AxisName, 1)}
POINTS = st.one_of(st.none(), st.fractions(0, 100, max_denominator=100))
AXIS_VALUES = st.fixed_dictionaries(dict.fromkeys(AxisName, POINTS))
WEIGHTS = st.fixed_dictionaries({name: st.fractions(0, 5, max_denominator=20) for name in AxisName})


def value(runs: list[Run], name: AxisName) -> Fraction | None:
    return score_radar(runs).axis(name).value


def reason(runs: list[Run], name: AxisName) -> NoAxis | None:
    return score_radar(runs).axis(name).reason


# --- window ---------------------------------------------------------------------------------------------


def test_the_window_is_the_latest_hundred_terminal_runs() -> None:
    """S0-15: by finish time; open runs take no place; older runs change no axis."""
    new = [run(n, success=n % 2 == 0, finished_unix_s=1000 + n) for n in range(100)]
    old = [run(n, success=False, finished_unix_s=n, steps=13) for n in range(200, 240)]
    still_open = [run(n, status=RunStatus.OPEN, success=None, finished_unix_s=9999) for n in range(300, 350)]
    alone, all_ = score_radar(new), score_radar([*old, *new, *still_open])
    assert all_.axes == alone.axes
    assert (all_.window_runs, all_.terminal_runs) == (100, 140)


def test_equal_finish_times_go_by_run_id() -> None:
    """READING window-order: of 101 runs of one second the smallest id is left out."""
    runs = [run(n, finished_unix_s=5) for n in range(101)]
    assert {one.run_id for one in latest(runs[::-1])} == {one.run_id for one in runs[1:]}


def test_the_window_needs_finish_times_only_when_it_is_full() -> None:
    """An unknown time is no time: with more runs than the window holds it is refused, never guessed."""
    runs = [run(n, finished_unix_s=None if n == 7 else n) for n in range(101)]
    assert score_radar(runs[:100]).window_runs == 100
    with pytest.raises(MalformedInputError) as caught:
        score_radar(runs)
    assert caught.value.code == "finish-time"


@given(run_lists(), st.randoms(use_true_random=False))
def test_order_changes_nothing(runs: list[Run], shuffler: random.Random) -> None:
    """Families 1, 15: an equal result, equal bytes, an equal digest."""
    mixed = list(runs)
    shuffler.shuffle(mixed)
    assert score_radar(mixed) == score_radar(runs)
    assert canonical.encode(score_radar(mixed).as_data()) == canonical.encode(score_radar(runs).as_data())


@given(run_lists())
def test_every_axis_is_there_and_bounded_or_says_why(runs: list[Run]) -> None:
    """S0-16, G-5: 0..100, or None with a reason."""
    made = score_radar(runs)
    assert [one.name for one in made.axes] == list(AxisName)
    for one in made.axes:
        assert (one.value is None) == (one.reason is not None)
        assert one.value is None or 0 <= one.value <= 100


# --- axes -----------------------------------------------------------------------------------------------


def test_correctness_counts_known_outcomes_only() -> None:
    """S0-17: unknown outcomes are in neither number; timeouts with a known outcome are."""
    runs = [run(1), run(2, success=None), run(3, status=RunStatus.TIMEOUT, success=False), run(4)]
    assert value(runs, AxisName.CORRECTNESS) == Fraction(200, 3)
    assert reason([run(1, success=None)], AxisName.CORRECTNESS) is NoAxis.NO_KNOWN_OUTCOME


def test_latency_is_hidden_until_five_runs_have_one() -> None:
    """S0-19: four of five runs with a latency are four; the raw median stays available."""
    runs = [run(n, latency_ms=None if n == 1 else Fraction(600 + n)) for n in range(1, 6)]
    hidden = score_radar(runs).axis(AxisName.LATENCY)
    assert (hidden.value, hidden.reason) == (None, NoAxis.FEWER_THAN_FIVE_LATENCIES)
    assert (hidden.raw, hidden.evidence) == (Fraction(1207, 2), 4)
    shown = score_radar([*runs, run(9, latency_ms=Fraction(605))]).axis(AxisName.LATENCY)
    assert shown.raw == 604
    assert shown.value == 100 - Fraction(104, 50)
    nothing = score_radar([run(1, latency_ms=None)]).axis(AxisName.LATENCY)
    assert (nothing.raw, nothing.reason) == (None, NoAxis.NO_LATENCY)


def test_medians_not_means() -> None:
    """S0-18, S0-20, S0-21: one extreme run moves nothing."""
    calm = [run(n, latency_ms=Fraction(550), cost_usd=Fraction("0.02"), steps=4) for n in range(5)]
    wild = [*calm[:4], run(9, latency_ms=Fraction(10**9), cost_usd=Fraction(10**6), steps=10**6)]
    for name in (AxisName.LATENCY, AxisName.COST, AxisName.TOOL_EFFICIENCY):
        assert value(calm, name) == value(wild, name)


def test_an_even_count_takes_the_mean_of_the_middle_two() -> None:
    """S0-23."""
    runs = [run(n, cost_usd=Fraction(cents, 100)) for n, cents in enumerate([1, 2, 5, 100])]
    made = score_radar(runs).axis(AxisName.COST)
    assert made.raw == Fraction("0.035")
    assert made.value == 75


def test_runs_without_steps_are_not_in_the_median() -> None:
    """S0-21: neither an unknown count nor 0 steps; no steps at all is no axis."""
    runs = [run(1, steps=5), run(2, steps=0), run(3, steps=None), run(4, steps=5)]
    made = score_radar(runs).axis(AxisName.TOOL_EFFICIENCY)
    assert made.value == 80
    assert made.evidence == 2
    assert reason([run(1, steps=0)], AxisName.TOOL_EFFICIENCY) is NoAxis.NO_STEPS
    assert reason([run(1, cost_usd=None)], AxisName.COST) is NoAxis.NO_COST


def test_robustness_is_unweighted_over_tasks_with_two_outcomes() -> None:
    """S0-22: 2 of 3 is 1/9, not |2p - 1| = 1/3; consistent failure is robust; single outcomes are out."""
    runs = [
        *[run(n, task_id="split", success=n < 2) for n in range(3)],
        *[run(10 + n, task_id="lost", success=False) for n in range(40)],
        run(90, task_id="once"),
        run(91, task_id="unknown", success=None),
        run(92, task_id="unknown"),
    ]
    made = score_radar(runs).axis(AxisName.ROBUSTNESS)
    assert (made.value, made.evidence) == (100 * (Fraction(1, 9) + 1) / 2, 2)
    assert reason([run(1)], AxisName.ROBUSTNESS) is NoAxis.NO_REPEATED_TASK


@pytest.mark.parametrize(("passes", "outcomes"), [(1, 1), (0, 0), (3, 2), (-1, 2)])
def test_determinism_refuses_impossible_counts(passes: int, outcomes: int) -> None:
    """Family 10."""
    with pytest.raises(MalformedInputError) as caught:
        task_determinism(passes, outcomes)
    assert caught.value.code == "pass-count"


# --- family 8: renormalisation ----------------------------------------------------------------------------


@given(AXIS_VALUES, WEIGHTS)
def test_a_profile_lies_between_its_axes(
    axes: Mapping[AxisName, Fraction | None], weights: Mapping[AxisName, Fraction]
) -> None:
    """Family 8: within the least and the greatest available axis that has a weight; none is None, never 0."""
    made = weigh(axes, weights)
    parts = [part for name in AxisName if (part := axes[name]) is not None and weights[name]]
    if made.value is None:
        assert not parts and made.reason is not None
    else:
        assert min(parts) <= made.value <= max(parts) and made.reason is None
    assert set(made.dropped) == {name for name in AxisName if axes[name] is None}


@given(AXIS_VALUES, WEIGHTS, st.fractions(Fraction(1, 100), 100))
def test_only_the_ratio_of_weights_counts(
    axes: Mapping[AxisName, Fraction | None], weights: Mapping[AxisName, Fraction], factor: Fraction
) -> None:
    """Family 8: all weights times c > 0 give the same value."""
    scaled = {name: weight * factor for name, weight in weights.items()}
    assert weigh(axes, scaled).value == weigh(axes, weights).value


@given(AXIS_VALUES, WEIGHTS, st.sampled_from(AxisName), WEIGHTS)
def test_a_missing_axis_has_no_say(
    axes: Mapping[AxisName, Fraction | None],
    weights: Mapping[AxisName, Fraction],
    gone: AxisName,
    other: Mapping[AxisName, Fraction],
) -> None:
    """S0-24: the weight of a missing axis is dropped, whatever it is."""
    without = {**axes, gone: None}
    assert weigh(without, weights).value == weigh(without, {**weights, gone: other[gone]}).value


def test_why_there_is_no_profile() -> None:
    """S0-24, S0-25: nothing available, or nothing that weighs."""
    assert weigh(dict.fromkeys(AxisName), EQUAL_WEIGHTS).reason is NoProfile.NO_AXIS
    zero = {name: Fraction(name is AxisName.COST) for name in AxisName}
    assert weigh({**AXES, AxisName.COST: None}, zero).reason is NoProfile.NO_WEIGHT
    assert weigh(AXES, dict.fromkeys(AxisName, Fraction(0))).reason is NoProfile.NO_WEIGHT


def test_default_weights_are_equal() -> None:
    """S0-24: 20% each, adding up to the whole."""
    assert set(EQUAL_WEIGHTS.values()) == {Fraction(1, 5)}
    assert sum(EQUAL_WEIGHTS.values()) == 1
    assert weigh(AXES, EQUAL_WEIGHTS).value == 60


@given(run_lists(), WEIGHTS)
def test_viewer_weights_change_a_profile_only(runs: list[Run], weights: Mapping[AxisName, Fraction]) -> None:
    """Family 8, S0-25: composite and radar are the same objects' bytes before and after."""
    radar, composite = score_radar(runs), score_composite(runs)
    before = canonical.encode([radar.as_data(), composite.as_data()]), hash(radar), hash(composite)
    radar.profile(weights)
    local_order({"a": radar}, weights)
    assert before == (canonical.encode([radar.as_data(), composite.as_data()]), hash(radar), hash(composite))


@pytest.mark.parametrize(
    ("axes", "weights", "code"),
    [
        ({}, {}, "axes"),
        (AXES, {AxisName.COST: Fraction(1)}, "axes"),
        ({**AXES, AxisName.COST: Fraction(101)}, EQUAL_WEIGHTS, "range"),
        ({**AXES, AxisName.COST: Fraction(-1)}, EQUAL_WEIGHTS, "range"),
        ({**AXES, AxisName.COST: 50}, EQUAL_WEIGHTS, "number"),
        (AXES, {**EQUAL_WEIGHTS, AxisName.COST: Fraction(-1, 5)}, "range"),
        (AXES, {**EQUAL_WEIGHTS, AxisName.COST: 0.2}, "number"),
        (AXES, {**EQUAL_WEIGHTS, AxisName.COST: float("nan")}, "number"),
        (AXES, {**EQUAL_WEIGHTS, AxisName.COST: True}, "number"),
        (AXES, {**EQUAL_WEIGHTS, AxisName.COST: None}, "number"),
    ],
)
def test_a_profile_refuses(axes: Any, weights: Any, code: str) -> None:
    """Family 10: exactly five exact axes 0..100 and five exact weights from 0 on."""
    with pytest.raises(MalformedInputError) as caught:
        weigh(axes, weights)
    assert caught.value.code == code


def test_a_viewer_orders_locally() -> None:
    """S0-25: best first under the viewer's weights, missing last, ties by name."""
    fast = score_radar(runs_with(3, 3))
    right = score_radar(runs_with(6, 0, latency_ms=Fraction(5500)))
    empty = score_radar([])
    agents = {"z-fast": fast, "right": right, "a-fast": fast, "empty": empty}
    only = {name: Fraction(name is AxisName.LATENCY) for name in AxisName}
    assert [name for name, _ in local_order(agents, only)] == ["a-fast", "z-fast", "right", "empty"]
    only = {name: Fraction(name is AxisName.CORRECTNESS) for name in AxisName}
    assert [name for name, _ in local_order(agents, only)] == ["right", "a-fast", "z-fast", "empty"]


# --- what a result carries --------------------------------------------------------------------------------


@given(run_lists())
def test_data_is_canonical_and_complete(runs: list[Run]) -> None:
    """G-4: plain data without floats, with id, readings, arithmetic and digest."""
    made = score_radar(runs)
    data = made.as_data()
    assert json.loads(json.dumps(data)) == data == canonical.decode_strict(canonical.encode(data))
    assert data["methodology"] == "badgeia-fitness-radar/1"
    assert [one["code"] for one in data["readings"]] == [one.code for one in READINGS]
    assert len({one.code for one in READINGS}) == len(READINGS)
    for axis, line in zip(made.axes, made.arithmetic[1:6], strict=True):
        assert line.startswith(f"{axis.name}:")
        assert (DASH in line) == (axis.value is None)
        if axis.value is not None:
            assert line.endswith(f"= {axis.value.numerator}/{axis.value.denominator}")


def test_the_profile_line_can_be_redone() -> None:
    """UI-3: the weighted sum of the axes, done again from the text."""
    line = score_radar(runs_with(2, 2)).arithmetic[-1]
    found = re.search(r"= \((.+)\) / (\S+) = (\S+)$", line)
    assert found, line
    total = Fraction(0)
    for term in found[1].split(" + "):
        weight, points = term.split(" x ")
        total += Fraction(weight) * Fraction(points)
    assert total / Fraction(found[2]) == Fraction(found[3])


@given(run_lists(max_size=6), st.data())
def test_the_digest_follows_every_input(runs: list[Run], data: st.DataObject) -> None:
    """Family 15: another run or one changed figure is another digest."""
    before = score_radar(runs).inputs_digest
    assert score_radar([*runs, run(777)]).inputs_digest != before
    if runs:
        at = data.draw(st.integers(0, len(runs) - 1))
        longer = replace(runs[at], steps=(runs[at].steps or 0) + 1)
        assert score_radar([*runs[:at], longer, *runs[at + 1 :]]).inputs_digest != before
