"""Files with one certificate: signatures, spelling, content, evidence (rows 1-20, 25, 28-33)."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

from certificate_builder import Builder
from certificate_world import (
    NOT_STARTABLE,
    changed,
    hex_of,
    json_bytes,
    key,
    payload_of,
    resign,
    ulid,
)

from orchestrator.certificates import dsse, schema

P = "predicate"
L = 2**252 + 27742317777372353535851937790883648493


def add_genuine(b: Builder) -> None:
    b.one("genuine-pass", 0, b.signed.envelope, 0)
    b.one("genuine-pass-with-evidence", 0, b.signed.envelope, 0, store="good")
    b.add("genuine-screening", 0, "screening", b.base.pack(), 0)
    b.add("genuine-screening-with-evidence", 0, "screening", b.base.pack(), 0, store="good")
    for number, code in ((1, "failed"), (3, "failed"), (4, "platform-fault")):
        signed, _ = b.base.certificates[number]
        b.one(f"genuine-{code}-{number}", 0, signed.envelope, 3, code, manifest=signed.manifest)
    shot = b.world.screening("not-startable")
    signed = shot.run("alpha", 1, NOT_STARTABLE)
    b.one("genuine-not-evaluable", 0, signed.envelope, 3, "not-evaluable", manifest=signed.manifest)
    later = changed(b.signed.envelope, P, "minor", 1)
    later[P]["colour"] = "green"
    b.one("later-minor-field", 0, resign(later), 0, notes=["unknown-fields"])


def add_signature(b: Builder) -> None:
    """Rows 1 to 8: payloads, types, keys and signatures."""
    genuine = dsse.decode(b.signed.envelope, dsse.STATEMENT_TYPE, 1 << 20)
    keyid, signature = genuine.signatures[0]

    def with_payload(payload: bytes) -> bytes:
        return dsse.encode(payload, dsse.STATEMENT_TYPE, [(keyid, signature)])

    cheap = genuine.payload.replace(b'"wallMs":12345', b'"wallMs":1')
    b.one("payload-edited", 1, with_payload(cheap), 1, "signature")
    swapped = genuine.payload.replace(b'"outcome":"passed"', b'"outcome":"failed"')
    b.one("payload-outcome-edited", 1, with_payload(swapped), 1, "signature")
    other = dsse.encode(genuine.payload, "application/json", [(keyid, signature)])
    b.one("payload-type-changed", 2, other, 1, "payload-type")
    b.one("payload-type-resigned", 2, resign(genuine.payload, payload_type="text/plain"), 1, "payload-type")
    b.one("statement-of-another-type", 2, b.base.opening.envelope, 1, "predicate-type")
    slsa = changed(b.signed.envelope, "predicateType", "https://slsa.dev/provenance/v1")
    b.one("foreign-predicate-type", 2, resign(slsa), 1, "predicate-type")
    signed = genuine.signed_bytes()
    forged = dsse.encode(genuine.payload, dsse.STATEMENT_TYPE, [(keyid, key("attacker").sign(signed))])
    b.one("attacker-under-trusted-keyid", 3, forged, 1, "signature")
    b.one("attacker-own-keyid", 3, resign(genuine.payload, key("attacker")), 1, "no-trusted-key")
    both = resign(genuine.payload, key("attacker"), key("cert"))
    b.one("attacker-cosigns", 3, both, 0, notes=["foreign-signature"])
    b.one("log-key-as-certificate-key", 4, resign(genuine.payload, key("log")), 1, "no-trusted-key")
    b.one("root-key-as-certificate-key", 4, resign(genuine.payload, key("root")), 1, "no-trusted-key")
    b.one("key-for-another-usage", 4, b.signed.envelope, 1, "key-usage", trust="opening-only")
    b.one("key-revoked", 5, b.signed.envelope, 1, "key-revoked", trust="revoked")
    b.one("key-retired", 6, b.signed.envelope, 1, "key-window", trust="retired")
    b.edited("key-not-yet-valid", 6, "time.issuedAt", "2025-12-31T23:59:59Z", 1, "time-order", "key-window")
    b.one("trust-root-expired", 6, b.signed.envelope, 4, "trust-root-expired", trust="expired")
    b.edited("issued-before-finished", 7, "time.issuedAt", "2026-09-21T14:14:00Z", 1, "time-order")
    b.edited("finished-before-handed-off", 7, "time.finishedAt", "2026-09-21T14:13:21Z", 1, "time-order")
    high = signature[:32] + (int.from_bytes(signature[32:], "little") + L).to_bytes(32, "little")
    malleable = dsse.encode(genuine.payload, dsse.STATEMENT_TYPE, [(keyid, high)])
    b.one("signature-s-plus-l", 8, malleable, 1, "signature")
    zero_r = dsse.encode(
        genuine.payload, dsse.STATEMENT_TYPE, [(keyid, b"\x01" + bytes(31) + signature[32:])]
    )
    b.one("signature-small-order-r", 8, zero_r, 1, "signature")


def _reversed(data: dict[str, Any]) -> bytes:
    return json.dumps(dict(reversed(list(data.items()))), separators=(",", ":")).encode()


def add_spelling(b: Builder) -> None:
    """Rows 9 to 16: one spelling only, of base64, envelope and payload."""
    _add_base64(b)
    _add_envelope_and_payload(b)
    _add_numbers_and_text(b)


def _odd(data: bytes) -> bytes:
    """A payload whose base64 has unused bits set."""
    text = base64.b64encode(data)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    place = len(text.rstrip(b"=")) - 1
    return text[:place] + bytes([letters[letters.index(text[place]) + 1]]) + text[place + 1 :]


def _add_base64(b: Builder) -> None:
    raw = b.signed.envelope
    payload, sig = raw.split(b'"')[3], raw.split(b'"')[-2]
    genuine = payload_of(raw)
    padded = copy.deepcopy(genuine)
    while len(json_bytes(padded)) % 3 == 0:
        padded[P]["result"]["rule"] += "x"
    good = resign(padded)
    trailing = good.replace(base64.b64encode(json_bytes(padded)), _odd(json_bytes(padded)))
    b.one("base64-payload-trailing-bits", 9, trailing, 1, "form")
    b.one("base64-signature-trailing-bits", 9, raw.replace(sig, _odd(base64.b64decode(sig))), 1, "form")
    b.one("base64-url-safe", 10, raw.replace(sig, base64.urlsafe_b64encode(b"\xfb" * 64)), 1, "form")
    b.one("base64-unpadded", 10, raw.replace(sig, sig.rstrip(b"=")), 1, "form")
    b.one("base64-newline", 10, raw.replace(payload, payload[:60] + b"\\n" + payload[60:]), 1, "form")
    b.one("base64-raw-newline", 10, raw.replace(payload, payload[:60] + b"\n" + payload[60:]), 1, "form")
    b.one("base64-junk", 10, raw.replace(payload, payload[:60] + b"!*" + payload[60:]), 1, "form")
    b.one("base64-inner-padding", 10, raw.replace(payload, payload[:60] + b"====" + payload[60:]), 1, "form")


def _add_envelope_and_payload(b: Builder) -> None:
    raw = b.signed.envelope
    genuine = payload_of(raw)
    twice = raw.replace(b'{"payload":', b'{"payload":"e30=","payload":')
    b.one("envelope-duplicate-key", 11, twice, 1, "form")
    text = json_bytes(genuine)
    doubled = text.replace(b'"visibility":"public"', b'"visibility":"public","visibility":"public"')
    b.one("payload-duplicate-key", 12, resign(doubled), 1, "form")
    hidden = text.replace(b'"outcome":"passed"', b'"outcome":"failed","outcome":"passed"')
    b.one("payload-duplicate-outcome", 12, resign(hidden), 1, "form")
    b.one("envelope-extra-field", 13, raw[:-1] + b',"x":1}', 1, "form")
    b.one("envelope-white-space", 13, raw.replace(b'","payloadType"', b'", "payloadType"'), 1, "form")
    b.one("envelope-trailing-newline", 13, raw + b"\n", 1, "form")
    b.one("payload-white-space", 13, resign(text.replace(b'"minor":', b'"minor": ')), 1, "form")
    b.one("payload-unsorted", 13, resign(_reversed(genuine)), 1, "form")
    b.one("payload-escaped-letter", 13, resign(text.replace(b'"public"', b'"\\u0070ublic"')), 1, "form")
    one = raw[raw.index(b"[") + 1 : raw.index(b"]")]
    b.one("signature-twice", 14, raw.replace(one, one + b"," + one), 1, "form")
    b.one("signatures-empty", 14, raw.replace(one, b""), 1, "form")
    five = [key(f"k{number}") for number in range(5)]
    b.one("signatures-five", 14, resign(text, *five), 1, "form")


def _add_numbers_and_text(b: Builder) -> None:
    text = json_bytes(payload_of(b.signed.envelope))
    for name, number in (
        ("nan", b"NaN"),
        ("infinity", b"1e999"),
        ("fraction", b"1.5"),
        ("digits-5000", b"9" * 5000),
        ("beyond-2-53", b"9007199254740993"),
        ("minus-zero", b"-0"),
        ("deep", b"[" * 20000 + b"]" * 20000),
    ):
        b.one(f"number-{name}", 15, resign(text.replace(b'"wallMs":12345', b'"wallMs":' + number)), 1, "form")
    b.one(
        "payload-too-large",
        15,
        resign(text.replace(b'"wallMs":12345', b'"wallMs":' + b"[" * 60_000)),
        2,
        "too-large",
    )
    b.one("text-lone-surrogate", 16, resign(text.replace(b"3.2.1", b"\\ud800")), 1, "form")
    b.one("text-byte-order-mark", 16, resign(b"\xef\xbb\xbf" + text), 1, "form")
    b.one("text-invalid-utf8", 16, resign(text.replace(b"3.2.1", b"\xff\xfe")), 1, "form")
    b.one("text-overlong-utf8", 16, resign(text.replace(b"3.2.1", b"\xc0\xaf")), 1, "form")


def add_content(b: Builder) -> None:
    """Rows 17, 19, 20, 28, 29, 32, 33: signed content that must not pass."""
    b.edited("id-cyrillic-task", 17, "task.id", "\u0430lpha", 1, "id-charset")
    b.edited("id-cyrillic-pack", 17, "pack.id", "c\u043eding-core", 1, "id-charset")
    b.edited("id-cyrillic-agent", 17, "agent.id", "\u0430cme/helper", 1, "id-charset")
    b.edited("id-with-line-break", 17, "task.id", "alpha\n", 1, "id-charset")
    b.edited("id-upper-case-pack", 17, "pack.id", "Coding-Core", 1, "id-charset")
    for version in ("v0", "v2"):
        other = changed(b.signed.envelope, "predicateType", f"{schema.PREFIX}try-certificate/{version}")
        b.one(f"predicate-{version}", 19, resign(other), 4, "predicate-version")
    b.edited("critical-unknown", 20, "critical", ["quorum"], 4, "critical")
    b.edited("judge-malformed", 28, "judge", "gpt-5", 1, "schema")
    usage = {**payload_of(b.signed.envelope)[P]["usage"], "requests": 1, "inputTokens": 10, "costNusd": 500}
    b.edited("usage-cost-without-price-list", 29, "usage", usage, 1, "usage")
    b.edited("usage-cost-without-request", 29, "usage", {**usage, "requests": 0}, 1, "usage")
    b.edited("usage-figures-without-metering", 29, "usage", {**usage, "metered": False}, 1, "usage")
    b.edited("usage-negative-cost", 29, "usage.costNusd", -1, 1, "schema")
    b.edited("usage-boolean-cost", 29, "usage.costNusd", False, 1, "schema")
    b.edited("visibility-private", 32, "visibility", "private", 1, "visibility")
    b.edited("sandbox-simulated", 33, "sandbox.level", "simulated", 3, "simulated")
    b.edited("sandbox-unverified", 33, "sandbox.level", "unverified", 3, "unverified")
    b.edited("own-endpoint-verified", 33, "agent.connection", "own-endpoint", 1, "schema")
    b.edited("reason-of-another-outcome", 25, "result.reason", "wrong_output", 1, "result", "reward")
    b.edited("fault-class-relabelled", 25, "result.faultClass", "platform", 1, "result")
    b.edited("pass-below-the-bound", 25, "result.reward", "0.99", 1, "reward")
    b.edited("pass-without-reward", 25, "result.reward", None, 1, "reward")
    b.edited(
        "checks-more-than-there-are",
        25,
        "result",
        {**payload_of(b.signed.envelope)[P]["result"], "checksPassed": 4, "checksTotal": 3},
        1,
        "result",
    )
    b.edited("index-beyond-plan", 23, "try.index", 4, 1, "schema")
    b.edited("second-attempt-replaces-nothing", 23, "try.attempt", 2, 1, "replaces")
    b.edited(
        "two-digests-in-subject-set", 2, "pack.digest", {"sha256": hex_of("a"), "sha512": "b"}, 1, "schema"
    )
    b.edited("issuer-of-another-lab", 21, "issuer", "assize.example/other-lab", 1, "key-usage")
    two = changed(b.signed.envelope, "subject", payload_of(b.signed.envelope)["subject"] * 2)
    b.one("two-subjects", 21, resign(two), 1, "schema")
    b.one("older-pack", 27, b.signed.envelope, 3, "older-pack", current_packs={"coding-core": "2026.10"})


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def add_evidence(b: Builder) -> None:
    """Rows 21, 30, 31: evidence of another try, altered, missing, withheld without saying so."""
    other, _ = b.base.certificates[2]
    b.one("manifest-of-another-try", 21, b.signed.envelope, 1, "manifest", manifest=other.manifest)
    b.one(
        "manifest-edited",
        30,
        b.signed.envelope,
        1,
        "manifest",
        manifest=b.manifest.replace(b'"size":2', b'"size":3'),
    )
    b.one("manifest-empty", 30, b.signed.envelope, 1, "manifest", manifest=b"")
    b.one("evidence-altered", 30, b.signed.envelope, 1, "evidence", store="altered")
    b.one("evidence-missing", 31, b.signed.envelope, 4, "evidence-missing", store="missing")
    b.one("evidence-not-asked", 31, b.signed.envelope, 0)
    b.add(
        "evidence-altered-screening",
        30,
        "screening",
        b.base.pack(),
        1,
        "evidence",
        "unaccounted",
        store="altered",
    )
    b.add(
        "evidence-missing-screening", 31, "screening", b.base.pack(), 4, "evidence-missing", store="missing"
    )

    def with_manifest(edit: Callable[[dict[str, Any]], None]) -> tuple[bytes, bytes]:
        data = json.loads(b.manifest)
        edit(data)
        raw = json_bytes(data)
        statement = changed(b.signed.envelope, "subject", 0, "digest", {"sha256": _sha(raw)})
        return resign(statement), raw

    def hide_log(data: dict[str, Any]) -> None:
        entry = next(file for file in data["files"] if file["role"] == "command-log")
        entry["saltedSha256"] = entry.pop("sha256")

    def move(data: dict[str, Any]) -> None:
        data["attemptId"] = ulid("another")

    def double(data: dict[str, Any]) -> None:
        data["files"].append(data["files"][-1])

    def both(data: dict[str, Any]) -> None:
        data["files"][0]["saltedSha256"] = data["files"][0]["sha256"]

    for name, row, edit, code, exit_code in (
        ("withheld-command-log-undeclared", 31, hide_log, "withheld-undeclared", 4),
        ("manifest-moved-between-attempts", 21, move, "manifest", 1),
        ("manifest-path-twice", 30, double, "manifest", 1),
        ("manifest-file-with-two-digests", 30, both, "manifest", 1),
    ):
        envelope, raw = with_manifest(edit)
        b.one(name, row, envelope, exit_code, code, manifest=raw)
