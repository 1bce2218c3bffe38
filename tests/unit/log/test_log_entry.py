"""The logged bytes of section 3.4 are recomputed from a verified envelope, in one form."""

from __future__ import annotations

import hashlib
import re

import pytest

from orchestrator.certificates import dsse, schema
from orchestrator.certificates.keys import SigningKey
from orchestrator.log import entry
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.entry import Position, position
from orchestrator.verification.errors import VerificationError

KEY = SigningKey.from_seed(bytes(32))
SCREENING = "01JAA00000000000000000000A"
TRY = {
    "screening": {"id": SCREENING},
    "task": {"id": "retail-017"},
    "try": {"index": 2, "attempt": 1},
}


def test_entry_of_an_envelope() -> None:
    """Digest of the PAE bytes, key id and signature of the envelope, and where the try belongs."""
    signed = dsse.pae(dsse.STATEMENT_TYPE, b'{"a":1}')
    raw = dsse.encode(b'{"a":1}', dsse.STATEMENT_TYPE, [(KEY.keyid, KEY.sign(signed))])
    envelope = dsse.decode(raw, dsse.STATEMENT_TYPE, 100)
    ((keyid, signature),) = envelope.signatures
    found = entry.statement_entry(envelope.signed_bytes(), keyid, signature, position(schema.TRY, TRY))
    lines = found.decode().split("\n")
    assert lines[0] == "assize.example/log-entry/v1"
    assert lines[1] == hashlib.sha256(signed).hexdigest() == dsse.statement_digest(signed)
    assert re.fullmatch(f"{KEY.keyid} [A-Za-z0-9+/]{{86}}==", lines[2])
    assert lines[3:] == [f"{SCREENING} retail-017 2 1", ""]
    assert entry.check(found) == lines[3].encode()


@pytest.mark.parametrize(
    ("kind", "word"), [(schema.OPENING, "-opening"), (schema.SUMMARY, "-summary"), ("notice/v1", "-notice")]
)
def test_statements_without_a_try(kind: str, word: str) -> None:
    """One opening and one summary per screening, and no task can have their place."""
    predicate = {"screening": {"id": SCREENING}, "statementId": SCREENING}
    where = position(kind, predicate)
    assert where == Position(SCREENING, word, 0, 0)
    assert entry.check(entry.statement_entry(b"x", KEY.keyid, bytes(64), where))
    with pytest.raises(VerificationError, match="entry-form"):
        position("something-else/v1", predicate)


def test_every_other_form_is_refused() -> None:
    """One spelling: a monitor and a verifier can never disagree about the last line."""
    good = entry.statement_entry(b"x", KEY.keyid, KEY.sign(b"x"), position(schema.TRY, TRY))
    link = entry.shard_entry(Checkpoint("assize.example/log/2025", 7, bytes(32)))
    for raw in (good, link):
        entry.check(raw)
        for bad in (
            raw[:-1],
            raw + b"\n",
            raw.replace(b"/v1\n", b"/v2\n"),
            raw.replace(b"assize.", b"assize-"),
            raw.replace(b" -shard 0 0\n", b" task 0 0\n").replace(b" retail-017 2 1\n", b" -shard 0 0\n"),
            raw.replace(b"\n", b"\r\n"),
            raw.replace(b" ", b"  "),
            raw.upper(),
            raw.replace(b" 1\n", b" 01\n").replace(b" 0\n", b" 00\n"),
            b"\n".join([*raw.split(b"\n")[:-2], b"x y", b""]),
        ):
            with pytest.raises(VerificationError, match="entry-form"):
                entry.check(bad)


@pytest.mark.parametrize("task", ["a b", "a\nb", "\u0430", "", "x" * 129, "-", "-Opening"])
def test_a_task_id_cannot_forge_a_last_line(task: str) -> None:
    """White space, foreign letters and reserved words never reach the log."""
    with pytest.raises(VerificationError, match="entry-form"):
        entry.statement_entry(b"x", KEY.keyid, bytes(64), Position(SCREENING, task, 1, 1))


def test_log_verification_is_light() -> None:
    """Verifying imports no database, no engine, no network client and no model library."""
    import subprocess
    import sys

    code = (
        "import sys, orchestrator.log.audit, orchestrator.log.memory, orchestrator.log.reader;"
        "bad = {'sqlalchemy', 'docker', 'pydantic', 'aiohttp', 'numpy', 'requests'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
