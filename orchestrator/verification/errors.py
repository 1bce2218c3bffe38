"""Errors and the closed table of reason codes of verification (certificates.md 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from orchestrator.errors import AssizeError


class Part(StrEnum):
    """The three separate verdicts, and what is only said."""

    AUTHENTIC = "authentic"
    COMPLETE = "complete"
    COUNTS = "counts"
    NOTE = "note"


EXIT_OK: Final = 0
EXIT_INVALID: Final = 1
EXIT_UNREADABLE: Final = 2
EXIT_NOT_COUNTING: Final = 3
EXIT_UNDECIDED: Final = 4

_RANK: Final = (EXIT_OK, EXIT_NOT_COUNTING, EXIT_UNDECIDED, EXIT_UNREADABLE, EXIT_INVALID)


def worst(exit_codes: set[int]) -> int:
    """The exit code that decides: INVALID over unreadable over UNDECIDED over not counting over 0."""
    return max(exit_codes | {EXIT_OK}, key=_RANK.index)


@dataclass(frozen=True)
class ReasonRule:
    """What a reason code means: the verdict it touches, its exit code, the check it belongs to."""

    part: Part
    exit_code: int
    check: str


def _rules(part: Part, exit_code: int, **checks: str) -> dict[str, ReasonRule]:
    return {
        code: ReasonRule(part, exit_code, check.replace("_", "-"))
        for check, codes in checks.items()
        for code in codes.split()
    }


REASONS: Final[dict[str, ReasonRule]] = {
    **_rules(
        Part.AUTHENTIC,
        EXIT_UNREADABLE,
        input="unreadable too-large bundle-form trust-root trust-root-pin witness-policy",
    ),
    **_rules(
        Part.AUTHENTIC,
        EXIT_INVALID,
        form="form payload-type internal",
        signature="no-trusted-key signature",
        key="key-usage key-window key-revoked",
        statement="predicate-type schema id-charset visibility result reward usage comparability",
        time="time-order",
        manifest="manifest",
        binding="opening-mismatch screening-mismatch mixed judge-mismatch task-mismatch conditions-mismatch",
        logged="not-logged log-closed proof-form checkpoint-form checkpoint-unsigned origin inclusion "
        "consistency rollback split-view log-tile log-root entry-form shard-link",
        witnessed="cosignature",
    ),
    **_rules(
        Part.AUTHENTIC,
        EXIT_UNDECIDED,
        key="trust-root-expired trust-root-version",
        statement="predicate-version critical",
        logged="proof-unsupported consistency-missing",
        notices="notices-unsupported",
    ),
    **_rules(Part.COMPLETE, EXIT_INVALID, evidence="evidence"),
    **_rules(
        Part.COMPLETE,
        EXIT_UNDECIDED,
        logged="log-missing",
        witnessed="quorum",
        evidence="evidence-missing withheld-undeclared",
        notices="notices-stale notices-unproven notices-unread notice-undecided notice-withheld",
    ),
    **_rules(
        Part.COMPLETE,
        EXIT_INVALID,
        attempts="double replaces unplanned",
        summary="summary-omits summary-adds summary-mismatch",
        notices="notice-invalid notice-mismatch notice-suppressed",
    ),
    **_rules(Part.COMPLETE, EXIT_UNDECIDED, plan="unaccounted", summary="summary-missing"),
    **_rules(
        Part.COUNTS,
        EXIT_NOT_COUNTING,
        counts="simulated unverified failed platform-fault not-evaluable older-pack uncountable superseded "
        "contaminated",
    ),
    **_rules(
        Part.NOTE,
        EXIT_OK,
        statement="unknown-fields",
        signature="foreign-signature",
        witnessed="not-witnessed",
        counts="corrected key-event",
    ),
}
"""Every reason code. Codes are stable: one is never given another meaning."""

CHECKS: Final = (
    "input",
    "form",
    "signature",
    "key",
    "statement",
    "time",
    "manifest",
    "binding",
    "logged",
    "witnessed",
    "notices",
    "evidence",
    "attempts",
    "plan",
    "summary",
    "counts",
)
"""The checks in the order in which they are reported."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason with its sentence; `where` names the file or try inside a screening."""

    code: str
    detail: str
    where: str = ""

    @property
    def rule(self) -> ReasonRule:
        """The entry of `REASONS`."""
        return REASONS[self.code]


class VerificationError(AssizeError):
    """What was to be verified is not what it should be; `findings` carries every stable reason code."""

    code = "verification"

    def __init__(self, reason: str, detail: str, *, more: tuple[Finding, ...] = ()) -> None:
        super().__init__(f"{reason}: {detail}")
        self.findings = (Finding(reason, detail), *more)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reason codes."""
        return tuple(finding.code for finding in self.findings)

    @property
    def decisive_exit_code(self) -> int:
        """The exit code of 3.6 for these findings."""
        return worst({finding.rule.exit_code for finding in self.findings})

    def within(self, name: str) -> VerificationError:
        """The same error seen from the enclosing field `name`."""
        first, *more = self.findings
        joint = "" if first.detail.startswith((" ", ".")) else "."
        return VerificationError(first.code, f"{name}{joint}{first.detail}", more=tuple(more))
