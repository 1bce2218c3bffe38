"""Files that carry certificates: `*.trybundle.json` and the screening bundle (certificates.md 3.4).

A bundle is only a carrier: nothing in it is trusted, and a trust root or keys inside it are ignored.
`proof` is the text of a `c2sp.org/tlog-proof@v1`, null where certificates are not logged. A screening
bundle holds one checkpoint and the proofs of its members without it: a member's proof is its `.proof` with
`log/checkpoint` behind it; that of a member in an earlier shard of the log ends with its own checkpoint.
`trustRootChain` (in a screening: the files below `trust-root/`) holds the versions of the trust root after
the first, oldest first: a verifier follows them from the version it trusts as far as their signatures lead,
and ignores the rest.

`notices` is null where nobody looked for any, else `{"throughSize", "envelopes"}`: all notices about this
in the log up to that size, each `{"envelope", "proof"}` with a whole log proof. A screening bundle has them
once, in `notices.json` before the trust roots, and null in its try bundles.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import archive
from orchestrator.certificates.shapes import integer, many, nullable, record, text
from orchestrator.log.proof import TlogProof
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

TRY_MEDIA_TYPE: Final = "application/vnd.assize.try-bundle.v1+json"
TRY_SUFFIX: Final = ".trybundle.json"
TRY_LIMIT_BYTES: Final = 1 << 20
SCREENING_LIMIT_BYTES: Final = 512 << 20
ENTRY_LIMIT_BYTES: Final = 8 << 20
OPENING_NAME: Final = "opening.json"
SUMMARY_NAME: Final = "summary.json"
NOTICES_NAME: Final = "notices.json"
MAX_NOTICES: Final = 4096
_FIELDS: Final = {"mediaType", "envelope", "proof", "manifest", "notices", "trustRootChain"}
CHECKPOINT_NAME: Final = "log/checkpoint"
_TRY_NAME: Final = re.compile(r"tries/([0-9]{6})\.trybundle\.json")
_ROOT_NAME: Final = re.compile(r"trust-root/([0-9]{6})\.json")
_NO_CHAIN: Final = b'"trustRootChain":[]}'
CHAIN_LIMIT: Final = 64
_PROOF_NAME: Final = re.compile(r"log/([a-z]+|[0-9]{6})\.proof")
# The bundle inside a screening, recognised without a JSON parser; others take the slow path below.
_PLAIN: Final = (
    b'{"envelope":"',
    b'","manifest":"',
    b'","mediaType":"%b","notices":null,"proof":null,"trustRootChain":[]}' % TRY_MEDIA_TYPE.encode(),
)


@dataclass(frozen=True, slots=True)
class ListedNotice:
    """One notice of a list as bytes; nothing in it is trusted yet."""

    envelope: bytes
    proof: bytes | None


@dataclass(frozen=True, slots=True)
class NoticeList:
    """All notices up to a size of the log, as a bundle says."""

    through_size: int
    items: tuple[ListedNotice, ...] = ()


@dataclass(frozen=True, slots=True)
class TryBundle:
    """The parts of a try bundle as bytes."""

    envelope: bytes
    manifest: bytes
    proof: bytes | None = None
    notices: NoticeList | None = None
    chain: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class ScreeningProofs:
    """One checkpoint, and the proofs of members against it, each without the checkpoint.

    A proof that does not end where a checkpoint begins (an empty line) carries one of another log.

    The names are `opening`, `summary` and the six digits of a try's number.
    """

    checkpoint: bytes
    members: Mapping[str, bytes]

    def of(self, name: str) -> bytes | None:
        """The whole proof of a member, None when there is none."""
        path = self.members.get(name)
        return path + self.checkpoint if path is not None and path.endswith(b"\n\n") else path

    @classmethod
    def joined(cls, names: Sequence[str], proofs: Sequence[TlogProof]) -> ScreeningProofs:
        """From the proofs of members in their order; what the last ones are proven against is shared."""
        shared = proofs[-1].checkpoint
        return cls(
            shared,
            {
                name: one.without_checkpoint() if one.checkpoint == shared else one.encode()
                for name, one in zip(names, proofs, strict=True)
            },
        )


@dataclass(frozen=True)
class ScreeningFiles:
    """The files of one screening; `tries` are (number, bytes), the number counts from 1."""

    opening: bytes
    tries: tuple[tuple[int, bytes], ...]
    summary: bytes | None
    proofs: ScreeningProofs | None = None
    notices: NoticeList | None = None
    chain: tuple[bytes, ...] = ()

    def proof_of(self, member: str | int) -> bytes | None:
        """The log proof of `opening`, `summary` or the try of that number."""
        name = member if isinstance(member, str) else f"{member:06d}"
        return None if self.proofs is None else self.proofs.of(name)


def encode_try(
    envelope: bytes,
    manifest: bytes,
    proof: bytes | None = None,
    notices: NoticeList | None = None,
    chain: Sequence[bytes] = (),
) -> bytes:
    """The bytes of a try bundle; `proof` is the exact text of a log proof, `chain` the later trust roots."""
    return (
        b'{"envelope":"%b","manifest":"%b","mediaType":"%b","notices":%b,"proof":%b,"trustRootChain":[%b]}'
        % (
            wire.base64_encode(envelope),
            wire.base64_encode(manifest),
            TRY_MEDIA_TYPE.encode(),
            b"null" if notices is None else encode_notices(notices),
            b"null" if proof is None else canonical.encode(proof.decode()),
            b",".join(b'"%b"' % wire.base64_encode(raw) for raw in chain),
        )
    )


def encode_notices(notices: NoticeList) -> bytes:
    """The canonical JSON of a list of notices."""
    items = [
        {
            "envelope": wire.base64_encode(one.envelope).decode(),
            "proof": None if one.proof is None else one.proof.decode(),
        }
        for one in notices.items
    ]
    return canonical.encode({"throughSize": notices.through_size, "envelopes": items})


_NOTICES: Final = record(
    {
        "throughSize": integer(),
        "envelopes": many(
            record(
                {"envelope": text(r"[A-Za-z0-9+/=]*"), "proof": nullable(text(r"[\n\x20-\x7e\u2014]*"))},
                closed=True,
            ),
            MAX_NOTICES,
        ),
    },
    closed=True,
)


def _notices(data: Any) -> NoticeList:
    try:
        _NOTICES.check(data, [])
    except VerificationError as error:
        raise VerificationError("bundle-form", f"notices {error.findings[0].detail}") from None
    items = [
        ListedNotice(
            _decoded(one["envelope"].encode()), None if one["proof"] is None else one["proof"].encode()
        )
        for one in data["envelopes"]
    ]
    return NoticeList(data["throughSize"], tuple(items))


def decode_try(raw: bytes) -> TryBundle:
    """The parts of a try bundle; raises `VerificationError` (`too-large`, `bundle-form`)."""
    if len(raw) > TRY_LIMIT_BYTES:
        raise VerificationError("too-large", f"a try bundle of {len(raw)} bytes")
    plain = _plain_parts(raw)
    if plain is not None:
        return TryBundle(_decoded(plain[0]), _decoded(plain[1]))
    data: Any = wire.parse(raw, "bundle-form")
    if not isinstance(data, dict) or data.keys() != _FIELDS or data["mediaType"] != TRY_MEDIA_TYPE:
        raise VerificationError("bundle-form", "not a try bundle")
    parts = [data["envelope"], data["manifest"]]
    if not all(isinstance(part, str) and part.isascii() for part in parts):
        raise VerificationError("bundle-form", "envelope and manifest of a try bundle are base64 text")
    envelope, manifest = (_decoded(part.encode()) for part in parts)
    proof = data["proof"]
    if proof is not None and not isinstance(proof, str):
        raise VerificationError("bundle-form", "the log proof of a try bundle is text")
    return TryBundle(
        envelope,
        manifest,
        None if proof is None else proof.encode(),
        None if data["notices"] is None else _notices(data["notices"]),
        _chain(data["trustRootChain"]),
    )


def chain_of_try(raw: bytes) -> tuple[bytes, ...]:
    """The later trust roots in a try bundle; nothing for bytes that are none, which is found out later."""
    if raw.endswith(_NO_CHAIN):
        return ()
    try:
        return decode_try(raw).chain
    except VerificationError:
        return ()


def _chain(items: object) -> tuple[bytes, ...]:
    """The files that a chain spells; what is no base64 could not be followed, and is ignored like it."""
    found = []
    for item in items[:CHAIN_LIMIT] if isinstance(items, list) else ():
        if isinstance(item, str) and item.isascii():
            with suppress(VerificationError):
                found.append(wire.base64_decode(item.encode()))
    return tuple(found)


def _plain_parts(raw: bytes) -> tuple[bytes, bytes] | None:
    """Envelope and manifest of the usual bundle, still in base64; each ends at its first quote."""
    head, middle, tail = _PLAIN
    first = raw.find(b'"', len(head))
    second = raw.find(b'"', first + len(middle))
    if raw.startswith(head) and first > 0 and raw.startswith(middle, first) and raw[second:] == tail:
        return raw[len(head) : first], raw[first + len(middle) : second]
    return None


def _decoded(text: bytes) -> bytes:
    return wire.base64_decode(text, "bundle-form")


def encode_screening(
    opening: bytes,
    tries: Sequence[bytes],
    summary: bytes | None,
    proofs: ScreeningProofs | None = None,
    notices: NoticeList | None = None,
    chain: Sequence[bytes] = (),
) -> bytes:
    """The bytes of a screening bundle; `tries` are try bundles in the order of the summary."""
    entries = [(OPENING_NAME, opening)]
    entries += [(f"tries/{number:06d}{TRY_SUFFIX}", raw) for number, raw in enumerate(tries, 1)]
    if summary is not None:
        entries.append((SUMMARY_NAME, summary))
    if proofs is not None:
        numbers = range(1, len(tries) + 1)
        entries.append((CHECKPOINT_NAME, proofs.checkpoint))
        entries += [
            (f"log/{name}.proof", proofs.members[name])
            for name in _member_names(numbers, summary is not None)
            if name in proofs.members
        ]
    if notices is not None:
        entries.append((NOTICES_NAME, encode_notices(notices)))
    entries += [(f"trust-root/{number:06d}.json", raw) for number, raw in enumerate(chain, 2)]
    return archive.write(entries)


def _member_names(numbers: Iterable[int], closed: bool) -> list[str]:
    return ["opening", *(f"{number:06d}" for number in numbers), *(["summary"] if closed else [])]


def decode_screening(raw: bytes) -> ScreeningFiles:
    """The files of a screening bundle: opening, ascending tries, summary, log, notices, trust roots."""
    if len(raw) > SCREENING_LIMIT_BYTES:
        raise VerificationError("too-large", f"a screening bundle of {len(raw)} bytes")
    entries = archive.read(raw, entry_limit_bytes=ENTRY_LIMIT_BYTES)
    if not entries or entries[0][0] != OPENING_NAME:
        raise VerificationError("bundle-form", "a screening bundle begins with its opening")
    entries, chain = _without_chain(entries)
    notices = None
    if entries[-1][0] == NOTICES_NAME:
        notices = _notices(wire.parse(entries.pop()[1], "bundle-form"))
    names = [name for name, _ in entries]
    end = names.index(CHECKPOINT_NAME) if CHECKPOINT_NAME in names else len(entries)
    summary = entries[end - 1][1] if names[end - 1] == SUMMARY_NAME else None
    tries = _tries(entries[1:end] if summary is None else entries[1 : end - 1])
    members = _member_names((number for number, _ in tries), summary is not None)
    proofs = _proofs(entries[end:], members) if end < len(entries) else None
    return ScreeningFiles(entries[0][1], tries, summary, proofs, notices, chain)


def _without_chain(entries: list[tuple[str, bytes]]) -> tuple[list[tuple[str, bytes]], tuple[bytes, ...]]:
    """The entries before the trust roots at the end, and those, which are numbered from 2 on."""
    end = len(entries)
    while end > 1 and _ROOT_NAME.fullmatch(entries[end - 1][0]):
        end -= 1
    if [name for name, _ in entries[end:]] != [
        f"trust-root/{number:06d}.json" for number in range(2, len(entries) - end + 2)
    ]:
        raise VerificationError("bundle-form", "the trust roots are not numbered in ascending order from 2")
    return entries[:end], tuple(raw for _, raw in entries[end:][:CHAIN_LIMIT])


def _tries(entries: Sequence[tuple[str, bytes]]) -> tuple[tuple[int, bytes], ...]:
    tries: list[tuple[int, bytes]] = []
    for name, data in entries:
        match = _TRY_NAME.fullmatch(name)
        if match is None:
            raise VerificationError("bundle-form", f"{name!r} has no place in a screening bundle")
        tries.append((int(match[1]), data))
    numbers = [number for number, _ in tries]
    if numbers != sorted(set(numbers)) or 0 in numbers:
        raise VerificationError("bundle-form", "the tries are not numbered in ascending order from 1")
    return tuple(tries)


def _proofs(entries: Sequence[tuple[str, bytes]], members: list[str]) -> ScreeningProofs:
    """The checkpoint, and proofs of members in their order; a member may lack one, which is found later."""
    if [name for name, _ in entries[1:]] == [f"log/{name}.proof" for name in members]:
        paths = [data for _, data in entries[1:]]
        return ScreeningProofs(entries[0][1], dict(zip(members, paths, strict=True)))
    found: dict[str, bytes] = {}
    for name, data in entries[1:]:
        match = _PROOF_NAME.fullmatch(name)
        if match is None or match[1] in found:
            raise VerificationError("bundle-form", f"{name!r} has no place in a screening bundle")
        found[match[1]] = data
    if list(found) != [name for name in members if name in found]:
        raise VerificationError("bundle-form", "the log proofs are not those of members, in their order")
    return ScreeningProofs(entries[0][1], found)


def is_screening(raw: bytes) -> bool:
    """Whether the bytes start as a zip does (the CLI asks this, not the file name)."""
    return raw[:4] == b"PK\x03\x04"
