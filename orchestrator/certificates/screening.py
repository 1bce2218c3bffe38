"""Offline verification of a whole screening: opening, every certificate, summary, and how they fit.

Certificates of passes alone cannot show a hidden failure; the opening can (certificates.md section 0,
decision 2). So every planned try is accounted for here, one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from orchestrator.certificates import bundle, schema
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.notices import Concerned, Noticed, NoticeSource, gather
from orchestrator.certificates.opened import Opened, open_statement
from orchestrator.certificates.steps import AT_ONCE
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import (
    Accounting,
    EvidenceTally,
    ScreeningResult,
    TryResult,
    internal,
)
from orchestrator.certificates.verify import (
    DEFAULT_POLICY,
    Policy,
    check_tries,
    read_source,
    with_findings,
)
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification.errors import Finding, VerificationError

Slot = tuple[str, int]
# A failed try is a full answer; that a slot ended without one is said once per slot (`uncountable`).
_ANSWERS: Final = frozenset({"failed", "platform-fault"})


def slot_of(predicate: dict[str, Any]) -> Slot:
    """Task id and index of a try certificate."""
    return predicate["task"]["id"], predicate["try"]["index"]


def bind(predicate: dict[str, Any], opening: Opened, plan: dict[str, dict[str, Any]]) -> list[Finding]:
    """Every way in which a certificate is not one of this opening."""
    planned, found = opening.predicate, []
    screening = predicate["screening"]
    if screening["id"] != planned["screening"]["id"]:
        found.append(Finding("screening-mismatch", "the certificate belongs to another screening"))
    if screening["openingDigest"]["sha256"] != opening.digest:
        found.append(Finding("opening-mismatch", "the certificate was issued under another opening"))
    for name in ("requestedBy", "fundedBy", "operatedBy"):
        if screening[name] != planned["screening"][name]:
            found.append(Finding("screening-mismatch", f"{name} differs from the opening"))
    if any(predicate["pack"][name] != planned["pack"][name] for name in ("id", "version", "digest")):
        found.append(Finding("mixed", "the pack or its version differs from the opening"))
    if predicate["agent"] != planned["agent"]:
        found.append(Finding("mixed", "the agent differs from the opening"))
    if predicate["judge"] != planned["judge"]:
        found.append(Finding("judge-mismatch", f"judge {predicate['judge']}, opened with {planned['judge']}"))
    for name in ("grader", "simulator", "conditions", "provenanceLabel"):
        if predicate[name] != planned[name]:
            found.append(Finding("conditions-mismatch", f"{name} differs from the opening"))
    if predicate["time"]["handedOffAt"] < planned["time"]["openedAt"]:
        found.append(Finding("time-order", "handed off before the screening was opened"))
    return found + _bind_task(predicate, plan)


def _bound(
    result: TryResult,
    opening: Opened,
    opened_at: int | None,
    plan: dict[str, dict[str, Any]],
    logs: LogChecks,
) -> TryResult:
    """The result with what shows that it is not one of this opening, which is logged at `opened_at`."""
    if result.predicate is None:
        return result
    found = bind(result.predicate, opening, plan)
    where = (result.keyid or "", -1 if result.index is None else result.index)
    if opened_at is not None and where[1] >= 0 and logs.precedes(where, (opening.keyid, opened_at)):
        # The log shows what dates only claim: that the plan was there before the first end.
        found.append(Finding("time-order", "logged before its opening"))
    return with_findings(result, found)


def _bind_task(predicate: dict[str, Any], plan: dict[str, dict[str, Any]]) -> list[Finding]:
    task, slot = predicate["task"], predicate["try"]
    entry = plan.get(task["id"])
    if entry is None or slot["index"] > entry["tries"]:
        return [Finding("unplanned", f"try {slot['index']} of {task['id']} was not planned")]
    found = []
    if any(task[name] != entry[name] for name in ("digest", "answerKeyWithheld", "caps")):
        found.append(Finding("task-mismatch", "digest, caps or answer key differ from the opening"))
    if slot["of"] != entry["tries"]:
        found.append(Finding("task-mismatch", "the number of planned tries differs from the opening"))
    return found


def _attempt_findings(tries: Sequence[TryResult]) -> dict[int, list[Finding]]:
    """Double certificates and unjustified attempts, by position in `tries`."""
    found: dict[int, list[Finding]] = {}
    places: dict[tuple[str, int, int], list[int]] = {}
    for position, result in enumerate(tries):
        if result.predicate is not None:
            key = (*slot_of(result.predicate), result.predicate["try"]["attempt"])
            places.setdefault(key, []).append(position)
    for (task, index, attempt), positions in places.items():
        if len(positions) > 1:
            for position in positions:
                found.setdefault(position, []).append(
                    Finding("double", f"try {index} of {task}, attempt {attempt}, is certified twice")
                )
        if attempt == 1:
            continue
        before = [tries[position] for position in places.get((task, index, attempt - 1), [])]
        allowed = {
            earlier.digest
            for earlier in before
            if not earlier.refuted and (earlier.predicate or {})["result"]["faultClass"] == "platform"
        }
        for position in positions:
            predicate = tries[position].predicate or {}
            if (predicate["try"]["replaces"] or {}).get("sha256") not in allowed:
                found.setdefault(position, []).append(
                    Finding("replaces", f"attempt {attempt} does not follow a certified platform fault")
                )
    return found


def _summary_findings(
    summary: Opened, opening: Opened, tries: Sequence[TryResult], planned: Iterable[Slot]
) -> list[Finding]:
    body, found = summary.predicate, []
    expected = {**opening.predicate["screening"], "openingDigest": {"sha256": opening.digest}}
    if body["screening"] != expected:
        found.append(Finding("summary-mismatch", "the summary closes another screening"))
    listed = {entry["digest"]["sha256"]: entry for entry in body["certificates"]}
    if len(listed) != len(body["certificates"]):
        found.append(Finding("summary-mismatch", "the summary lists a certificate twice"))
    certified = {result.digest: result for result in tries if result.predicate is not None}
    for digest, result in certified.items():
        entry = listed.get(digest or "")
        if entry is None:
            found.append(Finding("summary-omits", "the summary omits this certificate", _where(result)))
        elif entry != summary_entry(result.predicate or {}, digest or ""):
            found.append(Finding("summary-mismatch", "the summary tells another end", _where(result)))
    for digest, entry in listed.items():
        if digest not in certified:
            where = f"{entry['taskId']} try {entry['index']} attempt {entry['attempt']}"
            found.append(
                Finding("summary-adds", f"certificate {digest[:12]} of the summary is absent", where)
            )
    recorded = {(entry["taskId"], entry["index"]) for entry in body["certificates"]}
    unrecorded = [(entry["taskId"], entry["index"]) for entry in body["unrecorded"]]
    if sorted(unrecorded) != sorted(set(planned) - recorded):
        found.append(Finding("summary-mismatch", "the unrecorded tries are not those without a certificate"))
    latest = max((r.predicate["time"]["issuedAt"] for r in tries if r.predicate), default="")
    if body["time"]["issuedAt"] < latest or body["time"]["closedAt"] < opening.predicate["time"]["openedAt"]:
        found.append(Finding("time-order", "the summary is older than what it closes"))
    return found


def summary_entry(predicate: dict[str, Any], digest: str) -> dict[str, Any]:
    """How a summary lists one try certificate."""
    return {
        "taskId": predicate["task"]["id"],
        "index": predicate["try"]["index"],
        "attempt": predicate["try"]["attempt"],
        "outcome": predicate["result"]["outcome"],
        "reason": predicate["result"]["reason"],
        "level": predicate["sandbox"]["level"],
        "wallMs": predicate["time"]["wallMs"],
        "digest": {"sha256": digest},
    }


def _where(result: TryResult) -> str:
    if result.predicate is None:
        return f"try file {result.number}"
    task, index = slot_of(result.predicate)
    return f"{task} try {index} attempt {result.predicate['try']['attempt']}"


def last_attempts(tries: Iterable[TryResult]) -> dict[Slot, TryResult]:
    """The sound certificate with the highest attempt of each slot."""
    last: dict[Slot, TryResult] = {}
    for result in tries:
        if not result.sound or result.predicate is None:
            continue
        slot = slot_of(result.predicate)
        held = last.get(slot)
        attempt = result.predicate["try"]["attempt"]
        if held is None or (held.predicate or {})["try"]["attempt"] < attempt:
            last[slot] = result
    return last


def _account(plan: dict[str, dict[str, Any]], tries: Sequence[TryResult]) -> tuple[Accounting, list[Finding]]:
    last, found = last_attempts(tries), []
    named = {slot_of(result.predicate) for result in tries if result.predicate is not None}
    counter: Counter[str] = Counter()
    for slot in planned_slots(plan):
        where = f"{slot[0]} try {slot[1]}"
        result = last.get(slot)
        if result is None or result.predicate is None:
            counter["invalid" if slot in named else "unaccounted"] += 1
            found.append(Finding("unaccounted", "planned, but without a certificate that holds", where))
            continue
        outcome = result.predicate["result"]["outcome"]
        counter["noticed" if outcome == "passed" and result.voided else outcome] += 1
        if outcome == "platform_fault":
            found.append(Finding("uncountable", "the last attempt was lost by the platform", where))
    accounting = Accounting(
        planned=sum(entry["tries"] for entry in plan.values()),
        passed=counter["passed"],
        failed=counter["failed"],
        not_evaluable=counter["not_evaluable"],
        uncountable=counter["platform_fault"],
        invalid=counter["invalid"],
        unaccounted=counter["unaccounted"],
        reruns=sum(1 for r in tries if r.predicate is not None and r.predicate["try"]["attempt"] > 1),
        noticed=counter["noticed"],
    )
    return accounting, found


def planned_slots(plan: dict[str, dict[str, Any]]) -> list[Slot]:
    """Every planned (task id, index) in plan order."""
    return [(task, index) for task, entry in plan.items() for index in range(1, entry["tries"] + 1)]


def _concerned(
    opening: Opened,
    opened_at: int | None,
    summary: Opened | None,
    closed_at: int | None,
    tries: Sequence[TryResult],
    logs: LogChecks,
) -> Concerned:
    """What notices about a screening are about: its opening, its certificates, and the keys of both.

    Positions are those in the newest of the logs that these are in; all of an earlier one come before.
    """
    keys = {opening.keyid, *(result.keyid for result in tries if result.keyid)}
    own = {logs.trust.keys[keyid].log for keyid in (*keys, *(() if summary is None else (summary.keyid,)))}
    origin = next((name for name in reversed(list(logs.trust.logs)) if name in own), None)

    def place(keyid: str | None, index: int | None) -> int | None:
        return index if keyid is not None and logs.trust.keys[keyid].log == origin else None

    opened_at = place(opening.keyid, opened_at)
    closed_at = None if summary is None else place(summary.keyid, closed_at)
    certificates = {one.digest: place(one.keyid, one.index) for one in tries if one.digest is not None}
    known = [index for index in (opened_at, closed_at, *certificates.values()) if index is not None]
    return Concerned(
        origin, certificates, {opening.digest: opened_at}, frozenset(keys), max(known, default=None)
    )


def _apply(noticed: Noticed, opening: Opened, tries: list[TryResult]) -> list[Finding]:
    """Every notice said once for the screening, and told to each certificate that it is about."""
    found = []
    for notice in noticed.notices:
        found.append(notice.finding(notice.place))
        for position, result in enumerate(tries):
            if notice.subject in (result.digest, opening.digest):
                tries[position] = with_findings(result, [notice.finding()])
    return found


def _closing(
    files: bundle.ScreeningFiles,
    opening: Opened,
    tries: Sequence[TryResult],
    plan: dict[str, dict[str, Any]],
    logs: LogChecks,
) -> tuple[Opened | None, int | None, list[Finding]]:
    """The summary, its place in the log, and what is wrong with it or that there is none."""
    if files.summary is None:
        return None, None, [Finding("summary-missing", "the screening was not closed by a summary")]
    try:
        summary, index = open_statement(files.summary, schema.SUMMARY, logs, files.proof_of("summary"))
    except VerificationError as error:
        return None, None, [replace(finding, where="summary") for finding in error.findings]
    found = [replace(finding, where="summary") for finding in summary.findings]
    return summary, index, found + _summary_findings(summary, opening, tries, planned_slots(plan))


def _evidence(tries: Iterable[TryResult], store: EvidenceStore | None) -> EvidenceTally:
    """The evidence of all tries together; without a store nothing was asked."""
    tally = EvidenceTally(checked=None if store is None else 0, missing=None if store is None else 0)
    for result in tries:
        tally = tally.plus(result.evidence)
    return tally


def _on_their_own(
    files: bundle.ScreeningFiles, logs: LogChecks, store: EvidenceStore | None, policy: Policy
) -> Iterator[TryResult]:
    """Every try in order, as it is without its opening."""
    for at in range(0, len(files.tries), AT_ONCE):
        numbers, raws = zip(*files.tries[at : at + AT_ONCE], strict=True)
        proofs = [files.proof_of(number) for number in numbers]
        yield from check_tries(raws, logs, store=store, policy=policy, numbers=numbers, proofs=proofs)


def check_screening(
    files: bundle.ScreeningFiles,
    trust: TrustRoot,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    logs: LogChecks | None = None,
    published: NoticeSource | None = None,
) -> ScreeningResult:
    """Verify the files of one screening; raises `VerificationError` when the opening does not hold."""
    logs = logs or LogChecks(trust)
    logs.follow(files.chain)
    opening, opened_at = open_statement(files.opening, schema.OPENING, logs, files.proof_of("opening"))
    found = [replace(finding, where="opening") for finding in opening.findings]
    plan = {entry["taskId"]: entry for entry in opening.predicate["plan"]}
    tries = [
        _bound(result, opening, opened_at, plan, logs) for result in _on_their_own(files, logs, store, policy)
    ]
    for position, more in _attempt_findings(tries).items():
        tries[position] = with_findings(tries[position], more)
    keyids = [opening.keyid, *(result.keyid for result in tries if result.keyid)]
    summary, closed_at, more_found = _closing(files, opening, tries, plan, logs)
    found += more_found
    keyids += [] if summary is None else [summary.keyid]
    tally = _evidence(tries, store)
    found += [
        replace(finding, where=_where(result))
        for result in tries
        for finding in result.findings
        if finding.code not in _ANSWERS
    ]
    noticed = None
    if files.notices is not None or published is not None:
        concerned = _concerned(opening, opened_at, summary, closed_at, tries, logs)
        noticed, more = gather(files.notices, concerned, logs, published)
        found += [*more, *_apply(noticed, opening, tries)]
    accounting, more = _account(plan, tries)
    found += [*more, *(replace(finding, where="log") for finding in logs.conclude())]
    return ScreeningResult(
        tuple(found),
        opening.predicate,
        opening.digest,
        None if summary is None else summary.predicate,
        tuple(tries),
        accounting,
        tally,
        tuple(dict.fromkeys(keyids)),
        logs.standing(),
        noticed,
    )


def verify_screening_bundle(
    source: bytes | Path,
    trust: TrustRoot,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    logs: LogChecks | None = None,
    published: NoticeSource | None = None,
) -> ScreeningResult:
    """Verify a screening bundle, given as bytes or as a path. Never raises for bad input.

    `logs` is given by who remembers checkpoints; its trust root must be `trust`. `published` are the
    notices of a log that is here, beside those that the bundle lists.
    """
    try:
        raw = read_source(source, bundle.SCREENING_LIMIT_BYTES)
        files = bundle.decode_screening(raw)
        return check_screening(files, trust, store=store, policy=policy, logs=logs, published=published)
    except VerificationError as error:
        return ScreeningResult(error.findings)
    except Exception as error:  # noqa: BLE001 - whatever breaks here must not read as success
        return ScreeningResult((internal(error),))
