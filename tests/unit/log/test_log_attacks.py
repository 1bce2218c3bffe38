"""Every named log file gets exactly its verdict (attack table, certificates.md section 4, rows 34 to 45)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.log import audit, memory, tree, witness
from orchestrator.log.checkpoint import LogKey, log_key, open_checkpoint
from orchestrator.log.proof import LogVerifier, parse_consistency
from orchestrator.verification.errors import REASONS, Finding, VerificationError, worst

INDEX = Path(__file__).resolve().parents[2] / "assets" / "log" / "index.json"
CASES: list[dict[str, Any]] = json.loads(INDEX.read_text())
# Codes of these two checks that only a certificate, not a log file on its own, can cause.
CERTIFICATE_ONLY = {"proof-unsupported", "not-logged", "log-closed", "shard-link"}


@pytest.fixture(scope="module")
def log_files(generator: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every generated file; read only."""
    folder = tmp_path_factory.mktemp("log") / "cases"
    generator.build(folder)
    return folder


def ask(case: dict[str, Any], folder: Path) -> tuple[Iterable[Finding], Iterable[Finding]]:
    """Findings and notes of what the case is about; the trusted log is the same for all."""
    log = LogKey.parse((folder / "log.vkey").read_text())
    files = {role: folder / path for role, path in case["files"].items()}
    raw = {role: path.read_bytes() for role, path in files.items() if role != "log"}
    policy = witness.parse_policy(raw["policy"]) if "policy" in raw else None
    verifier = LogVerifier(log, policy)
    known = open_checkpoint(raw["remembered"], log).checkpoint if "remembered" in raw else None
    match case["kind"]:
        case "proof":
            return (), verifier.check(raw["proof"], raw["entry"]).notes
        case "audit":
            found = audit.audit(files["log"], verifier, known)
            return found.findings, found.notes
        case "compare":
            assert known is not None
            path = parse_consistency(raw["consistency"]).path if "consistency" in raw else None
            # A lab may sign for several logs with one key; only the origin tells them apart then.
            origin = raw["seen"].partition(b"\n")[0].decode()
            log = log_key(origin, log.key.raw)
            memory.compare(known, open_checkpoint(raw["seen"], log).checkpoint, path)
        case "consistency":
            assert known is not None
            parsed = parse_consistency(raw["consistency"])
            head = verifier.open(parsed.checkpoint)[0]
            tree.verify_consistency(parsed.old_size, known.root, head.size, head.root, parsed.path)
    return (), ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_log_file_gets_its_verdict(case: dict[str, Any], log_files: Path) -> None:
    """Exit code, the whole set of reason codes and the notes, nothing more and nothing less."""
    try:
        findings, notes = ask(case, log_files)
    except VerificationError as error:
        findings, notes = error.findings, ()
    codes = sorted(finding.code for finding in findings)
    exit_code = worst({REASONS[code].exit_code for code in codes})
    assert (exit_code, codes) == (case["exit"], sorted(case["codes"]))
    assert [note.code for note in notes] == case["notes"]


def test_log_index_is_what_the_generator_makes(log_files: Path) -> None:
    """The committed expectations belong to the committed generator."""
    assert (log_files / "index.json").read_text() == INDEX.read_text()


def test_log_generator_is_deterministic(generator: ModuleType, log_files: Path, tmp_path: Path) -> None:
    """Two runs make the same bytes in the same places."""
    generator.build(tmp_path / "again")

    def contents(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    assert contents(tmp_path / "again") == contents(log_files)


def test_all_log_rows_and_reasons_have_files() -> None:
    """Rows 34 to 44 have a file, and so has every reason code that a file can cause."""
    assert {*range(34, 46)} <= {case["row"] for case in CASES}
    told = {code for case in CASES for code in [*case["codes"], *case["notes"]]}
    ours = {code for code, rule in REASONS.items() if rule.check in ("logged", "witnessed")}
    assert ours - told == CERTIFICATE_ONLY
