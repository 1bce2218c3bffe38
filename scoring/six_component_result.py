"""What `six-component/1` and `six-component-cliff/1` hand out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, Final

from scoring.digests import plain
from scoring.numbers import DASH, fixed, ratio
from scoring.results import MethodologyResult, Reading
from scoring.six_component_readings import CLIFF_READINGS, READINGS
from scoring.trajectory import Trajectory

METHODOLOGY: Final = "six-component/1"
CLIFF_METHODOLOGY: Final = "six-component-cliff/1"


class ComponentName(StrEnum):
    """The six, in the document's order."""

    STATIC = "static"
    ADVERSARIAL = "adversarial"
    CODE_QUALITY = "code_quality"
    DELIVERABLE = "deliverable"
    SECURITY = "security"
    STABILITY = "stability"


class MissingPart(StrEnum):
    """Why a component or the final score is a dash (G-5)."""

    NOT_MEASURED = "not-measured"
    NO_TESTS = "no-tests"
    NOTHING_ASKED = "no-deliverable-asked-for"
    COMPONENT_MISSING = "component-missing"


@dataclass(frozen=True)
class Component:
    """One component: value 0..100 or None with a reason, its weight, and the sum behind it."""

    name: ComponentName
    value: Fraction | None
    reason: MissingPart | None
    weight: Fraction
    arithmetic: str

    @property
    def product(self) -> Fraction | None:
        """value x weight, the points that it adds to the final score (S2-30)."""
        return None if self.value is None else self.value * self.weight


@dataclass(frozen=True)
class SixComponentResult(MethodologyResult):
    """Common part of the two results: `raw` is exact, `score` the published integer (S2-2).

    `iterations`, `time_ms` and `trajectory` are shown beside the score and are never in it (S2-27).
    `category_diagnostic` is the 50/30/20 weighting of the static suite, a diagnostic only.
    """

    name: str
    components: tuple[Component, ...]
    raw: Fraction | None
    raw_reason: MissingPart | None
    critical_flag: bool
    human_review: tuple[str, ...]
    category_diagnostic: Fraction | None
    iterations: int | None
    time_ms: int | None
    trajectory: Trajectory | None
    inputs_digest: str

    @property
    def score(self) -> int | None:
        """The published integer, half away from zero."""
        return None if self.raw is None else int(fixed(self.raw, 0))

    def component(self, name: ComponentName) -> Component:
        """One of the six by its name."""
        return next(one for one in self.components if one.name is name)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Every figure's sum as text (S2-30)."""
        lines = [f"{one.name}: {one.arithmetic}" for one in self.components]
        if self.category_diagnostic is not None:
            lines.append(
                "static by category 50/30/20 (diagnostic, not in the score): "
                f"{ratio(self.category_diagnostic)}"
            )
        return (*lines, self._final_line(), *(f"human review: {what}" for what in self.human_review))

    def _final_line(self) -> str:
        if self.raw is None:
            missing = ", ".join(one.name for one in self.components if one.value is None)
            return f"final score: {DASH} ({self.raw_reason}: {missing})"
        return f"final = {self._sum()} = {ratio(self.raw)}, shown {self.score}"

    def _sum(self) -> str:
        return " + ".join(f"{one.weight} x {one.value}" for one in self.components)

    def as_data(self) -> dict[str, Any]:
        """Plain data for `--json` and pages: exact figures as `n/d`, missing null with a reason."""
        return {
            "methodology": self.methodology,
            "name": self.name,
            "score": self.score,
            "raw": plain(self.raw),
            "reason": plain(self.raw_reason),
            "critical_flag": self.critical_flag,
            "human_review": list(self.human_review),
            "components": [
                {
                    "name": one.name.value,
                    "value": plain(one.value),
                    "reason": plain(one.reason),
                    "weight": ratio(one.weight),
                    "product": plain(one.product),
                }
                for one in self.components
            ],
            "category_diagnostic": plain(self.category_diagnostic),
            "iterations": self.iterations,
            "time_ms": self.time_ms,
            "trajectory": None
            if self.trajectory is None
            else {"class": self.trajectory.shape.value, "display": self.trajectory.display},
            "arithmetic": list(self.arithmetic),
            "readings": [reading.as_data() for reading in self.readings],
            "inputs_digest": self.inputs_digest,
        }


@dataclass(frozen=True)
class SixComponentScore(SixComponentResult):
    """The document's formula."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS


@dataclass(frozen=True)
class SixComponentCliffScore(SixComponentResult):
    """The formula under the cliff; `uncapped` is what the formula alone gives."""

    methodology: ClassVar[str] = CLIFF_METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = CLIFF_READINGS

    uncapped: Fraction | None
    cap: Fraction

    @property
    def capped(self) -> bool:
        """Whether the cliff took points."""
        return self.raw != self.uncapped

    def _final_line(self) -> str:
        if self.raw is None or self.uncapped is None:
            return super()._final_line()
        formula = f"{self._sum()} = {ratio(self.uncapped)}"
        if not self.critical_flag:
            return f"final = {formula}, no critical issue, shown {self.score}"
        return f"final = min({self.cap}, {formula}) = {ratio(self.raw)}, shown {self.score}"

    def as_data(self) -> dict[str, Any]:
        """As the formula's, with what the cliff did."""
        return super().as_data() | {"uncapped": plain(self.uncapped), "cap": ratio(self.cap)}
