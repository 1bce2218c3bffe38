"""The Pack Score card: what `pack-score/1` hands out, and what it may be compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Final

from scoring.classify import View
from scoring.errors import MethodologyMixError
from scoring.intervals import EffectiveWilson
from scoring.pack_readings import READINGS
from scoring.pack_tally import Counts, Spend, TaskTally
from scoring.results import MethodologyResult, Reading

METHODOLOGY: Final = "pack-score/1"
EVERY_TRY: Final = 3
"""k of "every try passes", pass^3 (S3-29)."""


class Status(StrEnum):
    """Whether there is a Pack Score, and if not, which sentence stands in its place."""

    SCORED = "scored"
    NONE_VERIFIED = "runs_recorded_none_verified"
    NO_RESULTS = "no_pack_results_yet"


class Missing(StrEnum):
    """Why a figure is a dash (G-5)."""

    NOTHING_RECORDED = "nothing-recorded"
    NONE_VERIFIED = "none-finished-and-verified"
    ALL_LEFT_OUT = "all-passes-left-out"
    NOT_EVALUABLE = "not-evaluable"
    FEWER_THAN_THREE = "fewer-than-three-counted-tries"
    UNMETERED = "unmetered-try"
    WITHHELD = "withheld-answer-key"
    ONE_TASK = "fewer-than-two-scored-tasks"
    ONE_TRY = "a-task-with-one-counted-try"
    NOT_MEASURED = "not-measured"


class PartialCause(StrEnum):
    """Why a result is a Partial screen (S3-37 .. S3-39)."""

    TASKS_UNSCORED = "tasks-unscored"
    TRIES_DIFFER = "tries-differ"
    COULD_NOT_BE_COUNTED = "could-not-be-counted"


@dataclass(frozen=True)
class Figure:
    """An exact figure, or None with the reason; never a placeholder."""

    value: Fraction | None
    reason: Missing | None


@dataclass(frozen=True)
class Labels:
    """The labels of a card (UI-12)."""

    partial_causes: tuple[PartialCause, ...]
    short_screen: bool
    older_pack_version: bool
    simulated: bool

    @property
    def partial_screen(self) -> bool:
        """Whether any of the three causes applies."""
        return bool(self.partial_causes)


@dataclass(frozen=True)
class Noise:
    """Chance figures in points, floats: half-widths of a re-run on the same tasks and over other tasks, and
    the smallest difference that can be told apart; None with a reason where tries or tasks are too few."""

    rerun: float | None
    rerun_reason: Missing | None
    other_tasks: float | None
    other_tasks_reason: Missing | None
    detectable: float | None
    detectable_reason: Missing | None


@dataclass(frozen=True)
class Key:
    """What a card is about; cards of two packs, pack versions or judges are never combined (S3-1 .. S3-4)."""

    screening_id: str
    agent_id: str
    agent_digest: str
    pack_id: str
    pack_version: str
    pack_digest: str
    judge: str


@dataclass(frozen=True)
class PackScoreCard(MethodologyResult):
    """One Pack Score card. Points are 0..100, pass^3 is a share 0..1, USD exact; `tries_min`/`tries_max` are
    counted tries over the scored tasks. The interval holds shares 0..1."""

    methodology: ClassVar[str] = METHODOLOGY
    readings: ClassVar[tuple[Reading, ...]] = READINGS

    key: Key
    view: View
    status: Status
    pack_score: Fraction | None
    pack_score_reason: Missing | None
    interval: EffectiveWilson | None
    interval_reason: Missing | None
    floor: Fraction | None
    ceiling: Fraction | None
    pass3: Fraction | None
    pass3_reason: Missing | None
    tasks_scored: int
    tasks_in_pack: int
    tries_min: int | None
    tries_max: int | None
    declared_tries: int
    counts: Counts
    labels: Labels
    usd_per_task: Fraction | None
    usd_per_task_reason: Missing | None
    finished_spend: Spend
    unfinished_spend_nusd: int | None
    unfinished_spend_reason: Missing | None
    noise: Noise
    do_nothing_floor: Fraction | None
    tasks: tuple[TaskTally, ...]
    certificate_digests: tuple[str, ...]
    inputs_digest: str

    @property
    def includes_non_public(self) -> bool:
        """Whether the view counts runs that are not public; the card must say so (S3-10)."""
        return self.counts.non_public > 0


def require_comparable(a: MethodologyResult, b: MethodologyResult) -> None:
    """Raise `MethodologyMixError` unless both are cards of one pack version under one judge (S3-2, S3-4)."""
    if not isinstance(a, PackScoreCard) or not isinstance(b, PackScoreCard):
        raise MethodologyMixError("methodology-mix", f"{a.methodology} and {b.methodology} do not compare")
    if (a.key.pack_id, a.key.pack_version, a.key.pack_digest) != (
        b.key.pack_id,
        b.key.pack_version,
        b.key.pack_digest,
    ):
        raise MethodologyMixError("pack-mix", "results of two packs or pack versions are never combined")
    if a.key.judge != b.key.judge:
        raise MethodologyMixError("judge-mix", "scores under different judges are not comparable")
