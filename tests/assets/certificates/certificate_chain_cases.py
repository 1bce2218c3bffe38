"""Rows 45 and 46: later trust roots inside a bundle, which a verifier may follow and never has to believe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certificate_builder import Builder
from certificate_world import ISSUER, json_bytes, key, payload_of, resign

from orchestrator.certificates import archive, bundle, founding, trust
from orchestrator.certificates.trust import TrustRoot
from orchestrator.verification import wire

YEARS = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
NEXT = "cert-next"


def _entry(name: str, **changes: Any) -> dict[str, Any]:
    return founding.key_entry(key(name).public, **{**YEARS, **changes})


def _version(previous: TrustRoot, keys: Sequence[dict[str, Any]], *, signer: str = "root") -> bytes:
    return founding.build(
        [key("root")],
        keys,
        issuer=ISSUER,
        issued_at="2026-01-01T00:00:00Z",
        expires_at="2028-01-01T00:00:00Z",
        previous=previous,
        signers=[key(signer)],
    )


def add_bundle_chains(b: Builder) -> None:
    """Certificates by a key that only version 2 or 3 lists, verified with version 1."""
    first = trust.parse(b.world.trust_bytes)
    both = [_entry("cert"), _entry(NEXT)]
    second = _version(first, both)
    third = _version(trust.follow(first, second), [_entry("cert"), _entry("cert-third")])
    by_attacker = _version(first, [*both, _entry("attacker")], signer="attacker")
    revoked = {"fromIndex": 0, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}
    revoking = _version(first, [_entry("cert", revoked=revoked), _entry(NEXT)])
    statement = payload_of(b.signed.envelope)
    by = {name: resign(statement, key(name)) for name in ("cert", NEXT, "cert-third", "attacker")}

    def add(
        name: str, signer: str, chain: Sequence[bytes | str], code: int, *codes: str, row: int = 45
    ) -> None:
        texts = [one if isinstance(one, str) else wire.base64_encode(one).decode() for one in chain]
        parts = bundle.decode_try(bundle.encode_try(by[signer], b.manifest))
        data = {
            "envelope": wire.base64_encode(parts.envelope).decode(),
            "manifest": wire.base64_encode(parts.manifest).decode(),
            "mediaType": bundle.TRY_MEDIA_TYPE,
            "notices": None,
            "proof": None,
            "trustRootChain": texts,
        }
        b.add(f"bundle-chain-{name}", row, "try", json_bytes(data), code, *codes)

    add("next-version", NEXT, [second], 0)
    add("two-versions", "cert-third", [second, third], 0)
    add("repeats-what-is-known", NEXT, [b.world.trust_bytes, second, second], 0)
    add("missing", NEXT, [], 1, "no-trusted-key")
    add("skips-a-version", "cert-third", [third], 1, "no-trusted-key")
    add("wrong-order", "cert-third", [third, second], 1, "no-trusted-key")
    add("by-an-attacker", "attacker", [by_attacker], 1, "no-trusted-key")
    add("by-an-attacker-after-a-good-one", "attacker", [second, by_attacker], 1, "no-trusted-key")
    add("cut", NEXT, [second[:-9]], 1, "no-trusted-key")
    add("drops-the-key", "cert", [_version(first, [_entry(NEXT)])], 1, "no-trusted-key")
    add("revokes-the-key", "cert", [revoking], 1, "key-revoked")
    add("junk-beside-a-genuine-certificate", "cert", ["?", second[:50], b""], 0, row=46)
    add("attacker-beside-a-genuine-certificate", "cert", [by_attacker], 0, row=46)
    _add_screenings(b, second, by_attacker)


def _add_screenings(b: Builder, second: bytes, by_attacker: bytes) -> None:
    entries = archive.read(b.base.pack(), entry_limit_bytes=bundle.ENTRY_LIMIT_BYTES)

    def add(name: str, *more: tuple[str, bytes], code: int = 0, codes: Sequence[str] = ()) -> None:
        b.add(f"zip-chain-{name}", 46, "screening", archive.write([*entries, *more]), code, *codes)

    bad: dict[str, Any] = {"code": 2, "codes": ("bundle-form",)}
    add("good", ("trust-root/000002.json", second))
    add("by-an-attacker", ("trust-root/000002.json", by_attacker))
    add("begins-with-1", ("trust-root/000001.json", b.world.trust_bytes), **bad)
    add("with-a-gap", ("trust-root/000003.json", second), **bad)
    add("twice", ("trust-root/000002.json", second), ("trust-root/000002.json", second), **bad)
    add("elsewhere", ("trust-root/x/000002.json", second), **bad)
