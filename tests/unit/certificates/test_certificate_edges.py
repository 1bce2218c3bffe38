"""Verification never raises, never says 0 by accident, and stays light."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.certificates import bundle, dsse, trust
from orchestrator.certificates.report import screening_data, screening_text, try_data
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.verification.errors import EXIT_INVALID, EXIT_UNREADABLE, VerificationError

SEED = 20261129
EDITS = 1500


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """One to three random edits: change, insert, delete, double or cut."""
    data = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data.insert(place, chance.randrange(256))
        elif kind == 2:
            del data[place]
        elif kind == 3:
            length = chance.randint(1, 200)
            data[place:place] = data[place : place + length]
        elif kind == 4:
            del data[place : place + chance.randint(1, 200)]
        else:
            data[place] = chance.choice(b'0123456789{}[]",:=+/\\ \n')
    return bytes(data)


def test_edited_try_bundles_are_never_accepted(world: Any, lab: Any) -> None:
    """Whatever is edited, the exit code is not 0 (nor 3, which would be authentic), and nothing raises."""
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    raw = bundle.encode_try(signed.envelope, signed.manifest)
    chance = random.Random(SEED)
    for _ in range(EDITS):
        bad = mutated(raw, chance)
        if bad != raw:
            assert verify_try_bundle(bad, world.trust).exit_code in (1, 2, 4), bad


def test_edited_screening_bundles_are_never_accepted(world: Any) -> None:
    """The same for a whole screening: the strict zip and its contents leave no free byte."""
    raw = world.screening().usual().pack()
    chance = random.Random(SEED)
    for _ in range(EDITS // 5):
        bad = mutated(raw, chance)
        if bad != raw:
            assert verify_screening_bundle(bad, world.trust).exit_code in (1, 2, 4)


def test_edited_trust_roots_are_never_accepted(world: Any) -> None:
    """A trust root with any edit is refused with the one error type."""
    chance = random.Random(SEED)
    for _ in range(EDITS):
        bad = mutated(world.trust_bytes, chance)
        if bad != world.trust_bytes:
            with pytest.raises(VerificationError):
                trust.parse(bad)


@given(st.binary(max_size=400))
def test_parsers_raise_one_error_type(raw: bytes) -> None:
    """Any bytes: `VerificationError` or a value, no other exception."""
    for read in (
        lambda: dsse.decode(raw, dsse.STATEMENT_TYPE, 1000),
        lambda: bundle.decode_try(raw),
        lambda: bundle.decode_screening(raw),
        lambda: bundle.decode_screening(b"PK\x03\x04" + raw),
        lambda: trust.parse(raw),
    ):
        with pytest.raises(VerificationError):
            read()


def test_unexpected_exception_is_invalid(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in the verifier must not read as success: exit 1 with the code `internal`."""
    raw = world.screening().usual().pack()

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(bundle, "decode_try", broken)
    monkeypatch.setattr(bundle, "decode_screening", broken)
    for result in (verify_try_bundle(b"", world.trust), verify_screening_bundle(raw, world.trust)):
        assert result.exit_code == EXIT_INVALID
        assert result.reasons == ("internal",)


def test_unreadable_file_is_exit_2(world: Any, tmp_path: Path) -> None:
    """A missing file is a usage error, said in one sentence."""
    result = verify_try_bundle(tmp_path / "absent.trybundle.json", world.trust)
    assert result.exit_code == EXIT_UNREADABLE
    assert result.reasons == ("unreadable",)


def test_verification_imports_nothing_heavy() -> None:
    """Importable with no database, Docker, CLI or model library (certificates.md 3.6)."""
    code = (
        "import sys, orchestrator.certificates.screening, orchestrator.certificates.report\n"
        "import orchestrator.handover\n"
        "heavy = {'pydantic', 'sqlalchemy', 'click', 'docker', 'rich', 'sqlite3', 'asyncio', 'socket'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_report_says_what_was_not_checked(world: Any) -> None:
    """Case 42 of the table: without log and witnesses the output says so, and never the one word "valid"."""
    shot = world.screening().usual()
    result = verify_screening_bundle(shot.pack(), world.trust)
    shown = screening_text(result, world.trust)
    assert "not logged" in shown and "not witnessed" in shown
    assert "evidence    not checked: 60 listed, 10 withheld" in shown
    assert f"sha256 {world.trust.sha256}" in shown
    assert "valid" not in shown.replace("invalid", "")


def test_report_data_is_plain_json(world: Any) -> None:
    """`--json` carries every check with its code, and plain values only."""
    shot = world.screening().usual()
    whole = verify_screening_bundle(shot.pack(), world.trust, store=world.store)
    one = verify_try_bundle(shot.tries()[1], world.trust)
    data = json.loads(json.dumps(screening_data(whole, world.trust)))
    assert data["schema"] == "assize.verify-screening/1"
    assert data["accounting"] == {
        "planned": 9,
        "passed": 6,
        "failed": 3,
        "not_evaluable": 0,
        "uncountable": 0,
        "invalid": 0,
        "unaccounted": 0,
        "reruns": 1,
        "noticed": 0,
    }
    assert data["evidence"] == {"listed": 60, "withheld": 10, "checked": 50, "missing": 0}
    by_name = {check["check"]: check for check in json.loads(json.dumps(try_data(one)))["checks"]}
    assert by_name["logged"]["codes"] == ["not-logged"]
    assert by_name["witnessed"]["codes"] == ["not-witnessed"]
    assert by_name["signature"]["status"] == "ok"
    assert by_name["counts"] == {
        "check": "counts",
        "status": "not-counting",
        "codes": ["failed"],
        "detail": "failed: wrong_output",
    }
    assert by_name["evidence"]["status"] == "not-done"
