"""One classifier of a try, in the order of precedence of S3-12 .. S3-22; every methodology may reuse it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from scoring.tries import CertificateState, SandboxLevel, VerifiedTry
from scoring.vocabulary import UNFINISHED, Outcome, Reason


class View(StrEnum):
    """Who is reading: `public` sees public tries only (S3-8); `owner` also the non-public ones (S3-10)."""

    PUBLIC = "public"
    OWNER = "owner"


class TryClass(StrEnum):
    """What a try is for the score; exactly one applies."""

    HIDDEN = "hidden"
    UNFINISHED = "unfinished"
    PLATFORM_FAULT = "platform_fault"
    NOT_EVALUABLE = "not_evaluable"
    NOT_VERIFIED = "not_verified"
    FINISHED_FAILURE = "finished_failure"
    NO_VERDICT = "no_verdict"
    PASS = "pass"
    PASS_WITHOUT_CERTIFICATE = "pass_without_certificate"
    LEFT_OUT_CERTIFICATE = "left_out_certificate"


PASSES: Final = frozenset({TryClass.PASS, TryClass.PASS_WITHOUT_CERTIFICATE})
"""In the numerator."""
FINISHED: Final = PASSES | {TryClass.FINISHED_FAILURE, TryClass.NO_VERDICT}
"""Counted, finished and verified: a Pack Score needs one (S3-25), and cost is taken on them (S3-31)."""
COUNTED: Final = FINISHED | {TryClass.UNFINISHED}
"""In the denominator (S3-13, S3-23)."""
COULD_NOT_BE_COUNTED: Final = frozenset(
    {TryClass.PLATFORM_FAULT, TryClass.NOT_EVALUABLE, TryClass.NOT_VERIFIED}
)
"""Shown, never held against the agent, outside the score (S3-14 .. S3-16)."""


def classify(try_: VerifiedTry, view: View) -> TryClass:
    """The class of a try for a reader; total over every `VerifiedTry`. The first rule that fits decides."""
    if view is View.PUBLIC and not try_.public:  # S3-12
        return TryClass.HIDDEN
    if try_.reason in UNFINISHED:  # S3-13: a failure, whatever the sandbox level
        return TryClass.UNFINISHED
    if try_.outcome is Outcome.PLATFORM_FAULT:  # S3-14, S3-15
        return TryClass.PLATFORM_FAULT
    if try_.outcome is Outcome.NOT_EVALUABLE:
        return TryClass.NOT_EVALUABLE
    if try_.level is not SandboxLevel.VERIFIED:  # S3-16, S3-22: whatever the verdict
        return TryClass.NOT_VERIFIED
    if try_.reason is Reason.NO_VERDICT:  # S3-18
        return TryClass.NO_VERDICT
    if try_.outcome is Outcome.FAILED:  # S3-17: needs no certificate
        return TryClass.FINISHED_FAILURE
    return _passed(try_)


def _passed(try_: VerifiedTry) -> TryClass:
    """S3-19 .. S3-21: what the certificate makes of a verified pass."""
    if try_.certificate is CertificateState.VALID:
        return TryClass.PASS
    if try_.certificate is CertificateState.MISSING and not try_.public:
        return TryClass.PASS_WITHOUT_CERTIFICATE
    return TryClass.LEFT_OUT_CERTIFICATE


def kind_of(try_: VerifiedTry, class_: TryClass) -> str:
    """The word a count is split by (UI-11): the reason; for a completed try that was not verified its
    sandbox level (`unverified` or `simulated`)."""
    return try_.level.value if class_ is TryClass.NOT_VERIFIED else try_.reason.value


def reads_as_simulated(try_: VerifiedTry, class_: TryClass) -> bool:
    """Whether the try ran without being observed by the sandbox (S3-22, UI-11); a try that the platform
    lost, or that never started, says nothing about that."""
    ran = class_ in COUNTED or class_ is TryClass.NOT_VERIFIED
    return ran and try_.level is not SandboxLevel.VERIFIED
