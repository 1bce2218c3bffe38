"""Bundles, archives and trust roots that are not what they seem (rows 14, 18, 34, 45-48)."""

from __future__ import annotations

import io
import json
import zipfile

from certificate_builder import Builder
from certificate_world import (
    json_bytes,
    key,
    payload_of,
    resign,
)

from orchestrator.certificates import archive, bundle, founding
from orchestrator.verification import wire


def add_carriers(b: Builder) -> None:
    """Rows 46 and 47: what bundles bring along, and archives that are not what they seem."""
    attacker_root = _attacker_root()
    _add_try_carriers(b, attacker_root)
    _add_archives(b, attacker_root)


def _attacker_root() -> bytes:
    return founding.build(
        [key("attacker")],
        [
            founding.key_entry(
                key("attacker").public, not_before="2026-01-01T00:00:00Z", not_after="2028-01-01T00:00:00Z"
            )
        ],
        issuer="assize.example/test-lab",
        issued_at="2026-01-01T00:00:00Z",
        expires_at="2028-01-01T00:00:00Z",
    )


def _add_try_carriers(b: Builder, attacker_root: bytes) -> None:
    plain = json.loads(bundle.encode_try(b.signed.envelope, b.manifest))
    chain = [wire.base64_encode(attacker_root).decode()]
    b.add("own-trust-root-genuine", 46, "try", json_bytes({**plain, "trustRootChain": chain}), 0)
    forged = wire.base64_encode(resign(payload_of(b.signed.envelope), key("attacker"))).decode()
    b.add(
        "own-trust-root-forged",
        46,
        "try",
        json_bytes({**plain, "envelope": forged, "trustRootChain": chain}),
        1,
        "no-trusted-key",
    )
    b.add("bundle-own-keys", 46, "try", json_bytes({**plain, "keys": chain}), 2, "bundle-form")
    b.add(
        "bundle-proof-not-checkable",
        34,
        "try",
        json_bytes({**plain, "proof": "c2sp.org/tlog-proof@v1\n"}),
        4,
        "proof-unsupported",
    )
    notices = {"throughSize": 1, "envelopes": []}
    b.add(
        "bundle-notices-not-checkable",
        48,
        "try",
        json_bytes({**plain, "notices": notices}),
        4,
        "notices-unsupported",
    )
    b.add("bundle-not-json", 47, "try", b"hello", 2, "bundle-form")
    b.add("bundle-empty", 47, "try", b"", 2, "bundle-form")
    b.add(
        "bundle-other-media-type",
        47,
        "try",
        json_bytes({**plain, "mediaType": "text/plain"}),
        2,
        "bundle-form",
    )
    b.add("bundle-too-large", 47, "try", b" " * (bundle.TRY_LIMIT_BYTES + 1), 2, "too-large")
    one = b'{"keyid":"' + b"0" * 32 + b'","sig":"' + b"A" * 86 + b'=="},'
    million = b.signed.envelope[:-2] + b"," + one * 4999 + one[:-1] + b"]}"
    b.add("signatures-by-the-thousand", 47, "try", bundle.encode_try(million, b.manifest), 2, "too-large")


def _zipped(*names: str, how: int = zipfile.ZIP_STORED, data: bytes = b"{}") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as out_zip:
        for name in names:
            out_zip.writestr(zipfile.ZipInfo(name), data, how)
    return out.getvalue()


def _add_archives(b: Builder, attacker_root: bytes) -> None:
    good = b.base.pack()
    b.add("zip-not-a-zip", 47, "screening", b"PK\x03\x04 nothing", 2, "bundle-form")
    b.add("zip-cut-off", 47, "screening", good[:-40], 2, "bundle-form")
    b.add("zip-trailing-bytes", 47, "screening", good + b"x", 2, "bundle-form")
    b.add("zip-comment", 47, "screening", good[:-2] + b"\x01\x00x", 2, "bundle-form")
    b.add("zip-prefixed", 47, "screening", b"#!/bin/sh\n" + good, 2, "bundle-form")
    b.add("zip-slip", 47, "screening", _zipped("opening.json", "../../etc/passwd"), 2, "bundle-form")
    b.add("zip-absolute", 47, "screening", _zipped("/opening.json"), 2, "bundle-form")
    bomb = _zipped("opening.json", how=zipfile.ZIP_DEFLATED, data=bytes(50_000_000))
    b.add("zip-bomb", 47, "screening", bomb, 2, "too-large")
    foreign = [("opening.json", b.base.opening.envelope), ("trust-root.json", attacker_root)]
    b.add("zip-own-trust-root", 46, "screening", archive.write(foreign), 2, "bundle-form")
    b.add(
        "zip-slip-strict", 47, "screening", archive.write([foreign[0], ("tries/../x", b"")]), 2, "bundle-form"
    )
    swapped = [("summary.json", b"{}"), foreign[0]]
    b.add("zip-wrong-order", 47, "screening", archive.write(swapped), 2, "bundle-form")
    again = [foreign[0], ("tries/000001.trybundle.json", b"{}"), ("tries/000001.trybundle.json", b"{}")]
    b.add("zip-name-twice", 47, "screening", archive.write(again), 2, "bundle-form")
    b.add("zip-empty", 47, "screening", archive.write([]), 2, "bundle-form")
