"""What `assize verify` shows: text of certificates.md 3.6 and the same as plain data for `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from orchestrator.certificates.notices import Notice
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import Check, EvidenceTally, ScreeningResult, TryResult, Verdict
from orchestrator.verification.errors import REASONS, Finding

TRY_SCHEMA: Final = "assize.verify-try/1"
SCREENING_SCHEMA: Final = "assize.verify-screening/1"
LIMITS: Final = "proves who certified and that nothing changed; not that the grader or the pack is right"
_SAID: Final = {"ok": "yes", "failed": "NO", "undecided": "UNDECIDED", "not-done": "no"}
_NUSD: Final = 10**9
_SHOWN: Final = 20


def usd(nusd: int) -> str:
    """Exact decimal USD of integer nano-USD, without trailing zeros beyond cents."""
    whole, rest = divmod(nusd, _NUSD)
    digits = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{whole}.{digits}"


def _check_data(check: Check) -> dict[str, Any]:
    return {"check": check.name, "status": check.status, "codes": list(check.codes), "detail": check.detail}


def finding_data(finding: Finding) -> dict[str, Any]:
    """One finding as plain data."""
    return {
        "code": finding.code,
        "exit": REASONS[finding.code].exit_code,
        "where": finding.where or None,
        "detail": finding.detail,
    }


def _common(result: TryResult | ScreeningResult, trust: TrustRoot | None) -> dict[str, Any]:
    return {
        "exit": result.exit_code,
        "authentic": result.authentic.value,
        "complete": result.complete.value,
        "counts": result.counts.value,
        "reasons": list(result.reasons),
        "checks": [_check_data(check) for check in result.checks],
        "findings": [finding_data(finding) for finding in result.findings],
        "evidence": asdict(result.evidence),
        "log": None if result.log is None else asdict(result.log),
        "notices": None if result.noticed is None else asdict(result.noticed),
        "trustRoot": None if trust is None else {"version": trust.version, "sha256": trust.sha256},
        "limits": LIMITS,
    }


def try_data(result: TryResult, trust: TrustRoot | None = None) -> dict[str, Any]:
    """One certificate as plain data."""
    return {
        "schema": TRY_SCHEMA,
        **_common(result, trust),
        "certificate": result.digest,
        "keyid": result.keyid,
        "predicate": result.predicate,
    }


def screening_data(result: ScreeningResult, trust: TrustRoot | None = None) -> dict[str, Any]:
    """One screening as plain data; `certificates` has one short entry per try bundle."""
    opening = result.opening
    return {
        "schema": SCREENING_SCHEMA,
        **_common(result, trust),
        "screening": None if opening is None else opening["screening"]["id"],
        "opening": result.opening_digest,
        "pack": None if opening is None else opening["pack"],
        "agent": None if opening is None else opening["agent"],
        "accounting": asdict(result.accounting),
        "keyids": list(result.keyids),
        "certificates": [_listed(one) for one in result.tries],
    }


def _listed(one: TryResult) -> dict[str, Any]:
    body = one.predicate
    return {
        "number": one.number,
        "logIndex": one.index,
        "certificate": one.digest,
        "exit": one.exit_code,
        "reasons": list(one.reasons),
        "task": None if body is None else body["task"]["id"],
        "index": None if body is None else body["try"]["index"],
        "attempt": None if body is None else body["try"]["attempt"],
        "outcome": None if body is None else body["result"]["outcome"],
        "reason": None if body is None else body["result"]["reason"],
    }


def row(name: str, text: str) -> str:
    """One line for a person."""
    return f"{name:<11} {text}"


def _evidence_row(tally: EvidenceTally) -> str:
    if tally.checked is None:
        return row("evidence", f"not checked: {tally.listed} listed, {tally.withheld} withheld")
    return row("evidence", f"{tally.checked} checked, {tally.withheld} withheld, {tally.missing} missing")


def _log_rows(result: TryResult | ScreeningResult) -> list[str]:
    """Whether it is logged and witnessed; what cannot be checked is said, not passed over."""
    by_name = {check.name: check for check in result.checks}
    both = [by_name[name] for name in ("logged", "witnessed")]
    rows = [row(check.name, f"{_SAID[check.status]:<4} {check.detail}") for check in both]
    noticed, check = result.noticed, by_name["notices"]
    if noticed is None or noticed.through is None:
        return [*rows, row("notices", check.detail if check.status == "not-done" else "unknown")]
    rows.append(row("notices", noticed.summary()))
    return [*rows, *(row("notice", notice_line(one)) for one in noticed.notices[:_SHOWN])]


def notice_line(one: Notice) -> str:
    """One notice on one line: kind, date, what it is about, reason."""
    instead = "" if one.replaced_by is None else f", replaced by {one.replaced_by}"
    return f"{one.kind} of {one.issued_at} about {one.place}{instead}: {one.reason}"


def problem_rows(findings: Sequence[Finding]) -> list[str]:
    """What is wrong, then what is only noted; of each the first few."""
    rows = []
    bad = [f for f in findings if REASONS[f.code].exit_code]
    for finding in bad[:_SHOWN]:
        place = f"{finding.where}: " if finding.where else ""
        rows.append(row("reason", f"{finding.code}: {place}{finding.detail}"))
    if len(bad) > _SHOWN:
        rows.append(row("reason", f"and {len(bad) - _SHOWN} more (all with --json)"))
    rows += [row("note", f.detail) for f in findings if not REASONS[f.code].exit_code][:_SHOWN]
    return rows


def _verdict(verdict: Verdict) -> str:
    return {Verdict.YES: "yes", Verdict.NO: "NO", Verdict.UNDECIDED: "UNDECIDED"}[verdict]


def _outcome_row(body: dict[str, Any]) -> str:
    result, usage = body["result"], body["usage"]
    if usage["costNusd"] is None:
        cost = "cost n/a (a call is not exactly known)" if usage["metered"] else "cost unknown (not metered)"
    else:
        listing = usage["priceList"]
        cost = f"cost {usd(usage['costNusd'])} USD"
        cost += f", price list {listing['id']} {listing['date']}" if listing else ", no priced call"
    return row("outcome", f"{result['outcome']} ({result['reason']}); {cost}")


def _positions(keyid: str, trust: TrustRoot | None) -> str:
    """Where in its log a key may sign."""
    key = None if trust is None else trust.keys.get(keyid)
    if key is None or key.log is None:
        return ""
    until = min((end for end in (key.until_index, key.revoked_from) if end is not None), default="")
    return f" (log positions {key.from_index}..{until})"


def try_text(result: TryResult, trust: TrustRoot | None = None) -> str:
    """One certificate for a person."""
    rows = [row("authentic", _verdict(result.authentic))]
    if result.keyid:
        told = f"key {result.keyid}{_positions(result.keyid, trust)}, try-certificate/v1"
        rows[0] = row("authentic", f"{_verdict(result.authentic):<4} {told}")
    rows += root_rows(trust) + _log_rows(result)
    rows += [_evidence_row(result.evidence)]
    body = result.predicate
    if body is not None:
        slot, pack = body["try"], body["pack"]
        rows.append(
            row(
                "try",
                f"{pack['id']}@{pack['version']} {body['task']['id']} try {slot['index']}/{slot['of']} "
                f"attempt {slot['attempt']}, judge {body['judge']}, sandbox {body['sandbox']['level']}, "
                f"{body['visibility']}",
            )
        )
        rows.append(_outcome_row(body))
    rows += problem_rows(result.findings)
    rows.append(row("COMPLETE", _verdict(result.complete)))
    counts = "yes, as a pass" if result.counts is Verdict.YES else _verdict(result.counts)
    rows += [row("COUNTS", counts), row("limits", LIMITS)]
    return "\n".join(rows)


def screening_text(result: ScreeningResult, trust: TrustRoot | None = None) -> str:
    """One screening for a person."""
    keys = ", ".join(result.keyids)
    rows = [row("authentic", f"{_verdict(result.authentic):<4} {'keys ' + keys if keys else ''}".rstrip())]
    rows += root_rows(trust) + _log_rows(result) + [_evidence_row(result.evidence)]
    if result.opening is not None:
        opening, sums = result.opening, result.accounting
        rows += [
            row("screening", f"{opening['screening']['id']}, opened {opening['time']['openedAt']}"),
            row(
                "subject",
                f"{opening['agent']['id']}@{opening['agent']['version']} on "
                f"{opening['pack']['id']}@{opening['pack']['version']}, judge {opening['judge']}",
            ),
            row("parties", _parties(opening["screening"])),
            row(
                "tries",
                f"{sums.planned} planned: {sums.passed} passed, {sums.failed} failed, "
                f"{sums.not_evaluable} not evaluable, {sums.uncountable} uncountable, "
                f"{sums.noticed} withdrawn, {sums.invalid} invalid, {sums.unaccounted} unaccounted; "
                f"{sums.reruns} re-runs",
            ),
        ]
    rows += problem_rows(result.findings)
    rows.append(row("COMPLETE", _verdict(result.complete)))
    rows += [row("COUNTS", _verdict(result.counts)), row("limits", LIMITS)]
    return "\n".join(rows)


def _parties(screening: dict[str, Any]) -> str:
    return (
        f"requested by {screening['requestedBy']}, funded by {screening['fundedBy']}, "
        f"operated by {screening['operatedBy']}"
    )


def root_rows(trust: TrustRoot | None) -> list[str]:
    """Which trust root it was verified with."""
    if trust is None:
        return []
    return [row("trust root", f"version {trust.version}, sha256 {trust.sha256}")]
