"""The shape of a trust root document; fields that are not in it are refused, never ignored."""

from __future__ import annotations

from typing import Final

from orchestrator.certificates import dsse
from orchestrator.certificates.shapes import (
    BASE64_KEY,
    HEX_64,
    KEY_ID,
    UTC,
    Shape,
    integer,
    many,
    nullable,
    record,
    text,
    words,
)
from orchestrator.verification import ed25519

_PART: Final = r"[a-z0-9_:@-][a-z0-9._:@-]*"
ORIGIN: Final = rf"(?=.{{1,128}}\Z){_PART}(?:/{_PART})*"
"""The name of a log: also a relative path, so that logs can lie in folders of their names."""

_utc = text(UTC)
_origin = text(ORIGIN)
_KEY: Final[dict[str, Shape]] = {
    "keyid": text(KEY_ID),
    "alg": words(ed25519.ALGORITHM),
    "public": text(BASE64_KEY),
}
_ROOT: Final = record(
    {"threshold": integer(1, dsse.MAX_SIGNATURES), "keys": many(record(_KEY, closed=True), 16, 1)},
    closed=True,
)
_REVOKED: Final = record(
    {"fromIndex": integer(), "reason": text(r"[a-z-]{1,64}"), "announcedAt": _utc}, closed=True
)
_CERTIFICATE_KEY: Final = record(
    {
        **_KEY,
        "usages": many(text(r"[a-z-]{1,64}/v[0-9]{1,4}"), 16, 1),
        "log": nullable(_origin),
        "fromIndex": integer(),
        "untilIndex": nullable(integer()),
        "notBefore": _utc,
        "notAfter": _utc,
        "revoked": nullable(_REVOKED),
    },
    closed=True,
)
_LOG: Final = record(
    {"origin": _origin, "vkey": text(r"[!-~]{1,512}"), "finalSize": nullable(integer())}, closed=True
)
DOCUMENT: Final = record(
    {
        "version": integer(1),
        "issuer": text(r"[a-z0-9][a-z0-9._:@/+_-]{0,127}"),
        "issuedAt": _utc,
        "expiresAt": _utc,
        "previous": nullable(record({"version": integer(1), "sha256": text(HEX_64)}, closed=True)),
        "root": _ROOT,
        "certificateKeys": many(_CERTIFICATE_KEY, 64, 1),
        "logs": many(_LOG, 64),
        "witnessPolicy": nullable(text(r"[\t\n -~]{1,65536}")),
    },
    closed=True,
)
