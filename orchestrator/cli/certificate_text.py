"""One certificate as `assize certificates show` prints it: what it states, and what verification says."""

from __future__ import annotations

from typing import Any, Final

from orchestrator.certificates import report
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.opened import open_statement
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.verdict import TryResult, checks, part_verdict
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.cli.output import DASH, dash, dollars, duration, facts
from orchestrator.evidence.claims import sentences
from orchestrator.ledger import queries
from orchestrator.ledger.records import CertificateKind, StoredCertificate
from orchestrator.screenings.bundling import statement_of
from orchestrator.screenings.claimed import claims_under
from orchestrator.screenings.exporting import try_bundle
from orchestrator.screenings.installation import Installation
from orchestrator.verification.errors import Part, VerificationError, worst

_SCHEMA_PREFIX: Final = "https://assize.example/attestation/"


def certificate_data(installation: Installation, stored: StoredCertificate) -> dict[str, Any]:
    """A certificate with its verification, made from what the home has now."""
    statement = statement_of(stored.envelope)
    verification = (
        _try(installation, stored)
        if stored.kind is CertificateKind.TRY
        else _statement(installation, stored, statement)
    )
    return {
        "certificate": stored.digest,
        "type": statement["predicateType"].removeprefix(_SCHEMA_PREFIX),
        "screening": stored.screening_id,
        "statement": statement,
        "verification": verification,
        "claims_differ": _claims_differ(installation, stored),
    }


def _try(installation: Installation, stored: StoredCertificate) -> dict[str, Any]:
    root = installation.trust_root()
    published = PublishedNotices(installation.home.log) if root.logs else None
    result: TryResult = verify_try_bundle(
        try_bundle(installation, stored), root, store=installation.store, published=published
    )
    data = report.try_data(result, root)
    kept = ("exit", "authentic", "complete", "counts", "reasons", "findings", "log", "notices", "keyid")
    return {name: data[name] for name in kept}


def _claims_differ(installation: Installation, stored: StoredCertificate) -> list[str] | None:
    """Where the agent's own figures are others than the metered ones, in words; None where it says none.

    It stands beside the certificate and not in it.
    """
    if stored.attempt_id is None:
        return None
    attempt = queries.show_attempt(installation.ledger, stored.attempt_id)
    said = claims_under(installation.store, attempt.manifest_digest)
    return None if said is None else sentences(*said)


def _statement(
    installation: Installation, stored: StoredCertificate, statement: dict[str, Any]
) -> dict[str, Any]:
    """An opening or a summary on its own: signature, form and place in the log."""
    root, logbook = installation.trust_root(), installation.logbook()
    logs = LogChecks(root)
    kind = statement["predicateType"].removeprefix(_SCHEMA_PREFIX)
    try:
        envelope = stored.envelope if logbook is None else logbook.renewed([stored.envelope])[0]
        proof = None if logbook is None else logbook.prove([envelope])[0].encode()
        opened, _ = open_statement(envelope, kind, logs, proof)
        findings, keyid = list(opened.findings), opened.keyid
    except VerificationError as error:
        findings, keyid = list(error.findings), ""
    findings += logs.conclude()
    return {
        "exit": worst({one.rule.exit_code for one in findings}),
        "authentic": part_verdict(findings, Part.AUTHENTIC).value,
        "reasons": [one.code for one in findings if one.rule.exit_code],
        "checks": [one.name for one in checks(findings) if one.status == "failed"],
        "findings": [report.finding_data(one) for one in findings],
        "keyid": keyid or None,
    }


def certificate_lines(data: dict[str, Any]) -> list[str]:
    """The same for a person."""
    body = data["statement"]["predicate"]
    rows = [("type", data["type"]), ("digest", data["certificate"])]
    rows += _try_rows(body) if "try" in body else _other_rows(body)
    beside = _verification_rows(data["verification"])
    if apart := data["claims_differ"]:
        beside.append(("claims", f"not certified: other figures than the record; {'; '.join(apart)}"))
    return [*facts(rows), "", *facts(beside)]


def _try_rows(body: dict[str, Any]) -> list[tuple[str, str]]:
    slot, result, sandbox, clock = body["try"], body["result"], body["sandbox"], body["time"]
    passed = (
        ""
        if result["checksTotal"] is None
        else f", checks {result['checksPassed']} of {result['checksTotal']}"
    )
    suspect = "; suspect" if result["suspect"] else ""
    images = ", ".join(f"{one['role']} {one['digest']['sha256'][:12]}" for one in sandbox["images"])
    replaced = "" if slot["replaces"] is None else f", replaces {slot['replaces']['sha256'][:12]}"
    runner = sandbox["runner"]
    rows = [
        ("id", body["certificateId"]),
        (
            "outcome",
            f"{result['outcome']} ({result['reason']}), reward {dash(result['reward'])}{passed}{suspect}",
        ),
        (
            "decided by",
            f"rule {result['rule']} in phase {result['phase']}: {', '.join(result['restsOn']) or DASH}",
        ),
        ("task", f"{body['task']['id']} {body['task']['digest']['sha256'][:12]}"),
        (
            "try",
            f"{slot['index']} of {slot['of']}, attempt {slot['attempt']} ({slot['attemptId']}){replaced}",
        ),
        *_subject_rows(body),
        (
            "sandbox",
            f"{sandbox['level']}, {dash(sandbox['runtime'])}, graded {sandbox['gradingPlace']}, {images}",
        ),
        ("runner", f"{runner['version']} {runner['digest']['sha256'][:12]}"),
        ("caps", _caps(body["task"]["caps"])),
        *_condition_rows(body["conditions"]),
        ("usage", _usage(body["usage"])),
        ("time", f"{clock['handedOffAt']} to {clock['finishedAt']} ({duration(clock['wallMs'])})"),
        ("issued", f"{clock['issuedAt']} by {body['issuer']}"),
        ("label", f"{body['provenanceLabel']}, {body['visibility']}"),
    ]
    return rows


def _subject_rows(body: dict[str, Any]) -> list[tuple[str, str]]:
    """What opening and try certificate have in common: pack, agent, grader, who asked and paid."""
    pack, agent, grader, who = body["pack"], body["agent"], body["grader"], body["screening"]
    models = [f"{one['role']} {one['id']}" for one in agent["models"]]
    paid = f"funded by {who['fundedBy']}, operated by {who['operatedBy']}"
    simulator = body["simulator"]
    told = "none" if simulator is None else f"{simulator['id']}@{dash(simulator['snapshot'])}"
    return [
        ("screening", who["id"]),
        ("pack", f"{pack['id']}@{pack['version']} {pack['digest']['sha256'][:12]}"),
        (
            "agent",
            f"{agent['id']}@{agent['version']} {agent['digest']['sha256'][:12]}, {agent['connection']}",
        ),
        ("models", ", ".join(models) or "none"),
        ("judge", body["judge"]),
        ("grader", f"{grader['id']} {grader['digest']['sha256'][:12]}, passes at {grader['passAtLeast']}"),
        ("simulator", told if simulator is None else f"{told}, paid by {simulator['paidBy']}"),
        ("parties", f"requested by {who['requestedBy']}, {paid}"),
    ]


def _other_rows(body: dict[str, Any]) -> list[tuple[str, str]]:
    if "plan" in body:
        planned = sum(entry["tries"] for entry in body["plan"])
        tasks = sum(bool(entry["tries"]) for entry in body["plan"])
        return [
            ("id", body["statementId"]),
            *_subject_rows(body),
            ("plan", f"{planned} tries of {tasks} of {len(body['plan'])} tasks"),
            *_condition_rows(body["conditions"]),
            ("opened", f"{body['time']['openedAt']} by {body['issuer']}"),
            ("label", f"{body['provenanceLabel']}, {body['visibility']}"),
        ]
    return [
        ("id", body["statementId"]),
        ("screening", body["screening"]["id"]),
        ("lists", f"{len(body['certificates'])} certificates, {len(body['unrecorded'])} tries without one"),
        ("closed", f"{body['time']['closedAt']} by {body['issuer']}"),
    ]


def _caps(caps: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(caps.items()))


def _condition_rows(stated: dict[str, Any]) -> list[tuple[str, str]]:
    policy, tools = stated["networkPolicy"], stated["permittedTools"]
    comparable = stated["comparability"]["sha256"][:12]
    return [
        ("network", f"{policy['id']} {policy['digest']['sha256'][:12]}"),
        (
            "limits",
            f"steps {dash(stated['stepLimit'])}, try {dollars(stated['costCapNusd'])}, "
            f"screening {dollars(stated['screeningCapNusd'])}, tools {dash(tools and ', '.join(tools))}",
        ),
        ("host", f"{stated['hardwareClass']}, {stated['runtime']}, comparability {comparable}"),
    ]


def _usage(usage: dict[str, Any]) -> str:
    if not usage["metered"]:
        return "not metered"
    sheet = usage["priceList"]
    priced = (
        ""
        if sheet is None
        else f", price list {sheet['id']} {sheet['date']} {sheet['digest']['sha256'][:12]}"
    )
    cost = "n/a" if usage["costNusd"] is None else f"{report.usd(usage['costNusd'])} USD"
    tokens = f"{dash(usage['inputTokens'])} tokens in, {dash(usage['outputTokens'])} out"
    return f"{usage['requests']} requests, {tokens}, {cost}{priced}"


def _verification_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("authentic", f"{found['authentic']}, key {dash(found['keyid'])}")]
    log = found.get("log")
    if log is not None:
        rows.append(("logged", f"index {log['index']} of {log['size']}, {log['origin']}"))
    noticed = found.get("notices")
    if noticed is not None:
        count = len(noticed["notices"])
        rows.append(("notices", f"{count or 'none'} through size {dash(noticed['through'])}"))
        rows += [
            ("notice", f"{one['kind']} of {one['issued_at']}: {one['reason']}") for one in noticed["notices"]
        ]
    if "counts" in found:
        rows.append(("counts", found["counts"]))
    return rows + [("reason", f"{one['code']}: {one['detail']}") for one in found["findings"] if one["exit"]]
