"""Trust roots that must be refused, alone and as versions of a chain (rows 4, 14, 18, 45)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from certificate_builder import Builder
from certificate_world import ISSUER, key, resign, trust_root, trust_root_with

from orchestrator.certificates import dsse, founding, trust
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log.note import Kind, VerifierKey
from orchestrator.verification import ed25519, wire


def add_trust_roots(b: Builder) -> None:
    """Rows 14, 18, 45: trust roots that must be refused."""
    p = 2**255 - 19
    y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
    points = {
        "identity": 1,
        "identity-signed": 1 | 1 << 255,
        "order-2": p - 1,
        "order-4": 0,
        "order-8": y8,
        "order-8-other": p - y8,
        "non-canonical-identity": p + 1,
        "non-canonical": p + 5,
        "not-on-the-curve": 2,
    }

    def refuse(name: str, row: int, edit: Callable[[dict[str, Any]], None], *codes: str) -> None:
        b.add(name, row, "trust-root", trust_root_with(edit), 2, *(codes or ("trust-root",)))

    for name, y in points.items():
        raw = y.to_bytes(32, "little")

        def plant(document: dict[str, Any], raw: bytes = raw) -> None:
            document["certificateKeys"][0]["public"] = wire.base64_encode(raw).decode()
            document["certificateKeys"][0]["keyid"] = ed25519.key_id(raw)

        refuse(f"trust-root-key-{name}", 18, plant)

    def put(*path_and_value: Any) -> Callable[[dict[str, Any]], None]:
        *path, last, value = path_and_value

        def edit(document: dict[str, Any]) -> None:
            place: Any = document
            for part in path:
                place = place[part]
            place[last] = value

        return edit

    refuse("trust-root-threshold-0", 14, put("root", "threshold", 0))
    refuse("trust-root-threshold-not-met", 45, put("root", "threshold", 2))
    refuse("trust-root-other-algorithm", 18, put("certificateKeys", 0, "alg", "rsa"))
    refuse("trust-root-keyid-wrong", 18, put("certificateKeys", 0, "keyid", "0" * 32))
    refuse("trust-root-unknown-field", 45, put("witness", 1))
    refuse("trust-root-no-version-before", 45, put("version", 3))
    refuse("trust-root-first-names-another", 45, put("previous", {"version": 1, "sha256": "0" * 64}))
    refuse("trust-root-key-twice", 45, lambda d: d["certificateKeys"].append(d["certificateKeys"][0]))
    refuse("trust-root-certifies-itself", 4, lambda d: d["certificateKeys"][0].update(d["root"]["keys"][0]))
    raw = trust_root()
    document = dsse.decode(raw, dsse.TRUST_ROOT_TYPE, trust.LIMIT_BYTES).payload
    other = resign(document, key("attacker"), payload_type=dsse.TRUST_ROOT_TYPE)
    b.add("trust-root-by-an-attacker", 45, "trust-root", other, 2, "trust-root")
    b.add("trust-root-as-statement", 2, "trust-root", resign(document, key("root")), 2, "trust-root")
    b.add("trust-root-good", 0, "trust-root", raw, 0)


def _version(previous: TrustRoot | None, roots: str, signers: str, threshold: int = 2) -> bytes:
    """A version with the root keys that are named by letters, signed by those named by `signers`."""
    entry = founding.key_entry(
        key("cert").public, not_before="2026-01-01T00:00:00Z", not_after="2028-01-01T00:00:00Z"
    )
    return founding.build(
        [key(f"root-{name}") for name in roots],
        [entry],
        issuer=ISSUER,
        issued_at="2026-01-01T00:00:00Z",
        expires_at="2028-01-01T00:00:00Z",
        threshold=threshold,
        previous=previous,
        signers=[key(f"root-{name}") for name in signers],
    )


def add_chains(b: Builder) -> None:
    """Row 45: version n + 1 after version n."""
    first = _version(None, "abc", "ab")
    one = trust.parse(first)
    second = _version(one, "bcd", "abd")
    two = trust.follow(one, second)
    third = _version(two, "cde", "cd")
    for name, raw in (("1", first), ("2", second)):
        (b.folder / f"chain-{name}.json").write_bytes(raw)

    def chain(name: str, raw: bytes, *codes: str, after: tuple[str, ...] = ("1",), code: int = 2) -> None:
        before = [f"chain-{one}.json" for one in after]
        b.add(f"trust-chain-{name}", 45, "trust-root", raw, code if codes else 0, *codes, after=before)

    bad = "trust-root"
    chain("next", second)
    chain("two-steps", third, after=("1", "2"))
    chain("alone", second, "trust-root-version", after=(), code=4)
    chain("same-version", first, bad)
    chain("rollback", second, bad, after=("1", "2"))
    chain("rollback-to-the-first", first, bad, after=("1", "2"))
    chain("skips-a-version", third, bad)
    chain("signed-by-new-keys-only", _version(one, "de", "de"), bad)
    chain("signed-by-old-keys-only", _version(one, "de", "ab"), bad)
    chain("signed-by-too-few-old-keys", _version(one, "ad", "ad"), bad)
    chain("signed-by-too-few-new-keys", _version(one, "bcd", "ab"), bad)
    chain("threshold-lowered-by-one-old-key", _version(one, "a", "a", threshold=1), bad)
    chain("threshold-lowered-by-enough", _version(one, "a", "ab", threshold=1))
    fork = trust.parse(_version(None, "abc", "bc"))
    assert fork.sha256 != one.sha256
    chain("previous-hash-of-another", _version(fork, "abc", "ab"), bad)
    chain("by-an-attacker", _version(one, "xy", "xy"), bad)


def _with_log(edit: Callable[[dict[str, Any]], None]) -> bytes:
    return trust_root_with(edit, logged=True)


def add_log_entries(b: Builder) -> None:
    """Rows 4, 14, 45: what a trust root says of logs, positions and witnesses."""

    def refuse(name: str, row: int, edit: Callable[[dict[str, Any]], None]) -> None:
        b.add(f"trust-root-{name}", row, "trust-root", _with_log(edit), 2, "trust-root")

    def put_key(**values: Any) -> Callable[[dict[str, Any]], None]:
        return lambda document: document["certificateKeys"][0].update(values)

    def put_log(**values: Any) -> Callable[[dict[str, Any]], None]:
        return lambda document: document["logs"][0].update(values)

    def put(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
        return lambda document: document.update({name: value})

    def use_twice(document: dict[str, Any]) -> None:
        document["certificateKeys"][0].update(
            keyid=ed25519.key_id(key("log").public), public=wire.base64_encode(key("log").public).decode()
        )

    vkey = founding.log_entry("x", key("log").public)["vkey"]
    small = VerifierKey("x", Kind.ED25519, (1).to_bytes(32, "little")).vkey
    witness = VerifierKey("w", Kind.COSIGNATURE_ED25519, key("witness").public).vkey
    log_as_witness = VerifierKey("w", Kind.COSIGNATURE_ED25519, key("log").public).vkey
    b.add("trust-root-with-a-log", 0, "trust-root", _with_log(lambda document: None), 0)
    refuse("key-of-an-unlisted-log", 45, put_key(log="assize.example/log/2027"))
    refuse("key-without-a-log", 45, put_key(log=None))
    refuse("log-that-is-not-listed", 45, put("logs", []))
    refuse("log-twice", 45, lambda document: document["logs"].append(document["logs"][0]))
    refuse("positions-end-before-they-begin", 45, put_key(fromIndex=5, untilIndex=4))
    refuse("position-negative", 45, put_key(fromIndex=-1))
    refuse("log-key-is-certificate-key", 4, use_twice)
    refuse("log-key-malformed", 45, put_log(vkey="not a key"))
    refuse("log-key-id-wrong", 45, put_log(vkey=vkey.replace("+", "+0", 1)[:10] + vkey[11:]))
    refuse("log-key-small-order", 18, put_log(vkey=small))
    refuse("log-origin-climbs", 47, put_log(origin="assize.example/../log"))
    refuse("log-origin-absolute", 47, put_log(origin="/log"))
    none_needed = f"witness w {witness}\ngroup g 0 w\nquorum g\n"
    refuse("witness-policy-threshold-0", 14, put("witnessPolicy", none_needed))
    refuse("witness-policy-without-quorum", 45, put("witnessPolicy", "# nothing\n"))
    refuse("witness-is-the-log", 44, put("witnessPolicy", f"witness w {log_as_witness}\nquorum w\n"))
    unlogged = trust_root_with(put_key(fromIndex=1))
    b.add("trust-root-positions-without-a-log", 45, "trust-root", unlogged, 2, "trust-root")
    other = f"log {VerifierKey('x', Kind.ED25519, key('witness').public).vkey}\nquorum none\n"
    refuse("witness-policy-of-another-log", 45, put("witnessPolicy", other))
