"""`six-component-cliff/1`: the six-component formula with the document's "hard cliff" taken literally.

The document's principle says that a solution with a critical security issue should not score above 75; its
formula takes 2.5 points (S2-24). The formula is `six-component/1`; this is the principle, a methodology of
its own, off by default and never mixed with the other.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Final

from scoring.six_component import score_submission
from scoring.six_component_inputs import Submission
from scoring.six_component_result import CLIFF_METHODOLOGY, SixComponentCliffScore

__all__ = ["CAP", "CLIFF_METHODOLOGY", "capped", "score_submission_with_cliff"]

CAP: Final = Fraction(75)
"""The most that a submission with a critical security issue can score."""


def capped(raw: Fraction | None, critical: bool) -> Fraction | None:
    """`raw`, at most 75 with a critical issue; None stays None."""
    return min(raw, CAP) if raw is not None and critical else raw


def score_submission_with_cliff(submission: Submission) -> SixComponentCliffScore:
    """As `score_submission`, then capped at 75 when the scan found a critical issue; same errors."""
    base = score_submission(submission)
    figures = {item.name: getattr(base, item.name) for item in fields(base)}
    figures["raw"] = capped(base.raw, base.critical_flag)
    return SixComponentCliffScore(**figures, uncapped=base.raw, cap=CAP)
