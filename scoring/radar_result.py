"""What `badgeia-fitness-radar/1` hands out: five axes, and the profile under a viewer's weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.digests import plain
from scoring.errors import MalformedInputError
from scoring.numbers import DASH, ratio, show_points
from scoring.radar_readings import READINGS
from scoring.results import MethodologyResult, Reading

METHODOLOGY: Final = "badgeia-fitness-radar/1"
WINDOW: Final = 100
"""Latest terminal runs that the radar reads (S0-15)."""
LATENCY_GATE: Final = 5
"""Runs with a latency from which on the axis is shown (S0-19)."""
ROBUSTNESS_GATE: Final = 2
"""Known outcomes from which on a task enters robustness (S0-22)."""


class AxisName(StrEnum):
    """The five, in the document's order."""

    CORRECTNESS = "correctness"
    LATENCY = "latency"
    COST = "cost"
    TOOL_EFFICIENCY = "tool_efficiency"
    ROBUSTNESS = "robustness"


EQUAL_WEIGHTS: Final[Mapping[AxisName, Fraction]] = dict.fromkeys(AxisName, Fraction("0.20"))
"""The default viewer weights, 20% each (S0-24)."""


class NoAxis(StrEnum):
    """Why an axis is missing (G-5)."""

    NO_KNOWN_OUTCOME = "no_known_outcome"
    NO_LATENCY = "no_latency"
    FEWER_THAN_FIVE_LATENCIES = "fewer_than_five_latencies"
    NO_COST = "no_cost"
    NO_STEPS = "no_steps"
    NO_REPEATED_TASK = "no_repeated_task"


class NoProfile(StrEnum):
    """Why there is no profile (G-5)."""

    NO_AXIS = "no_axis"
    NO_WEIGHT = "no_weight_on_available_axes"


@dataclass(frozen=True)
class Axis:
    """`value` is 0..100 or None with its reason; `raw` the median behind it in its own unit (ms, USD, steps)
    where there is one, also when the axis is hidden; `evidence` counts the runs, or tasks, behind it."""

    name: AxisName
    value: Fraction | None
    reason: NoAxis | None
    raw: Fraction | None
    evidence: int
    arithmetic: str

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "axis": self.name.value,
            "exact": plain(self.value),
            "display": show_points(self.value),
            "unit": "points",
            "reason": plain(self.reason),
            "raw": plain(self.raw),
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Profile(MethodologyResult):
    """The weighted mean of the available axes, 0..100, under `weights` as the viewer gave them (S0-24)."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    value: Fraction | None
    reason: NoProfile | None
    weights: tuple[tuple[AxisName, Fraction], ...]
    dropped: tuple[AxisName, ...]
    arithmetic: str

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "exact": plain(self.value),
            "display": show_points(self.value),
            "unit": "points",
            "reason": plain(self.reason),
            "weights": [{"axis": name.value, "weight": ratio(weight)} for name, weight in self.weights],
            "dropped": [name.value for name in self.dropped],
        }


def weigh(axes: Mapping[AxisName, Fraction | None], weights: Mapping[AxisName, Fraction]) -> Profile:
    """sum(weight x axis) / sum(weight) over the available axes (S0-24, S0-25).

    A missing axis is dropped and the remaining weights are renormalised, so only their ratios count. Raises
    `MalformedInputError`: `axes` unless both name exactly the five, `number` or `range` for a weight that is
    no `Fraction` >= 0 or an axis that is no `Fraction` 0..100.
    """
    if set(axes) != set(AxisName) or set(weights) != set(AxisName):
        raise MalformedInputError("axes", "a profile takes all five axes and a weight for each")
    for name in AxisName:
        _bounded(f"weight of {name}", weights[name], None)
        _bounded(name, axes[name], Fraction(100))
    present = [(name, value) for name in AxisName if (value := axes[name]) is not None]
    kept = tuple((name, weights[name]) for name in AxisName)
    dropped = tuple(name for name in AxisName if axes[name] is None)
    total = sum((weights[name] for name, _ in present), Fraction(0))
    if not present or total == 0:
        reason = NoProfile.NO_WEIGHT if present else NoProfile.NO_AXIS
        return Profile(None, reason, kept, dropped, f"{DASH} ({reason})")
    value = sum((weights[name] * value for name, value in present), Fraction(0)) / total
    terms = " + ".join(f"{weights[name]} x {value}" for name, value in present)
    return Profile(value, None, kept, dropped, f"({terms}) / {total} = {ratio(value)}")


def _bounded(what: str, value: object, most: Fraction | None) -> None:
    if most is not None and value is None:
        return
    if not isinstance(value, Fraction):
        raise MalformedInputError("number", f"{what} is {value!r:.60}, not an exact number")
    if value < 0 or (most is not None and value > most):
        raise MalformedInputError("range", f"{what} is {value}")


@dataclass(frozen=True)
class FitnessRadar(MethodologyResult):
    """The five axes in the document's order; `window_runs` of `terminal_runs` were read."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    agent_id: str | None
    terminal_runs: int
    window_runs: int
    axes: tuple[Axis, ...]
    inputs_digest: str

    def axis(self, name: AxisName) -> Axis:
        """One of the five by its name."""
        return next(one for one in self.axes if one.name is name)

    def profile(self, weights: Mapping[AxisName, Fraction] = EQUAL_WEIGHTS) -> Profile:
        """The profile under a viewer's weights; nothing else depends on them (S0-25)."""
        return weigh({one.name: one.value for one in self.axes}, weights)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum, to be redone by hand."""
        reasons = {one.name: "" if one.reason is None else f" {DASH} ({one.reason})" for one in self.axes}
        return (
            f"window: the latest {self.window_runs} of {self.terminal_runs} terminal runs",
            *(f"{one.name}:{reasons[one.name]} {one.arithmetic}" for one in self.axes),
            f"profile under equal weights = {self.profile().arithmetic}",
        )

    def as_data(self) -> dict[str, Any]:
        """Plain data: exact figures as `n/d` beside the display; missing is null with its reason."""
        return {
            "methodology": self.methodology,
            "agent": self.agent_id,
            "terminal_runs": self.terminal_runs,
            "window_runs": self.window_runs,
            "axes": [one.as_data() for one in self.axes],
            "profile_equal_weights": self.profile().as_data(),
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


def local_order(
    radars: Mapping[str, FitnessRadar], weights: Mapping[AxisName, Fraction] = EQUAL_WEIGHTS
) -> tuple[tuple[str, Profile], ...]:
    """A viewer's own order of agents by profile, best first, missing last, ties by name (S0-25)."""
    made = [(name, radar.profile(weights)) for name, radar in radars.items()]
    return tuple(sorted(made, key=lambda pair: (pair[1].value is None, -(pair[1].value or 0), pair[0])))
