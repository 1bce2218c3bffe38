"""Offline verification of one certificate: signature first, then content, on the same bytes.

Needs a trust root and the file, nothing else: no database, no engine, no network, no clock. Functions
return a result whatever they are given; trust comes from the caller's trust root alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from orchestrator.certificates import bundle, schema
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.notices import Concerned, NoticeSource, gather
from orchestrator.certificates.opened import Opened, placed, read_all_signed
from orchestrator.certificates.steps import each
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import EvidenceTally, TryResult, internal
from orchestrator.evidence.errors import EvidenceError, EvidenceMissingError, EvidenceUnreachableError
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification.errors import Finding, VerificationError

MANIFEST_LIMIT_BYTES: Final = 256 * 1024
# Hidden tests stay hidden for every task; other evidence only where the task says so.
ALWAYS_WITHHOLDABLE: Final = frozenset({"hidden-tests"})
_OUTCOME_CODE: Final = {
    "failed": "failed",
    "platform_fault": "platform-fault",
    "not_evaluable": "not-evaluable",
}


@dataclass(frozen=True)
class Policy:
    """What the asker wants beyond the signed content.

    `current_packs` maps pack id to its current version; a certificate of another version is `older-pack`.
    """

    current_packs: Mapping[str, str] | None = None


DEFAULT_POLICY: Final = Policy()


def check_manifest(raw: bytes, opened: Opened) -> tuple[list[dict[str, Any]], list[Finding]]:
    """The listed files, after comparing the manifest with its certificate."""
    sha256 = opened.statement["subject"][0]["digest"]["sha256"]
    if len(raw) > MANIFEST_LIMIT_BYTES:
        return [], [Finding("too-large", f"an evidence manifest of {len(raw)} bytes")]
    if hashlib.sha256(raw).hexdigest() != sha256:
        return [], [Finding("manifest", "the evidence manifest is not the one that was certified")]
    try:
        manifest = schema.read_manifest(raw)
    except VerificationError as error:
        return [], list(error.findings)
    slot, files = opened.predicate["try"], manifest["files"]
    found = []
    if manifest["attemptId"] != slot["attemptId"] or manifest["tryId"] != slot["id"]:
        found.append(Finding("manifest", "the evidence manifest belongs to another try"))
    names = [file["path"] for file in files]
    if names != sorted(set(names)):
        found.append(Finding("manifest", "the evidence manifest lists a path twice or out of order"))
    withheld = {file["role"] for file in files if "saltedSha256" in file}
    if withheld - ALWAYS_WITHHOLDABLE and not opened.predicate["task"]["answerKeyWithheld"]:
        found.append(Finding("withheld-undeclared", "evidence is withheld though the task withholds none"))
    return files, found


def check_evidence(
    files: list[dict[str, Any]], store: EvidenceStore | None
) -> tuple[EvidenceTally, list[Finding]]:
    """Hash every listed file that is not withheld; without a store nothing is asked."""
    withheld = sum("saltedSha256" in file for file in files)
    if store is None:
        return EvidenceTally(len(files), withheld), []
    checked = missing = 0
    found = []
    named = [file for file in files if "sha256" in file]
    for number, file in enumerate(named):
        try:
            blob = store.verify(file["sha256"])
        except EvidenceUnreachableError as error:
            # Whoever cannot look has found nothing wrong; and one wait is enough.
            missing += len(named) - number
            found.append(Finding("evidence-missing", f"{file['path']} and what follows: {error.message}"))
            break
        except EvidenceMissingError:
            missing += 1
            found.append(Finding("evidence-missing", f"{file['path']} is not in the evidence store"))
            continue
        except EvidenceError:
            found.append(Finding("evidence", f"{file['path']} is not what was certified"))
            continue
        checked += 1
        if blob.size != file["size"]:
            found.append(Finding("evidence", f"{file['path']} has another size than was certified"))
    return EvidenceTally(len(files), withheld, checked, missing), found


def count_findings(predicate: dict[str, Any], policy: Policy) -> list[Finding]:
    """Why a certificate does not count as a pass."""
    found = []
    level, outcome = predicate["sandbox"]["level"], predicate["result"]["outcome"]
    if level != "verified":
        found.append(Finding(level, f"the sandbox level is {level}"))
    if outcome != "passed":
        found.append(Finding(_OUTCOME_CODE[outcome], f"{outcome}: {predicate['result']['reason']}"))
    current = (policy.current_packs or {}).get(predicate["pack"]["id"])
    if current is not None and current != predicate["pack"]["version"]:
        found.append(Finding("older-pack", f"the current version of the pack is {current}"))
    return found


def check_tries(
    raws: Sequence[bytes],
    logs: LogChecks,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    numbers: Sequence[int] | None = None,
    proofs: Sequence[bytes | None] | None = None,
    published: NoticeSource | None = None,
) -> list[TryResult]:
    """Everything that each of some try bundles can be asked on its own; `proofs` serve those that carry none.

    Notices are asked for when a bundle lists some, or when `published` gives them.
    """
    parts = each(bundle.decode_try, raws)
    own = [None if isinstance(one, VerificationError) else one.proof for one in parts]
    proofs = own if proofs is None else [mine or given for mine, given in zip(own, proofs, strict=True)]
    opened = read_all_signed(each(lambda one: one.envelope, parts), schema.TRY, logs.trust)
    numbers = numbers or [0] * len(raws)

    def concluded(one: Opened, part: bundle.TryBundle, proof: bytes | None, number: int) -> TryResult:
        return _try_result(number, part, *placed(one, proof, logs), logs, store, policy, published)

    return [
        TryResult(one.findings, number=number) if isinstance(one, VerificationError) else one
        for number, one in zip(numbers, each(concluded, opened, parts, proofs, numbers), strict=True)
    ]


def _try_result(
    number: int,
    parts: bundle.TryBundle,
    opened: Opened,
    index: int | None,
    logs: LogChecks,
    store: EvidenceStore | None,
    policy: Policy,
    published: NoticeSource | None,
) -> TryResult:
    files, found = check_manifest(parts.manifest, opened)
    tally, more = check_evidence(files, store)
    found += more
    predicate = opened.predicate
    noticed = None
    if parts.notices is not None or published is not None:
        noticed, more = gather(parts.notices, _concerned(opened, index, logs), logs, published)
        found += [*more, *(one.finding() for one in noticed.notices)]
    findings = (*opened.findings, *found, *count_findings(predicate, policy))
    return TryResult(findings, opened.digest, opened.keyid, predicate, tally, number, index, noticed=noticed)


def _concerned(opened: Opened, index: int | None, logs: LogChecks) -> Concerned:
    """What notices about one certificate are about: itself, its screening, its key."""
    opening = opened.predicate["screening"]["openingDigest"]["sha256"]
    return Concerned(
        logs.trust.keys[opened.keyid].log,
        {opened.digest: index},
        {opening: None},
        frozenset({opened.keyid}),
        index,
    )


def verify_try_bundle(
    source: bytes | Path,
    trust: TrustRoot,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    logs: LogChecks | None = None,
    published: NoticeSource | None = None,
) -> TryResult:
    """Verify a `*.trybundle.json`, given as bytes or as a path. Never raises for bad input.

    `logs` is given by who remembers checkpoints; its trust root must be `trust`. Later versions in the
    bundle are followed: `logs.trust` is then the one that was verified with. `published` are the notices of
    a log that is here, beside those that the bundle lists.
    """
    try:
        raw = read_source(source, bundle.TRY_LIMIT_BYTES)
        logs = logs or LogChecks(trust)
        logs.follow(bundle.chain_of_try(raw))
        (result,) = check_tries([raw], logs, store=store, policy=policy, published=published)
        return replace(with_findings(result, logs.conclude()), log=logs.standing())
    except VerificationError as error:
        return TryResult(error.findings)
    except Exception as error:  # noqa: BLE001 - whatever breaks here must not read as success
        return TryResult((internal(error),))


def read_source(source: bytes | Path, limit_bytes: int) -> bytes:
    """The bytes of a file, never more than the limit; raises `unreadable` or `too-large`."""
    if isinstance(source, bytes):
        return source
    try:
        with source.open("rb") as file:
            raw = file.read(limit_bytes + 1)
    except OSError as error:
        raise VerificationError("unreadable", f"{source.name} cannot be read: {error.strerror}") from None
    if len(raw) > limit_bytes:
        raise VerificationError("too-large", f"{source.name} is larger than {limit_bytes} bytes")
    return raw


def with_findings(result: TryResult, more: list[Finding]) -> TryResult:
    """The same result with further findings."""
    return replace(result, findings=(*result.findings, *more)) if more else result
