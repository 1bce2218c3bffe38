"""What `assize verify --audit` shows of a log: text, and the same as plain data for `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from orchestrator.certificates.audit import LogAudit
from orchestrator.certificates.report import LIMITS, finding_data, notice_line, problem_rows, root_rows, row
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log.proof import NOT_WITNESSED

AUDIT_SCHEMA: Final = "assize.verify-audit/1"


def audit_data(found: LogAudit, trust: TrustRoot) -> dict[str, Any]:
    """The audit of a log as plain data."""
    seen = found.witnessing
    return {
        "schema": AUDIT_SCHEMA,
        "exit": found.exit_code,
        "reasons": list(found.reasons),
        "findings": [finding_data(finding) for finding in found.findings],
        "origin": found.origin or None,
        "size": found.size,
        "earlier": [{"origin": origin, "size": size} for origin, size in found.earlier],
        "statements": found.statements,
        "read": found.read,
        "withheld": found.withheld,
        "unclosed": found.unclosed,
        "notices": [asdict(one) for one in found.notices],
        "withdrawn": found.withdrawn,
        "again": found.again,
        "witnesses": None if seen is None else {"cosigned": len(seen.times), "known": seen.known},
        "trustRoot": {"version": trust.version, "sha256": trust.sha256},
        "limits": LIMITS,
    }


def audit_text(found: LogAudit, trust: TrustRoot) -> str:
    """The audit of a log for a person."""
    seen, kinds = found.witnessing, [f"{count} {kind}" for kind, count in sorted(found.statements.items())]
    rows = [row("log", f"{found.origin or 'not opened'}, {found.size} entries")]
    rows += [row("after", f"{origin}, {size} entries, audited too") for origin, size in found.earlier]
    rows += root_rows(trust)
    if seen is None or not seen.required:
        rows.append(row("witnessed", f"no   {NOT_WITNESSED.detail}"))
    else:
        rows.append(row("witnessed", f"{len(seen.times)}/{seen.known} (quorum {found.quorum})"))
    rows += [
        row("statements", ", ".join(kinds) or "none"),
        row("read", f"{found.read} published and checked, {found.withheld} withheld"),
        row("screenings", f"{found.unclosed} opened and not closed"),
    ]
    if found.again:
        rows.append(row("again", f"{found.again} statements of ended keys were certified again"))
    told = f", which withdraw {found.withdrawn} certificates" if found.notices else ""
    rows.append(row("notices", f"{len(found.notices) or 'none'} through size {found.size}{told}"))
    rows += [row("notice", notice_line(one)) for one in found.notices]
    rows += problem_rows(found.findings)
    rows += [row("SOUND", "yes" if found.exit_code == 0 else "NO"), row("limits", LIMITS)]
    return "\n".join(rows)
