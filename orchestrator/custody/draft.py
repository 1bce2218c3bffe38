"""A version of the trust root on its way: the content, the version before it, and signatures so far.

One file travels between machines. Whoever signs needs it and a root key, nothing else: it shows what
changes against the version before, whose file it carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import dsse, trust
from orchestrator.certificates.keys import KeyHolder
from orchestrator.certificates.trust_shape import DOCUMENT
from orchestrator.custody import changes
from orchestrator.custody.changes import Document
from orchestrator.custody.errors import DraftError
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import VerificationError

FORMAT: Final = "assize.trust-root-draft/1"
LIMIT_BYTES: Final = 2 << 20
_FIELDS: Final = {"draft", "payload", "previous", "signatures"}


@dataclass(frozen=True)
class Need:
    """Signatures that one root set asks for: `have` of `threshold`, from `signed`, open are `unsigned`."""

    version: int
    threshold: int
    signed: tuple[str, ...]
    unsigned: tuple[str, ...]

    @property
    def met(self) -> bool:
        """Whether there are enough."""
        return len(self.signed) >= self.threshold


@dataclass(frozen=True)
class Draft:
    """`payload` is the canonical document, `previous` the exact file before it (None for version 1)."""

    payload: bytes
    previous: bytes | None
    signatures: Mapping[str, bytes]

    @classmethod
    def of(cls, document: Document, previous: bytes | None) -> Draft:
        """An unsigned draft; raises `DraftError` for a document that no verifier would read."""
        return _checked(cls(canonical.encode(document), previous, {}))

    @property
    def document(self) -> Document:
        """The content."""
        content: Document = wire.parse(self.payload)
        return content

    @property
    def version(self) -> int:
        """The version that this will be."""
        return int(self.document["version"])

    @property
    def previous_sha256(self) -> str | None:
        """The hash of the version before it; signers compare it with the published one."""
        return None if self.previous is None else trust.sha256_of(self.previous)

    def described(self) -> list[str]:
        """What it changes."""
        before = None if self.previous is None else changes.document_of(self.previous)
        return changes.described(before, self.document)

    def root_sets(self) -> list[tuple[int, int, list[str]]]:
        """(version, threshold, key ids) of the root sets that must agree: of the one before, and its own."""
        own = self.document
        sets = [own] if self.previous is None else [changes.document_of(self.previous), own]
        return [
            (one["version"], one["root"]["threshold"], [key["keyid"] for key in one["root"]["keys"]])
            for one in sets
        ]

    def needs(self) -> list[Need]:
        """What signatures there are and which are missing, for each root set."""
        return [
            Need(
                version,
                threshold,
                tuple(key for key in keyids if key in self.signatures),
                tuple(key for key in keyids if key not in self.signatures),
            )
            for version, threshold, keyids in self.root_sets()
        ]

    @property
    def complete(self) -> bool:
        """Whether every root set has signed."""
        return all(need.met for need in self.needs())

    def signed_by(self, key: KeyHolder) -> Draft:
        """With the signature of a root key of the version before it or of its own."""
        if not any(key.keyid in keyids for _, _, keyids in self.root_sets()):
            raise DraftError(
                f"key {key.keyid} is no root key of version {self.version} or of the one before it",
                hint="name the file of a root key",
            )
        signature = key.sign(dsse.pae(dsse.TRUST_ROOT_TYPE, self.payload))
        return _checked(replace(self, signatures={**self.signatures, key.keyid: signature}))

    def merged(self, other: Draft) -> Draft:
        """With the signatures of another copy of the same draft."""
        if (self.payload, self.previous) != (other.payload, other.previous):
            raise DraftError("the two drafts differ", hint="signatures belong to the draft that was signed")
        return replace(self, signatures={**self.signatures, **other.signatures})

    def encode(self) -> bytes:
        """The file."""
        return canonical.encode(
            {
                "draft": FORMAT,
                "payload": wire.base64_encode(self.payload).decode(),
                "previous": None if self.previous is None else wire.base64_encode(self.previous).decode(),
                "signatures": {
                    keyid: wire.base64_encode(one).decode() for keyid, one in self.signatures.items()
                },
            }
        )

    def finished(self) -> bytes:
        """The trust root file; raises `DraftError` while signatures are missing.

        An envelope holds few signatures: those that count in both root sets come first.
        """
        sets = [(threshold, set(keyids)) for _, threshold, keyids in self.root_sets()]
        missing = [need for need in self.needs() if not need.met]
        if missing:
            raise DraftError(
                f"version {self.version} needs {missing[0].threshold} signatures of the root keys of version "
                f"{missing[0].version}, it has {len(missing[0].signed)}",
                hint="assize keys sign; the draft may be carried to the machines of the other root keys",
            )
        chosen: list[str] = []
        by_weight = sorted(self.signatures, key=lambda key: (-sum(key in keys for _, keys in sets), key))
        for keyid in by_weight:
            if any(len(keys & set(chosen)) < threshold and keyid in keys for threshold, keys in sets):
                chosen.append(keyid)
        if len(chosen) > dsse.MAX_SIGNATURES:
            raise DraftError(
                f"{len(chosen)} signatures are needed, a trust root holds {dsse.MAX_SIGNATURES}",
                hint="change the root keys in two steps, some of them each time",
            )
        return dsse.encode(
            self.payload, dsse.TRUST_ROOT_TYPE, [(keyid, self.signatures[keyid]) for keyid in chosen]
        )


def parse(raw: bytes) -> Draft:
    """A draft file, with every signature in it verified; raises `DraftError`."""
    if len(raw) > LIMIT_BYTES:
        raise DraftError(f"a draft of {len(raw)} bytes", hint="that is no draft of a trust root")
    try:
        data: Any = wire.parse(raw.rstrip(b"\n"))
        if not isinstance(data, dict) or data.keys() != _FIELDS or data["draft"] != FORMAT:
            raise VerificationError("form", "not a draft of a trust root")
        previous, signatures = data["previous"], data["signatures"]
        if not isinstance(signatures, dict):
            raise VerificationError("form", "signatures are an object of key id and base64")
        return _checked(
            Draft(
                _bytes(data["payload"]),
                None if previous is None else _bytes(previous),
                {keyid: _bytes(one) for keyid, one in signatures.items()},
            )
        )
    except VerificationError as error:
        raise DraftError(f"the draft cannot be read: {error.message}", hint="get a fresh copy") from None


def _bytes(text: object) -> bytes:
    if not isinstance(text, str) or not text.isascii():
        raise VerificationError("form", "base64 text was expected")
    return wire.base64_decode(text.encode())


def _checked(draft: Draft) -> Draft:
    """Only what a verifier could accept once enough have signed; raises `DraftError`."""
    try:
        document = wire.parse(draft.payload)
        DOCUMENT.check(document, [])
        _check_previous(draft, document)
        _check_signatures(draft, document)
    except VerificationError as error:
        raise DraftError(f"the draft does not hold: {error.message}", hint="make a new draft") from None
    return draft


def _check_previous(draft: Draft, document: Document) -> None:
    if draft.previous is None:
        if document["version"] != 1 or document["previous"] is not None:
            raise VerificationError("trust-root", "a later version without the one before it")
        return
    # Pinned by itself: whether it is the published one is for those who sign to compare.
    before = trust.parse(draft.previous, pin=trust.sha256_of(draft.previous))
    expected = {"version": before.version, "sha256": before.sha256}
    if document["version"] != before.version + 1 or document["previous"] != expected:
        raise VerificationError("trust-root", "it does not follow the version that it carries")
    found = changes.objections(changes.document_of(draft.previous), document)
    if found:
        raise VerificationError("trust-root", "; ".join(found))


def _check_signatures(draft: Draft, document: Document) -> None:
    sets = [document] if draft.previous is None else [changes.document_of(draft.previous), document]
    keys = {one["keyid"]: one["public"] for each in sets for one in each["root"]["keys"]}
    signed = dsse.pae(dsse.TRUST_ROOT_TYPE, draft.payload)
    for keyid, signature in draft.signatures.items():
        if keyid not in keys:
            raise VerificationError("trust-root", f"a signature by {keyid}, which is no root key")
        public = ed25519.public_key(wire.base64_decode(keys[keyid].encode()))
        if ed25519.key_id(public.public_bytes_raw()) != keyid or not ed25519.verifies(
            public, signature, signed
        ):
            raise VerificationError("trust-root", f"the signature of {keyid} does not verify")
