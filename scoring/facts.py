"""What surrounds a try besides its end: provenance, models, prices, conditions (the rest of the input model).

Plain frozen records. Whatever a source does not state is None, never a default that looks like a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scoring.errors import MalformedInputError


class Provenance(StrEnum):
    """Who says so (S4-1); the labels are never merged, and only independent results rank (S4-2)."""

    INDEPENDENT = "independently-evaluated"
    PUBLISHER = "publisher-reported"
    COMMUNITY = "community-reported"
    NOT_EVALUATED = "not-evaluated"


class Population(StrEnum):
    """Whether a screening's tasks are a benchmark pack of its own, whose runs stay out of the composite, the
    radar and repeatability (S3-5), or the suite that those three describe."""

    BENCHMARK_PACK = "benchmark-pack"
    OWN_SUITE = "own-suite"


class Difficulty(StrEnum):
    """Human time of the reference solution in three classes, set before any run (S4-22)."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


@dataclass(frozen=True)
class ModelUse:
    """A model that the agent declares: its role, id, and dated snapshot where it is pinned."""

    role: str
    id: str
    snapshot: str | None


@dataclass(frozen=True)
class PriceSheet:
    """The dated, digest-pinned list of official prices behind a cost (S1-27, S4-11); `date` is YYYY-MM-DD."""

    id: str
    date: str
    digest: str


@dataclass(frozen=True)
class Conditions:
    """Under what a screening ran: the eight fields of S4-33, in which two results must agree.

    `timeouts_ms` is agent wall time by planned task, sorted by task; `step_limit` None is no limit;
    `permitted_tools` None is not restricted (another condition than the empty set). `hardware_class` and
    `runtime` are one field for comparison: the runtime is part of the hardware.
    """

    suite_version: str
    timeouts_ms: tuple[tuple[str, int], ...]
    step_limit: int | None
    network_policy: str
    permitted_tools: frozenset[str] | None
    hardware_class: str
    runtime: str
    repeats: int
    provenance: Provenance

    def __post_init__(self) -> None:
        if not isinstance(self.provenance, Provenance):
            raise MalformedInputError("provenance", f"{self.provenance!r:.60} is not a provenance label")
        _positive("repeats", self.repeats)
        if self.step_limit is not None:
            _positive("step limit", self.step_limit)
        for task, timeout_ms in self.timeouts_ms:
            _positive(f"timeout of {task}", timeout_ms)


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MalformedInputError("number", f"{name} is {value!r:.60}, not a positive whole number")


MAX_USE_CASES: Final = 2


@dataclass(frozen=True)
class TaskTags:
    """What a pack says of one task, set before any run (S4-17, S4-22); `difficulty` None is not rated."""

    use_cases: tuple[str, ...]
    difficulty: Difficulty | None

    def __post_init__(self) -> None:
        distinct = len(set(self.use_cases))
        if distinct != len(self.use_cases) or distinct > MAX_USE_CASES:
            raise MalformedInputError("use-cases", f"{self.use_cases!r:.80} is not up to two distinct tags")
        if self.difficulty is not None and not isinstance(self.difficulty, Difficulty):
            raise MalformedInputError("difficulty", f"{self.difficulty!r:.60} is not a difficulty")
