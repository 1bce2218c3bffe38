"""The readings of `same-question-bt/1`: what was chosen where the document of the board is silent."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading

LONE_ENTRANT: Final = Reading(
    "lone-entrant",
    "S1-9, S1-10",
    "A task with one entrant has no comparison and weighs 0; its runs still count in time and cost.",
)
REPEATS_MEAN: Final = Reading(
    "repeats-mean",
    "S1-5, S1-10",
    "Several valid runs of one entrant on a task are compared as their exact mean score.",
)
VALID_RESULT: Final = Reading(
    "valid-result",
    "S1-4",
    "A result is valid when the run completed, was verified and has a verdict: passed (with its "
    "certificate) or wrong output. Time-outs, caps, crashes, tool errors, missing verdicts and platform "
    "faults are absent.",
)
TAMPERING_IS_ZERO: Final = Reading(
    "tampering-is-zero",
    "S1-4",
    "A run that tampered with its grading is a valid 0, not an absent one: cheating never helps on a hard "
    "task.",
)
SCORE_SCALE: Final = Reading(
    "score-scale",
    "S1-6",
    "Scores are the grader's rewards; on a task where a valid run has none, every run counts 1 if it "
    "passed, else 0.",
)
STARTED: Final = Reading(
    "valid-of-started",
    "S1-4",
    "Absent results hide trouble, so each entrant shows its valid results beside what it started and what "
    "was planned for it; an entrant without any valid result is listed apart, without a score.",
)
UNROUNDED_REFERENCE: Final = Reading(
    "unrounded-reference",
    "S1-20",
    "A sub-board takes the unrounded overall score as reference, a sub-category the unrounded sub-board "
    "score.",
)
SHARED_RANK: Final = Reading(
    "shared-rank",
    "S1-22",
    "Scores equal after rounding to three decimals share the better rank, and the next rank is skipped "
    "(1, 1, 3).",
)
COLUMN_RANK: Final = Reading(
    "column-rank",
    "S1-25, S1-30",
    "Time and cost are ranked on their exact means; exactly equal means share a rank; a dash has none.",
)
TIME_IS_WALL: Final = Reading(
    "time-is-wall",
    "S1-24",
    "The time of a run is its wall time from hand-off to its end.",
)
COST_COVERAGE: Final = Reading(
    "cost-coverage",
    "S1-31",
    "Runs whose cost is unknown are skipped in the cost column, and the column says n of m runs.",
)
DEFAULT_PLACES: Final = Reading(
    "default-places",
    "S1-2",
    "Unless stated otherwise a task's sub-board is its pack, and its sub-categories are the use cases "
    "that the pack tags it with.",
)
GAP_INTERVAL: Final = Reading(
    "gap-interval",
    "section 5",
    "Intervals are for differences of two scores: task-clustered sandwich with factor T/(T-1) and Student "
    "t on T-1, T being the tasks with two entrants or more; references count as known. Below 20 tasks the "
    "reference pulls gaps inwards.",
)
GAP_FLOOR: Final = Reading(
    "gap-floor",
    "section 5",
    "The standard error of a difference is at least what one task decided half a win otherwise would move "
    "it: unanimous tasks do not make a difference certain.",
)
RANK_RANGE: Final = Reading(
    "rank-range",
    "ST-7",
    "Best rank is 1 + the entrants surely above, worst is all entrants - those surely below; surely means "
    "Holm over all pairs of the page at 5%.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "S1-21, S1-25, S1-30, G-2",
    "Rounded once, half away from zero, at display: scores to integers, seconds to one decimal, USD to four.",
)

READINGS: Final[tuple[Reading, ...]] = (
    LONE_ENTRANT,
    REPEATS_MEAN,
    VALID_RESULT,
    TAMPERING_IS_ZERO,
    SCORE_SCALE,
    STARTED,
    UNROUNDED_REFERENCE,
    SHARED_RANK,
    COLUMN_RANK,
    TIME_IS_WALL,
    COST_COVERAGE,
    DEFAULT_PLACES,
    GAP_INTERVAL,
    GAP_FLOOR,
    RANK_RANGE,
    ROUNDING,
)
