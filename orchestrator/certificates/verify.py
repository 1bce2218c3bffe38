"""Offline verification of one certificate: signature first, then content, on the same bytes.

Needs a trust root and the file, nothing else: no database, no engine, no network, no clock. Functions
return a result whatever they are given; trust comes from the caller's trust root alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from orchestrator.certificates import bundle, dsse, rules, schema
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import EvidenceTally, TryResult, internal
from orchestrator.evidence.errors import EvidenceError, EvidenceMissingError
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification import ed25519
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A statement whose signature and form are good; `findings` may still say that it is not acceptable.

    `digest` is the hex SHA-256 of what the trusted key `keyid` signed.
    """

    kind: str
    digest: str
    keyid: str
    signature: bytes
    statement: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def predicate(self) -> dict[str, Any]:
        """The signed content."""
        content: dict[str, Any] = self.statement["predicate"]
        return content


def signer_of(
    envelope: dsse.Envelope, signed: bytes, trust: TrustRoot
) -> tuple[str, bytes, list[Finding]]:
    """The first trusted key id that signed, and its signature; all of trusted keys must be good."""
    keyid, own, notes = "", b"", []
    for name, signature in envelope.signatures:
        key = trust.keys.get(name)
        if key is None:
            notes.append(Finding("foreign-signature", f"the signature of the unknown key {name} was ignored"))
        elif not ed25519.verifies(key.public, signature, signed):
            raise VerificationError("signature", f"the signature of key {name} does not verify")
        elif not keyid:
            keyid, own = name, signature
    if not keyid:
        raise VerificationError("no-trusted-key", "no signature is by a key of the trust root")
    return keyid, own, notes


def _key_findings(trust: TrustRoot, keyid: str, kind: str, issued_at: str) -> list[Finding]:
    key, found = trust.keys[keyid], []
    if kind not in key.usages:
        found.append(Finding("key-usage", f"key {keyid} may not sign {kind}"))
    if key.revoked_from is not None and key.log is None:
        # Only a position in a log could show that a statement is older than the revocation.
        found.append(Finding("key-revoked", f"key {keyid} is revoked and the statement is not logged"))
    if not key.not_before <= issued_at < key.not_after:
        found.append(Finding("key-window", f"issued {issued_at}, outside the validity of key {keyid}"))
    return found


def open_statement(
    raw: bytes, kind: str, logs: LogChecks, proof: bytes | None
) -> tuple[Opened, int | None]:
    """Check envelope, signature, form, content and place in the log of one statement; see `read_signed`.

    The index in the log is None where there is no log, or no place in it.
    """
    opened = read_signed(raw, kind, logs.trust)
    index, more = logs.check(opened, proof)
    return (replace(opened, findings=(*opened.findings, *more)) if more else opened), index


def read_signed(raw: bytes, kind: str, trust: TrustRoot) -> Opened:
    """Check envelope, signature, form and content of one statement, wherever it is logged.

    Raises `VerificationError` when there is no content to speak of; contradictions inside good content
    are findings.
    """
    envelope = dsse.decode(raw, dsse.STATEMENT_TYPE, schema.PAYLOAD_LIMIT_BYTES[kind])
    if len(envelope.payload) > schema.PAYLOAD_LIMIT_BYTES[kind]:
        raise VerificationError("too-large", f"a payload of {len(envelope.payload)} bytes")
    signed = envelope.signed_bytes()
    keyid, signature, notes = signer_of(envelope, signed, trust)
    statement, unknown = schema.read_statement(envelope.payload, kind)
    if unknown:
        notes.append(Finding("unknown-fields", "ignored: " + ", ".join(unknown[:20])))
    predicate = statement["predicate"]
    found = rules.contradictions(statement, kind)
    found += _key_findings(trust, keyid, kind, predicate["time"]["issuedAt"])
    if predicate["issuer"] != trust.issuer:
        found.append(Finding("key-usage", f"issuer {predicate['issuer']} is not that of the trust root"))
    digest = dsse.statement_digest(signed)
    return Opened(kind, digest, keyid, signature, statement, (*found, *notes))


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
    for file in files:
        if "sha256" not in file:
            continue
        try:
            blob = store.verify(file["sha256"])
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


def check_try(
    raw: bytes,
    logs: LogChecks,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    number: int = 0,
    proof: bytes | None = None,
) -> TryResult:
    """Everything that one try bundle can be asked on its own; `proof` serves one that carries none."""
    try:
        parts = bundle.decode_try(raw)
        opened, index = open_statement(parts.envelope, schema.TRY, logs, parts.proof or proof)
    except VerificationError as error:
        return TryResult(error.findings, number=number)
    files, found = check_manifest(parts.manifest, opened)
    tally, more = check_evidence(files, store)
    found += more
    if parts.has_notices:
        found.append(Finding("notices-unsupported", "the bundle has notices that this version cannot check"))
    predicate = opened.predicate
    findings = (*opened.findings, *found, *count_findings(predicate, policy))
    return TryResult(findings, opened.digest, opened.keyid, predicate, tally, number, index)


def verify_try_bundle(
    source: bytes | Path,
    trust: TrustRoot,
    *,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    logs: LogChecks | None = None,
) -> TryResult:
    """Verify a `*.trybundle.json`, given as bytes or as a path. Never raises for bad input.

    `logs` is given by who remembers checkpoints; its trust root must be `trust`.
    """
    try:
        raw = read_source(source, bundle.TRY_LIMIT_BYTES)
        logs = logs or LogChecks(trust)
        result = with_findings(check_try(raw, logs, store=store, policy=policy), logs.conclude())
        return replace(result, log=logs.standing())
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
