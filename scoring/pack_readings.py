"""The readings of `pack-score/1`: what was chosen where the Benchmark Packs document is silent."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading

PRECEDENCE: Final = Reading(
    "precedence",
    "S3-12..S3-22",
    "A try is put into the first class that fits: not visible, unfinished, lost by the platform or not "
    "evaluable, not verified, no verdict, failed, then what the certificate makes of a pass.",
)
UNVERIFIED_STAYS_OUT: Final = Reading(
    "unverified-stays-out",
    "S3-16",
    "A completed try that was not verified stays out of the score whatever its verdict.",
)
NOT_EVALUABLE_STAYS_OUT: Final = Reading(
    "not-evaluable-stays-out",
    "S3-14",
    "A try whose agent could not be installed or started is shown as could not be counted, never as 0.",
)
PRIVATE_INVALID_LEFT_OUT: Final = Reading(
    "private-invalid-left-out",
    "S3-21",
    "A non-public pass may lack a certificate, but one whose certificate is invalid is left out.",
)
FAILURES_ONLY: Final = Reading(
    "failures-only",
    "S3-25, S3-27",
    "One counted try that finished and was verified is enough: finished failures alone show 0, unfinished "
    "tries alone show no score.",
)
ALL_LEFT_OUT: Final = Reading(
    "all-left-out",
    "S3-28",
    "When every verified pass was left out for its certificate and nothing else finished, there is no score.",
)
COST_POOLED: Final = Reading(
    "cost-pooled",
    "S3-32",
    "USD per task is the mean over finished counted tries, all tasks pooled.",
)
UNFINISHED_SPEND: Final = Reading(
    "unfinished-spend",
    "S3-31",
    "The spend of unfinished tries is not in USD per task and is shown beside it under the same dash rules.",
)
SHORT_SCREEN: Final = Reading(
    "short-screen",
    "S3-40",
    "Partial screen is kept literal; Short screen is our own label for any task with fewer counted tries "
    "than the pack declares.",
)
FLOOR: Final = Reading(
    "floor-denominator",
    "section 6 (b)",
    "The floor is the mean over all tasks of the pack of passes / slots, where slots is the larger of the "
    "planned and the declared tries, so that planning less never raises it; whatever is not a counted "
    "pass is a failure there.",
)
CEILING: Final = Reading(
    "ceiling",
    "section 6 (b)",
    "The ceiling is the same mean with every slot that is not a counted failure taken as a pass.",
)
HIDDEN_SLOT: Final = Reading(
    "hidden-slot",
    "S3-8, S3-15",
    "In the public view a planned slot without a public try reads as never recorded, also when a non-public "
    "try exists: a loss cannot be hidden by recording it privately.",
)
CARD_INTERVAL: Final = Reading(
    "card-interval",
    "ST-3",
    "95% Wilson interval on the effective number of tries over tasks, with a t correction; it answers for "
    "another draw of tasks. With fewer than two scored tasks there is none.",
)
RERUN_NOISE: Final = Reading(
    "rerun-noise",
    "ST-2",
    "Re-run noise is 1.96 standard errors of the score over the same tasks; when no task split its tries, "
    "the smallest amount that one split task could have shown is used.",
)
DETECTABLE: Final = Reading(
    "minimum-detectable-difference",
    "ST-5",
    "From the number of scored tasks and the harmonic mean of their tries, with the planning variances "
    "1/9 between tasks and 1/6 within a try, two-sided 5%, power 80%, at most 100 points.",
)
PARTLY_HALF: Final = Reading(
    "partly-half",
    "S3-43",
    "In rubric packs a partly fulfilled claim counts one half.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "G-2, UI-5",
    "Figures are exact; what is displayed is rounded once, half away from zero: points to one decimal, USD "
    "to four.",
)

READINGS: Final[tuple[Reading, ...]] = (
    PRECEDENCE,
    UNVERIFIED_STAYS_OUT,
    NOT_EVALUABLE_STAYS_OUT,
    PRIVATE_INVALID_LEFT_OUT,
    FAILURES_ONLY,
    ALL_LEFT_OUT,
    COST_POOLED,
    UNFINISHED_SPEND,
    SHORT_SCREEN,
    FLOOR,
    CEILING,
    HIDDEN_SLOT,
    CARD_INTERVAL,
    RERUN_NOISE,
    DETECTABLE,
    PARTLY_HALF,
    ROUNDING,
)
