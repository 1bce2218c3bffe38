"""One signed statement: signature first, then form and content, on the same bytes, then its place in the log.

The only way from an envelope to its content: whoever has an `Opened` has what a trusted key signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.certificates import dsse, rules, schema
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.steps import each
from orchestrator.certificates.trust import TrustRoot
from orchestrator.verification import ed25519
from orchestrator.verification.errors import Finding, VerificationError


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


@dataclass(frozen=True, slots=True)
class Signed:
    """An envelope of which a trusted key signed `covered`, the PAE bytes; its payload has not been read."""

    payload: bytes
    covered: bytes
    keyid: str
    signature: bytes
    notes: list[Finding]


def signer_of(envelope: dsse.Envelope, signed: bytes, trust: TrustRoot) -> tuple[str, bytes, list[Finding]]:
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


def _unwrap(raw: bytes, kind: str) -> dsse.Envelope:
    limit_bytes = schema.PAYLOAD_LIMIT_BYTES[kind]
    envelope = dsse.decode(raw, dsse.STATEMENT_TYPE, limit_bytes)
    if len(envelope.payload) > limit_bytes:
        raise VerificationError("too-large", f"a payload of {len(envelope.payload)} bytes")
    return envelope


def _signed(envelope: dsse.Envelope, trust: TrustRoot) -> Signed:
    covered = envelope.signed_bytes()
    return Signed(envelope.payload, covered, *signer_of(envelope, covered, trust))


def _content(signed: Signed, kind: str, trust: TrustRoot) -> Opened:
    statement, unknown = schema.read_statement(signed.payload, kind)
    notes, keyid = signed.notes, signed.keyid
    if unknown:
        notes = [*notes, Finding("unknown-fields", "ignored: " + ", ".join(unknown[:20]))]
    predicate = statement["predicate"]
    found = rules.contradictions(statement, kind)
    found += _key_findings(trust, keyid, kind, predicate["time"]["issuedAt"])
    if predicate["issuer"] != trust.issuer:
        found.append(Finding("key-usage", f"issuer {predicate['issuer']} is not that of the trust root"))
    digest = dsse.statement_digest(signed.covered)
    return Opened(kind, digest, keyid, signed.signature, statement, (*found, *notes))


def read_signed(raw: bytes, kind: str, trust: TrustRoot) -> Opened:
    """Check envelope, signature, form and content of one statement, wherever it is logged.

    Raises `VerificationError` when there is no content to speak of; contradictions inside good content
    are findings.
    """
    return _content(_signed(_unwrap(raw, kind), trust), kind, trust)


def read_all_signed(
    raws: Sequence[bytes | VerificationError], kind: str, trust: TrustRoot
) -> list[Opened | VerificationError]:
    """What `read_signed` returns or raises for each, one step for all of them before the next."""
    envelopes = each(lambda raw: _unwrap(raw, kind), raws)
    signed = each(lambda envelope: _signed(envelope, trust), envelopes)
    return each(lambda one: _content(one, kind, trust), signed)


def placed(
    opened: Opened, proof: bytes | None, logs: LogChecks, *, aside: bool = False
) -> tuple[Opened, int | None]:
    """The statement with what its place in the log adds to its findings, and its index there."""
    index, more = logs.check(opened, proof, aside=aside)
    return (replace(opened, findings=(*opened.findings, *more)) if more else opened), index


def open_statement(
    raw: bytes, kind: str, logs: LogChecks, proof: bytes | None, *, aside: bool = False
) -> tuple[Opened, int | None]:
    """Check envelope, signature, form, content and place in the log of one statement; see `read_signed`.

    The index in the log is None where there is no log, or no place in it; `aside` as for `LogChecks.check`.
    """
    return placed(read_signed(raw, kind, logs.trust), proof, logs, aside=aside)
