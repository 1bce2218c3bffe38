"""The rubric rule of claim-graded packs (S3-43): mean coverage of at least three quarters passes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Final

from scoring.errors import MalformedInputError

PASS_COVERAGE: Final = Fraction(3, 4)


class Claim(StrEnum):
    """A judge's ruling on one ground-truth claim."""

    FULFILLED = "fulfilled"
    PARTLY = "partly"
    NOT = "not"


CLAIM_VALUE: Final = {
    Claim.FULFILLED: Fraction(1),
    Claim.PARTLY: Fraction(1, 2),  # READING: the upstream convention; the seed gives no number
    Claim.NOT: Fraction(0),
}


def coverage(claims: Sequence[Claim]) -> Fraction:
    """Mean value of a try's claims, 0..1, exact; no claims raise `MalformedInputError("no-claims")`."""
    if not claims:
        raise MalformedInputError("no-claims", "a rubric needs at least one claim")
    return sum((CLAIM_VALUE[claim] for claim in claims), Fraction(0)) / len(claims)


def passes(claims: Sequence[Claim]) -> bool:
    """Whether the unrounded coverage is at least 3/4 (G-3)."""
    return coverage(claims) >= PASS_COVERAGE
