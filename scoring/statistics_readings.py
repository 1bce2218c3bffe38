"""The readings of `statistics/1`: how intervals, noise and comparisons are computed for every method."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading

PAIRED_TASKS: Final = Reading(
    "paired-tasks",
    "ST-4",
    "Two results are compared task by task, on the share of counted tries that passed, over the tasks where "
    "both have a counted try; the others are listed and say nothing.",
)
EXACT_TEST: Final = Reading(
    "exact-sign-flip",
    "ST-4",
    "Two-sided exact sign-flip test over tasks: all 2^G signs by integer convolution, no sampling and no "
    "normal approximation; 5% decides.",
)
AGAINST_THE_LEADER: Final = Reading(
    "against-the-leader",
    "section 6 (c)",
    "The test that decides takes every slot that was not counted as decided against the result that is "
    "ahead; where every slot was counted it is the plain test. So not recording a failure never wins a "
    "comparison.",
)
PAIR_DETECTABLE: Final = Reading(
    "detectable-from-the-pair",
    "ST-5",
    "(z.975 + z.80) x the standard error of the mean task difference. Its variance is the larger of the "
    "spread of the task differences and of what re-running both on the same tasks would give; a task with a "
    "single counted try takes the planning variance 1/6 for the latter.",
)
DETECTABLE_FLOOR: Final = Reading(
    "detectable-floor",
    "ST-5",
    "Never below the smallest difference that the exact test can find: six tasks one way, each by the least "
    "step of its tries. On fewer than six tasks no difference can be told apart.",
)
HOLM_FAMILY: Final = Reading(
    "holm-family",
    "ST-7",
    "Many results: Holm over all pairs that are shown; rank ranges only when every pair is comparable.",
)
INTERVALS: Final = Reading(
    "intervals",
    "ST-1..ST-3",
    "Plain proportions: Wilson or Jeffreys; task means: clustered t; the card: Wilson on the effective "
    "number of tries with a t correction. 95%, two-sided.",
)
PASS_K: Final = Reading(
    "pass-k-spread",
    "ST-6",
    "pass^k is unbiased for n >= k; its spread within a task needs 2k tries, so with three tries only the "
    "spread between tasks is used.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "G-2",
    "p-values and differences are exact; points are shown with one decimal, p-values with four, both rounded "
    "once, half away from zero; the decision uses the exact values.",
)

READINGS: Final[tuple[Reading, ...]] = (
    PAIRED_TASKS,
    EXACT_TEST,
    AGAINST_THE_LEADER,
    PAIR_DETECTABLE,
    DETECTABLE_FLOOR,
    HOLM_FAMILY,
    INTERVALS,
    PASS_K,
    ROUNDING,
)
