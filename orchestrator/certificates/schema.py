"""The four predicates as strict tables (certificates.md 3.2), used when signing and when verifying.

`shape` stops at the first misfit; `orchestrator.certificates.rules` then finds every contradiction inside
a statement that fits.
"""

from __future__ import annotations

import json
from typing import Any, Final

from orchestrator.certificates.shapes import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DIGEST,
    HEX_64,
    ID,
    JUDGE,
    KEY_ID,
    NAME,
    ULID,
    UTC,
    Recogniser,
    Shape,
    either,
    integer,
    many,
    nullable,
    record,
    text,
    words,
)
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError
from scoring.vocabulary import Outcome, Phase, Reason

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREFIX: Final = "https://assize.example/attestation/"
OPENING: Final = "screening-opening/v1"
TRY: Final = "try-certificate/v1"
SUMMARY: Final = "screening-summary/v1"
NOTICE: Final = "notice/v1"
MINOR: Final = 0
MAX_TASKS: Final = 10_000
MAX_TRIES: Final = 100

PAYLOAD_LIMIT_BYTES: Final = {OPENING: 4 << 20, TRY: 48 * 1024, SUMMARY: 4 << 20, NOTICE: 8 * 1024}
"""Largest payload per statement type, checked before anything is parsed."""

LEVELS: Final = ("verified", "unverified", "simulated")
NOTICE_KINDS: Final = ("correction", "supersession", "contamination", "key-event")
KEY_EVENTS: Final = ("added", "rotated", "retired", "revoked", "compromised", "destroyed")
TRY_SUBJECT, SCREENING_SUBJECT, KEY_SUBJECT = "try-certificate.json", "opening.json", "public-key"
"""What a notice may be about: a certificate, a whole screening by its opening, or a key."""

_UNESCAPED: Final = r"[ !#-\[\]-~]"
_reward_key = text(r"[\x20-\x7e]{1,128}", unescaped=_UNESCAPED + "{1,128}")
_path = text(r"[^\x00-\x1f\x7f]{1,512}", unescaped=_UNESCAPED + "{1,512}")
_address = text(r"https?://[!-~]{1,500}", unescaped=r"https?://[!#-\[\]-~]{1,500}")
_id = text(ID, "id-charset")
_name = text(NAME, "id-charset")
_task = text(NAME, "id-charset")
_ulid = text(ULID, "id-charset")
_utc = text(UTC)
_nusd = nullable(integer())
_outcome = words(*(outcome.value for outcome in Outcome))
_reason = words(*(reason.value for reason in Reason))
_phase = words(*(phase.value for phase in Phase))
_level = words(*LEVELS)
_public = words("public", reason="visibility")

# `shape` answers a filled list of critical fields before the table is asked.
_HEAD: Final[dict[str, Shape]] = {"minor": integer(), "critical": many(text(NAME), 0)}
_PARTIES: Final[dict[str, Shape]] = {
    "id": _ulid,
    "requestedBy": _id,
    "fundedBy": _id,
    "operatedBy": _id,
}
_agent = record(
    {
        "id": _id,
        "version": _name,
        "digest": DIGEST,
        "connection": words("none", "relay", "own-endpoint"),
        "models": many(
            record({"role": _id, "id": _name, "snapshot": nullable(_name)}, optional={"provider": _name}), 16
        ),
    }
)
_grader = record(
    {
        "id": _id,
        "digest": DIGEST,
        "rewardKey": _reward_key,
        "passAtLeast": text(DECIMAL),
    }
)
_simulator = nullable(record({"id": _name, "snapshot": nullable(_name), "paidBy": _id}))
_conditions = record(
    {
        "networkPolicy": record({"id": _id, "digest": DIGEST}),
        "stepLimit": nullable(integer(1)),
        "costCapNusd": _nusd,
        "screeningCapNusd": _nusd,
        "permittedTools": nullable(many(_name, 256)),
        "hardwareClass": _name,
        "runtime": _name,
        "repeats": integer(1, MAX_TRIES),
        "comparability": DIGEST,
    },
    optional={"agentUser": _name, "outputTokens": integer(1)},
)
_caps = record(
    {
        name: integer(1)
        for name in (
            "agentWallMs",
            "gradeWallMs",
            "memoryBytes",
            "cpusMilli",
            "pids",
            "outputBytes",
            "artifactBytes",
        )
    }
)
_usage = record(
    {
        "metered": BOOLEAN,
        "requests": nullable(integer()),
        "inputTokens": nullable(integer()),
        "cachedInputTokens": nullable(integer()),
        "outputTokens": nullable(integer()),
        "costNusd": _nusd,
        "standardCostNusd": _nusd,
        "paidToolCallsNusd": _nusd,
        "priceList": nullable(record({"id": _id, "date": text(DATE), "digest": DIGEST})),
        "transcript": nullable(record({"records": integer(1), "head": DIGEST})),
    },
    optional={"providers": many(record({"name": _name, "address": _address}), 16)},
)
_label = words("independently-evaluated", "publisher-reported", "community-reported")

_opening = record(
    {
        **_HEAD,
        "statementId": _ulid,
        "issuer": _id,
        "screening": record(_PARTIES),
        "pack": record(
            {"id": _id, "version": _name, "digest": DIGEST, "declaredTries": integer(1, MAX_TRIES)}
        ),
        "plan": many(
            record(
                {
                    "taskId": _task,
                    "digest": DIGEST,
                    "tries": integer(0, MAX_TRIES),
                    "answerKeyWithheld": BOOLEAN,
                    "caps": _caps,
                }
            ),
            MAX_TASKS,
            1,
        ),
        "agent": _agent,
        "judge": text(JUDGE),
        "grader": _grader,
        "simulator": _simulator,
        "conditions": _conditions,
        "time": record({"openedAt": _utc, "issuedAt": _utc}),
        "provenanceLabel": _label,
        "visibility": _public,
    }
)

_try = record(
    {
        **_HEAD,
        "certificateId": _ulid,
        "issuer": _id,
        "screening": record({**_PARTIES, "openingDigest": DIGEST}),
        "pack": record({"id": _id, "version": _name, "digest": DIGEST}),
        "task": record({"id": _task, "digest": DIGEST, "answerKeyWithheld": BOOLEAN, "caps": _caps}),
        "try": record(
            {
                "id": _ulid,
                "attemptId": _ulid,
                "index": integer(1, MAX_TRIES),
                "of": integer(1, MAX_TRIES),
                "attempt": integer(1, MAX_TRIES),
                "replaces": nullable(DIGEST),
            }
        ),
        "agent": _agent,
        "judge": text(JUDGE),
        "grader": _grader,
        "simulator": _simulator,
        "sandbox": record(
            {
                "level": _level,
                "runtime": nullable(_name),
                "gradingPlace": words("fresh", "in_place"),
                "images": many(record({"role": _id, "digest": DIGEST}), 8),
                "runner": record({"version": _name, "digest": DIGEST}),
            }
        ),
        "conditions": _conditions,
        "usage": _usage,
        "result": record(
            {
                "outcome": _outcome,
                "reason": _reason,
                "phase": _phase,
                "faultClass": nullable(words("agent", "platform")),
                "rule": _id,
                "restsOn": many(_id, 32),
                "suspect": BOOLEAN,
                "reward": nullable(text(DECIMAL)),
                "checksPassed": nullable(integer()),
                "checksTotal": nullable(integer()),
            }
        ),
        "time": record({"handedOffAt": _utc, "finishedAt": _utc, "issuedAt": _utc, "wallMs": integer()}),
        "provenanceLabel": _label,
        "visibility": _public,
    }
)

_summary = record(
    {
        **_HEAD,
        "statementId": _ulid,
        "issuer": _id,
        "screening": record({**_PARTIES, "openingDigest": DIGEST}),
        "certificates": many(
            record(
                {
                    "taskId": _task,
                    "index": integer(1, MAX_TRIES),
                    "attempt": integer(1, MAX_TRIES),
                    "outcome": _outcome,
                    "reason": _reason,
                    "level": _level,
                    "wallMs": integer(),
                    "digest": DIGEST,
                }
            ),
            MAX_TASKS * MAX_TRIES,
        ),
        "unrecorded": many(
            record(
                {"taskId": _task, "index": integer(1, MAX_TRIES), "why": words("never_recorded", "cancelled")}
            ),
            MAX_TASKS * MAX_TRIES,
        ),
        "time": record({"closedAt": _utc, "issuedAt": _utc}),
        "visibility": _public,
    }
)

_notice = record(
    {
        **_HEAD,
        "statementId": _ulid,
        "issuer": _id,
        "kind": words(*NOTICE_KINDS),
        "screening": nullable(record({"id": _ulid, "openingDigest": DIGEST})),
        "try": nullable(
            record({"taskId": _task, "index": integer(1, MAX_TRIES), "attempt": integer(1, MAX_TRIES)})
        ),
        "key": nullable(record({"keyid": text(KEY_ID), "event": words(*KEY_EVENTS)})),
        "replacedBy": nullable(DIGEST),
        "reason": text(r"[\x20-\x7e]{1,1000}", unescaped=_UNESCAPED + "{1,1000}"),
        "time": record({"issuedAt": _utc}),
        "visibility": _public,
    }
)

_SUBJECTS: Final = {
    OPENING: ("pack-manifest.json",),
    TRY: ("evidence-manifest.json",),
    SUMMARY: ("opening.json",),
    NOTICE: (TRY_SUBJECT, SCREENING_SUBJECT, KEY_SUBJECT),
}
_STATEMENTS: Final[dict[str, Shape]] = {
    kind: record(
        {
            "_type": words(STATEMENT),
            "predicateType": words(PREFIX + kind, reason="predicate-type"),
            "subject": many(record({"name": words(*_SUBJECTS[kind]), "digest": DIGEST}, closed=True), 1, 1),
            "predicate": predicate,
        },
        closed=True,
    )
    for kind, predicate in ((OPENING, _opening), (TRY, _try), (SUMMARY, _summary), (NOTICE, _notice))
}

_file = {
    "path": _path,
    "role": _id,
    "size": integer(),
}
_plain_file = record({**_file, "sha256": text(HEX_64)}, closed=True)
_withheld_file = record({**_file, "saltedSha256": text(HEX_64)}, closed=True)


_manifest = record(
    {
        "attemptId": _ulid,
        "tryId": _ulid,
        "files": many(either(_plain_file, _withheld_file, "saltedSha256"), 4096),
    },
    closed=True,
)

# An expression costs a few ms once, and the long way far more for a screening of many tries. What it
# recognised is one document to the last byte, so nothing around it is looked for.
_decode: Final = json.JSONDecoder().raw_decode
_IS_USUAL: Final = {kind: Recogniser(fields) for kind, fields in _STATEMENTS.items()}
_is_usual_manifest: Final = Recogniser(_manifest)


def read_statement(payload: bytes, kind: str) -> tuple[dict[str, Any], list[str]]:
    """Parse and check the bytes of a statement; returns it with the unknown fields.

    Raises `VerificationError`: `form` for bytes outside the canonical profile, else what `shape` says.
    """
    if _IS_USUAL[kind].pays_off() and _IS_USUAL[kind](payload):
        usual: dict[str, Any] = _decode(payload.decode())[0]
        return usual, []
    statement = wire.parse(payload)
    return statement, shape(statement, kind)


def read_manifest(raw: bytes) -> dict[str, Any]:
    """Parse and check the bytes of an evidence manifest; raises `VerificationError` (`manifest`)."""
    if _is_usual_manifest.pays_off() and _is_usual_manifest(raw):
        usual: dict[str, Any] = _decode(raw.decode())[0]
        return usual
    manifest: dict[str, Any] = wire.parse(raw, "manifest")
    try:
        _manifest.check(manifest, [])
    except VerificationError as error:
        raise VerificationError("manifest", error.findings[0].detail) from None
    return manifest


def shape(statement: Any, kind: str) -> list[str]:
    """Check a parsed statement of `kind`; returns the unknown fields, raises `VerificationError`.

    An unknown major version or an unknown critical field is `predicate-version` or `critical`
    (UNDECIDED); a statement of another kind is `predicate-type`.
    """
    named = statement.get("predicateType") if isinstance(statement, dict) else None
    if named != PREFIX + kind and isinstance(named, str):
        stem = PREFIX + kind.partition("/v")[0] + "/v"
        if named.startswith(stem) and named[len(stem) :].isdigit():
            raise VerificationError("predicate-version", f"{named} is not a version known here")
        raise VerificationError("predicate-type", f"{named:.200} is not {PREFIX + kind}")
    predicate = statement.get("predicate") if isinstance(statement, dict) else None
    critical = predicate.get("critical") if isinstance(predicate, dict) else None
    if isinstance(critical, list) and critical:
        raise VerificationError("critical", f"critical fields {critical!r:.200} are not understood here")
    unknown: list[str] = []
    _STATEMENTS[kind].check(statement, unknown)
    return unknown
