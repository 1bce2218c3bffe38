"""What verification says: findings, and the three separate verdicts that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from orchestrator.certificates.logged import Standing
from orchestrator.certificates.notices import VOIDING, Noticed
from orchestrator.log.proof import NOT_WITNESSED
from orchestrator.verification.errors import (
    CHECKS,
    EXIT_NOT_COUNTING,
    EXIT_OK,
    EXIT_UNDECIDED,
    Finding,
    Part,
    worst,
)


class Verdict(StrEnum):
    """One part of the answer."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Check:
    """One check as reported: `ok`, `failed`, `undecided`, `not-counting`, or `not-done`."""

    name: str
    status: str
    codes: tuple[str, ...]
    detail: str


_STATUS: Final = {EXIT_OK: "ok", EXIT_NOT_COUNTING: "not-counting", EXIT_UNDECIDED: "undecided"}
# What this version has no way to check is said, not passed over (certificates.md 1.2, case 42).
_NOT_DONE: Final = {
    "logged": ("not-logged", "not logged: this certificate carries no log proof"),
    "witnessed": ("not-witnessed", f"not witnessed: {NOT_WITNESSED.detail}"),
    "notices": ("notices-unknown", "unknown: give the published log (--log) or a bundle that lists them"),
}


def _done(name: str, log: Standing | None) -> str | None:
    """What to say of a log check without findings that was made; None for one that was not."""
    if log is None:
        return None
    if name == "logged":
        return "; ".join(_place(one) for one in (log, *log.earlier))
    if name == "witnessed" and log.required:
        return "; ".join(_cosigned(one) for one in (log, *log.earlier))
    return None


def _noticed(noticed: Noticed | None) -> str | None:
    """How many notices there are through which size; None where nobody looked."""
    return None if noticed is None or noticed.through is None else noticed.summary()


def _place(log: Standing) -> str:
    place = f"{log.entries} entries" if log.index is None else f"index {log.index}"
    known = "" if log.remembered is None else f"; consistent with remembered size {log.remembered}"
    return f"{place} of {log.size}, {log.origin}{known}"


def _cosigned(log: Standing) -> str:
    """How many cosigned, of how many that could, and since when that was enough."""
    at = "" if log.quorum_at is None else f" earliest full quorum {log.quorum_at}"
    return f"{log.cosigned}/{log.known} (quorum {log.quorum}){at}"


def checks(
    findings: Iterable[Finding],
    skipped: Iterable[str] = (),
    log: Standing | None = None,
    noticed: Noticed | None = None,
) -> tuple[Check, ...]:
    """Every check in order with its codes; `skipped` names checks that were not asked for."""
    by_name: dict[str, list[Finding]] = {}
    for finding in findings:
        by_name.setdefault(finding.rule.check, []).append(finding)
    out = []
    for name in CHECKS:
        found = by_name.get(name, [])
        if found:
            code = worst({finding.rule.exit_code for finding in found})
            codes = tuple(dict.fromkeys(finding.code for finding in found))
            detail = "; ".join(finding.detail for finding in found[:5])
            out.append(Check(name, _STATUS.get(code, "failed"), codes, detail))
        elif (said := _noticed(noticed) if name == "notices" else _done(name, log)) is not None:
            out.append(Check(name, "ok", (), said))
        elif name in _NOT_DONE:
            code_name, detail = _NOT_DONE[name]
            if name == "witnessed" and log is not None and log.cosigned:
                detail += f" ({log.cosigned} of {log.known} known witnesses cosigned)"
            out.append(Check(name, "not-done", (code_name,), detail))
        elif name in skipped:
            out.append(Check(name, "not-done", ("not-asked",), "not asked for"))
        else:
            out.append(Check(name, "ok", (), ""))
    return tuple(out)


def part_verdict(findings: Sequence[Finding], part: Part) -> Verdict:
    """The verdict of one part: no over undecided over yes."""
    if not findings:  # nearly every certificate, asked several times
        return Verdict.YES
    codes = {finding.rule.exit_code for finding in findings if finding.rule.part is part} - {EXIT_OK}
    if not codes:
        return Verdict.YES
    return Verdict.UNDECIDED if codes == {EXIT_UNDECIDED} else Verdict.NO


@dataclass(frozen=True, slots=True)
class EvidenceTally:
    """Evidence files of one or many tries; None figures mean that no store was given."""

    listed: int = 0
    withheld: int = 0
    checked: int | None = None
    missing: int | None = None

    def plus(self, other: EvidenceTally) -> EvidenceTally:
        """The sum over two tries."""
        return EvidenceTally(
            self.listed + other.listed,
            self.withheld + other.withheld,
            _sum(self.checked, other.checked),
            _sum(self.missing, other.missing),
        )


def _sum(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


@dataclass(frozen=True, slots=True)
class _Result:
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0, 1, 2, 3 or 4 as in certificates.md 3.6."""
        return worst({finding.rule.exit_code for finding in self.findings})

    @property
    def authentic(self) -> Verdict:
        """Signature, key, form and binding: who says it, and that nothing was changed."""
        return part_verdict(self.findings, Part.AUTHENTIC)

    @property
    def complete(self) -> Verdict:
        """Evidence and, for a screening, every planned try; never yes for what is not authentic."""
        found = part_verdict(self.findings, Part.COMPLETE)
        return found if self.authentic is Verdict.YES or found is Verdict.NO else Verdict.UNDECIDED

    @property
    def counts(self) -> Verdict:
        """Whether it may be counted as what it says; only for what is authentic and complete."""
        if Verdict.NO in (self.authentic, self.complete):
            return Verdict.NO
        if Verdict.UNDECIDED in (self.authentic, self.complete):
            return Verdict.UNDECIDED
        return part_verdict(self.findings, Part.COUNTS)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason code that changes the exit code, each once."""
        return tuple(dict.fromkeys(f.code for f in self.findings if f.rule.exit_code != EXIT_OK))


@dataclass(frozen=True, slots=True)
class TryResult(_Result):
    """One certificate. `predicate` is the signed content, None unless signature and form are good.

    `digest` names the certificate (SHA-256 of its PAE bytes); None when there was no envelope. `index` is
    its place in the log, `log` what the log says of it on its own, `noticed` what was said about it later
    (None: nobody looked).
    """

    digest: str | None = None
    keyid: str | None = None
    predicate: dict[str, Any] | None = None
    evidence: EvidenceTally = field(default_factory=EvidenceTally)
    number: int = 0
    index: int | None = None
    log: Standing | None = None
    noticed: Noticed | None = None

    @property
    def voided(self) -> bool:
        """A notice withdraws what it claims: it is no pass any more. A failure stays one."""
        return any(finding.code in VOIDING for finding in self.findings)

    @property
    def refuted(self) -> bool:
        """Something shows it wrong; what is undecided or merely absent does not."""
        return self.authentic is Verdict.NO or part_verdict(self.findings, Part.COMPLETE) is Verdict.NO

    @property
    def sound(self) -> bool:
        """Authentic, and nothing shows it wrong; evidence that is merely absent does not."""
        return self.predicate is not None and self.authentic is Verdict.YES and not self.refuted

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of a single certificate."""
        skipped = {"plan", "summary", "attempts"}
        if self.evidence.checked is None:
            skipped.add("evidence")
        return checks(self.findings, skipped, self.log, self.noticed)


@dataclass(frozen=True, slots=True)
class Accounting:
    """What became of the planned tries, by the last certified attempt of each.

    `noticed` are passes that a notice withdraws; they are not among the passed.
    """

    planned: int = 0
    passed: int = 0
    failed: int = 0
    not_evaluable: int = 0
    uncountable: int = 0
    invalid: int = 0
    unaccounted: int = 0
    reruns: int = 0
    noticed: int = 0


@dataclass(frozen=True, slots=True)
class ScreeningResult(_Result):
    """One screening. `opening` and `summary` are signed content, None unless good."""

    opening: dict[str, Any] | None = None
    opening_digest: str | None = None
    summary: dict[str, Any] | None = None
    tries: tuple[TryResult, ...] = ()
    accounting: Accounting = field(default_factory=Accounting)
    evidence: EvidenceTally = field(default_factory=EvidenceTally)
    keyids: tuple[str, ...] = ()
    log: Standing | None = None
    noticed: Noticed | None = None

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the screening, those of its certificates included."""
        skipped = {"evidence"} if self.evidence.checked is None else ()
        return checks(self.findings, skipped, self.log, self.noticed)


def internal(error: Exception) -> Finding:
    """An unexpected exception is INVALID, never 0."""
    return Finding("internal", f"unexpected {type(error).__name__} while verifying")
