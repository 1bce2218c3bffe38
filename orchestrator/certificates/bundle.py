"""Files that carry certificates: `*.trybundle.json` and the screening bundle (certificates.md 3.4).

A bundle is only a carrier: nothing in it is trusted, and a trust root or keys inside it are ignored.
`proof` and `notices` are null until certificates are logged; a bundle that has them needs a verifier
that can check them, so it is UNDECIDED here, never silently accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.certificates import archive
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

TRY_MEDIA_TYPE: Final = "application/vnd.assize.try-bundle.v1+json"
TRY_SUFFIX: Final = ".trybundle.json"
TRY_LIMIT_BYTES: Final = 1 << 20
SCREENING_LIMIT_BYTES: Final = 512 << 20
ENTRY_LIMIT_BYTES: Final = 8 << 20
OPENING_NAME: Final = "opening.json"
SUMMARY_NAME: Final = "summary.json"
_FIELDS: Final = {"mediaType", "envelope", "proof", "manifest", "notices", "trustRootChain"}
_TRY_NAME: Final = re.compile(r"tries/([0-9]{6})\.trybundle\.json")
# The usual bundle, recognised without a JSON parser; anything else takes the slow path below.
_PLAIN: Final = re.compile(
    rb'\{"envelope":"([^"]*)","manifest":"([^"]*)","mediaType":"'
    + re.escape(TRY_MEDIA_TYPE.encode())
    + rb'","notices":null,"proof":null,"trustRootChain":\[\]\}'
)


@dataclass(frozen=True, slots=True)
class TryBundle:
    """The parts of a try bundle as bytes; `has_proof` and `has_notices` tell what was not looked at."""

    envelope: bytes
    manifest: bytes
    has_proof: bool = False
    has_notices: bool = False


@dataclass(frozen=True)
class ScreeningFiles:
    """The files of one screening; `tries` are (number, bytes), the number counts from 1."""

    opening: bytes
    tries: tuple[tuple[int, bytes], ...]
    summary: bytes | None


def encode_try(envelope: bytes, manifest: bytes) -> bytes:
    """The bytes of a try bundle."""
    return (
        b'{"envelope":"%b","manifest":"%b","mediaType":"%b","notices":null,"proof":null,"trustRootChain":[]}'
        % (
            wire.base64_encode(envelope),
            wire.base64_encode(manifest),
            TRY_MEDIA_TYPE.encode(),
        )
    )


def decode_try(raw: bytes) -> TryBundle:
    """The parts of a try bundle; raises `VerificationError` (`too-large`, `bundle-form`)."""
    if len(raw) > TRY_LIMIT_BYTES:
        raise VerificationError("too-large", f"a try bundle of {len(raw)} bytes")
    plain = _PLAIN.fullmatch(raw)
    if plain is not None:
        return TryBundle(_decoded(plain[1]), _decoded(plain[2]))
    data: Any = wire.parse(raw, "bundle-form")
    if not isinstance(data, dict) or data.keys() != _FIELDS or data["mediaType"] != TRY_MEDIA_TYPE:
        raise VerificationError("bundle-form", "not a try bundle")
    parts = [data["envelope"], data["manifest"]]
    if not all(isinstance(part, str) and part.isascii() for part in parts):
        raise VerificationError("bundle-form", "envelope and manifest of a try bundle are base64 text")
    envelope, manifest = (_decoded(part.encode()) for part in parts)
    return TryBundle(envelope, manifest, data["proof"] is not None, data["notices"] is not None)


def _decoded(text: bytes) -> bytes:
    return wire.base64_decode(text, "bundle-form")


def encode_screening(opening: bytes, tries: Sequence[bytes], summary: bytes | None) -> bytes:
    """The bytes of a screening bundle; `tries` are try bundles in the order of the summary."""
    entries = [(OPENING_NAME, opening)]
    entries += [(f"tries/{number:06d}{TRY_SUFFIX}", raw) for number, raw in enumerate(tries, 1)]
    if summary is not None:
        entries.append((SUMMARY_NAME, summary))
    return archive.write(entries)


def decode_screening(raw: bytes) -> ScreeningFiles:
    """The files of a screening bundle: opening, tries in ascending order, summary, and nothing else."""
    if len(raw) > SCREENING_LIMIT_BYTES:
        raise VerificationError("too-large", f"a screening bundle of {len(raw)} bytes")
    entries = archive.read(raw, entry_limit_bytes=ENTRY_LIMIT_BYTES)
    if not entries or entries[0][0] != OPENING_NAME:
        raise VerificationError("bundle-form", "a screening bundle begins with its opening")
    summary = entries[-1][1] if entries[-1][0] == SUMMARY_NAME else None
    middle = entries[1:] if summary is None else entries[1:-1]
    tries: list[tuple[int, bytes]] = []
    for name, data in middle:
        match = _TRY_NAME.fullmatch(name)
        if match is None:
            raise VerificationError("bundle-form", f"{name!r} has no place in a screening bundle")
        tries.append((int(match[1]), data))
    numbers = [number for number, _ in tries]
    if numbers != sorted(set(numbers)) or 0 in numbers:
        raise VerificationError("bundle-form", "the tries are not numbered in ascending order from 1")
    return ScreeningFiles(entries[0][1], tuple(tries), summary)


def is_screening(raw: bytes) -> bool:
    """Whether the bytes start as a zip does (the CLI asks this, not the file name)."""
    return raw[:4] == b"PK\x03\x04"
