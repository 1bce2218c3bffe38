"""What `six-component/1` scores: one submission with the evidence of its six components.

Every part may be None: it was not measured, and then there is no final score (S2-3). Who asked, who paid
and who made it is no input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from scoring.domain import count, mark, pair
from scoring.errors import MalformedInputError
from scoring.judges import JUDGES


class Severity(StrEnum):
    """How bad a failed adversarial test or a security issue is."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Origin(StrEnum):
    """Whether an adversarial test was prepared or generated for the submission (S2-11)."""

    PREPARED = "prepared"
    GENERATED = "generated"


@dataclass(frozen=True)
class SuiteCount:
    """Tests of one kind, all or nothing each (S2-5): 0 <= passed <= total."""

    passed: int
    total: int

    def __post_init__(self) -> None:
        pair("tests", self.passed, self.total)


NO_TESTS = SuiteCount(0, 0)


@dataclass(frozen=True)
class StaticTests:
    """The static suite by category (S2-7); `other` are tests whose category is not known."""

    functionality: SuiteCount = NO_TESTS
    edge: SuiteCount = NO_TESTS
    integration: SuiteCount = NO_TESTS
    other: SuiteCount = NO_TESTS

    @property
    def passed(self) -> int:
        """Over all categories."""
        return sum(part.passed for part in (self.functionality, self.edge, self.integration, self.other))

    @property
    def total(self) -> int:
        """Over all categories."""
        return sum(part.total for part in (self.functionality, self.edge, self.integration, self.other))


@dataclass(frozen=True)
class AdversarialTest:
    """One adversarial test."""

    severity: Severity
    passed: bool
    origin: Origin = Origin.PREPARED

    def __post_init__(self) -> None:
        for value, kind in ((self.severity, Severity), (self.passed, bool), (self.origin, Origin)):
            if not isinstance(value, kind):
                raise MalformedInputError("adversarial-test", f"{value!r:.40} is no {kind.__name__}")


@dataclass(frozen=True)
class QualityMarks:
    """One judge's marks for code quality, each 0..100 (S2-13)."""

    readability: Fraction
    architecture: Fraction
    robustness: Fraction
    idiomaticity: Fraction

    def __post_init__(self) -> None:
        for name in ("readability", "architecture", "robustness", "idiomaticity"):
            mark(name, getattr(self, name))


@dataclass(frozen=True)
class DeliverableMarks:
    """One judge's marks for one deliverable, each 0..100 (S2-21)."""

    accuracy: Fraction
    clarity: Fraction
    completeness: Fraction
    actionability: Fraction

    def __post_init__(self) -> None:
        for name in ("accuracy", "clarity", "completeness", "actionability"):
            mark(name, getattr(self, name))


class Delivery(StrEnum):
    """Whether a deliverable is there; only a written one is judged (S2-22)."""

    WRITTEN = "written"
    PLACEHOLDER = "placeholder"
    MISSING = "missing"


@dataclass(frozen=True)
class Deliverable:
    """One deliverable that was asked for, with its panel when it is written."""

    name: str
    delivery: Delivery
    panel: Mapping[str, DeliverableMarks] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed = JUDGES if self.delivery is Delivery.WRITTEN else 0
        if len(self.panel) != needed:
            raise MalformedInputError(
                "judge-count", f"deliverable {self.name} is {self.delivery} and has {len(self.panel)} judges"
            )


@dataclass(frozen=True)
class SecurityScan:
    """What the scanner found; scanner and rule set are part of the input (S2-25)."""

    scanner: str
    ruleset: str
    critical: int = 0
    high: int = 0
    medium: int = 0
    low: int = 0

    def __post_init__(self) -> None:
        if not self.scanner or not self.ruleset:
            raise MalformedInputError("provenance", "a security scan names its scanner and its rule set")
        for severity in Severity:
            count(f"{severity} issues", self.issues(severity))

    def issues(self, severity: Severity) -> int:
        """Number of issues of one severity."""
        found: int = getattr(self, severity.value)
        return found


@dataclass(frozen=True)
class Running:
    """What was seen while the submission ran (S2-26)."""

    warnings: bool = False
    crashed: bool = False
    timeout: bool = False

    def __post_init__(self) -> None:
        if not all(isinstance(flag, bool) for flag in (self.warnings, self.crashed, self.timeout)):
            raise MalformedInputError("flag", "a stability flag is true or false")


@dataclass(frozen=True)
class Submission:
    """One submission of one challenge. `code_quality` maps a judge to its marks; `deliverables` are those
    that were asked for; `time_ms` is start to final submission; `scores` are all scores in the
    order of the iterations, the final one last (empty: not kept)."""

    name: str
    static: StaticTests | None = None
    adversarial: tuple[AdversarialTest, ...] | None = None
    code_quality: Mapping[str, QualityMarks] | None = None
    deliverables: tuple[Deliverable, ...] | None = None
    security: SecurityScan | None = None
    stability: Running | None = None
    iterations: int | None = None
    time_ms: int | None = None
    scores: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        if self.code_quality is not None and len(self.code_quality) != JUDGES:
            raise MalformedInputError("judge-count", f"{len(self.code_quality)} judges, not {JUDGES}")
        if self.iterations is not None:
            count("iterations", self.iterations, least=1)
        if self.time_ms is not None:
            count("time_ms", self.time_ms)
        if self.scores and self.iterations is not None and len(self.scores) != self.iterations:
            raise MalformedInputError(
                "trajectory-length", f"{len(self.scores)} scores for {self.iterations} iterations"
            )
        names = [one.name for one in self.deliverables or ()]
        if len(set(names)) != len(names):
            raise MalformedInputError("duplicate-deliverable", "a deliverable is listed twice")
