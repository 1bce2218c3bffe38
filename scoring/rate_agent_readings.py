"""The readings of `rate-ai-agent/1`: what was chosen where the document is silent or contradicts itself."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading

COST_PER_ATTEMPT: Final = Reading(
    "cost-per-task-by-attempt",
    "S4-9, S4-10",
    "Cost per task is total cost / attempts and cost per success total / passed attempts; the total over "
    "distinct tasks is shown only as an alternative.",
)
REPEATABILITY: Final = Reading(
    "repeatability-outcome",
    "S4-15",
    "The same outcome means all attempts passed or none did; tasks with at least two counted attempts.",
)
FAILURE_CLASSES: Final = Reading(
    "failure-classes",
    "S4-13",
    "An attempt stopped by a limit on time, steps or cost is a timeout; one stopped by a resource limit or a "
    "network rule is a crash; one that ran to its end is wrong output, also with a void or no verdict.",
)
CLASSIFIER: Final = Reading(
    "one-classifier",
    "S4-14",
    "Attempts are classified as for pack-score/1: what was not seen in the sandbox, what the platform lost "
    "and passes left out for their certificate are shown and not counted.",
)
PARTIAL_PROGRESS: Final = Reading(
    "partial-progress-coverage",
    "S4-16",
    "Mean over the counted attempts that did not pass and whose checks were counted; how many that were is "
    "stated.",
)
MEDIAN: Final = Reading(
    "median-even",
    "S4-12",
    "The median of an even number of attempts is the mean of the middle two.",
)
UNTAGGED: Final = Reading(
    "untagged",
    "S4-17, S4-22",
    "A task without tags is in no use case, one without a rating in no difficulty; a group without counted "
    "attempts is not listed.",
)
NO_RESULT: Final = Reading(
    "no-counted-attempt",
    "S4-3",
    "Without a counted attempt every figure is missing: not evaluable when that is what every attempt was, "
    "else not evaluated.",
)
COMPOSITE: Final = Reading(
    "composite-warning",
    "S4-24..S4-27",
    "Off by default. Zero successes drop its cost part, so that failing everything can rank above rare "
    "costly success: the formula is kept and the warning shown.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "G-2",
    "Figures are exact; what is displayed is rounded once, half away from zero.",
)

READINGS: Final[tuple[Reading, ...]] = (
    COST_PER_ATTEMPT,
    REPEATABILITY,
    FAILURE_CLASSES,
    CLASSIFIER,
    PARTIAL_PROGRESS,
    MEDIAN,
    UNTAGGED,
    NO_RESULT,
    COMPOSITE,
    ROUNDING,
)
