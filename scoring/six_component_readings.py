"""The readings of `six-component/1`: what was chosen where the document is silent or contradicts itself."""

from __future__ import annotations

from typing import Final

from scoring.results import Reading

NO_RENORMALISING: Final = Reading(
    "no-renormalising",
    "S2-3",
    "A missing component means no final score; the other weights are never scaled up.",
)
COUNTS: Final = Reading(
    "static-counts",
    "S2-8",
    "Static is passed / total; 50/30/20 is the composition of a suite and only shown as a diagnostic, which "
    "needs tests in all three categories.",
)
NO_ADVERSARIAL: Final = Reading(
    "no-adversarial-tests",
    "S2-12",
    "Without adversarial tests the component is missing, not 0 or 100.",
)
OWN_TESTS: Final = Reading(
    "adversarial-own-tests",
    "S2-11",
    "About 60% of the adversarial tests are generated from the submission itself, so that totals differ: the "
    "component is compared between submissions, single tests are not.",
)
EXECUTION: Final = Reading(
    "execution-conditions",
    "S2-5, S2-6",
    "10 s per test, no network, fresh state and independence are conditions of the test run, not of the "
    "score; a test counts as passed or not.",
)
TOTALS_FIRST: Final = Reading(
    "judge-totals-first",
    "S2-14",
    "Each judge's weighted total is made first, then the three totals are aggregated.",
)
ONE_OUTLIER: Final = Reading(
    "one-outlier",
    "S2-16..S2-18",
    "A judge is dropped only when exactly one is more than 15 points from both others; everything else that "
    "is no agreement takes the mean minus 10 and is flagged. The rule is not monotone.",
)
AMBIGUOUS_FLOOR: Final = Reading(
    "ambiguous-floor",
    "S2-19, S2-20",
    "The mean minus 10 is never below 0, and other than three judges are refused.",
)
DELIVERABLES_MEAN: Final = Reading(
    "deliverables-mean",
    "S2-22",
    "Several deliverables: unweighted mean, missing or placeholder 0; each is judged by three judges under "
    "the same rule as code quality. When none is asked for, the component is missing.",
)
NO_CAP: Final = Reading(
    "no-cap",
    "S2-24",
    "The formula is the score: a critical issue costs 25 points of a 10% component and is shown as a flag. "
    "The cap at 75 is six-component-cliff/1.",
)
WORST_CLASS: Final = Reading(
    "worst-class",
    "S2-26",
    "Stability has three levels and the worst class wins; a timeout is a crash.",
)
PUBLISHED_TIES: Final = Reading(
    "published-ties",
    "S2-28",
    "Ties are on the published integer; equal score, iterations and time share a rank (1, 1, 3); a "
    "submission without a score has no rank, and an unknown count or time comes after every known one.",
)
PLATEAU: Final = Reading(
    "late-jump-plateau",
    "S2-29",
    "late_jump needs at least two equal entries and nothing else before the final rise, of any size; no "
    "change at all is flat; entries are compared exactly.",
)
FROM_A_TRY: Final = Reading(
    "from-a-try",
    "S2-3",
    "A verified try states hidden checks and wall time only: its static component is known, the others are "
    "missing until a panel and a scanner say more. How the agent's own run ended says nothing about the "
    "stability of what it delivered.",
)
ROUNDING: Final = Reading(
    "display-rounding",
    "S2-2, G-2",
    "The final score is shown as an integer, rounded once, half away from zero; the raw value is kept.",
)

READINGS: Final[tuple[Reading, ...]] = (
    NO_RENORMALISING,
    COUNTS,
    EXECUTION,
    NO_ADVERSARIAL,
    OWN_TESTS,
    TOTALS_FIRST,
    ONE_OUTLIER,
    AMBIGUOUS_FLOOR,
    DELIVERABLES_MEAN,
    NO_CAP,
    WORST_CLASS,
    PUBLISHED_TIES,
    PLATEAU,
    FROM_A_TRY,
    ROUNDING,
)

CLIFF: Final = Reading(
    "cliff",
    "S2-24",
    "With at least one critical security issue the final score is at most 75, whatever the formula gives; "
    "everything else is six-component/1. Off by default.",
)
CLIFF_READINGS: Final[tuple[Reading, ...]] = (
    *(reading for reading in READINGS if reading is not NO_CAP),
    CLIFF,
)
