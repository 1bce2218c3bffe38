"""Every named file gets exactly its verdict (attack table of reference/certificates.md section 4)."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import report, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.audit_report import audit_data, audit_text
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.published import PublishedNotices
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verdict import ScreeningResult, TryResult, Verdict
from orchestrator.certificates.verify import Policy, check_tries, verify_try_bundle
from orchestrator.evidence.store import EvidenceStore
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import parse_consistency
from orchestrator.verification.errors import REASONS, VerificationError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
INDEX = ASSETS / "certificates" / "index.json"
LOG_INDEX = ASSETS / "log" / "index.json"
ORIGIN = "assize.example/test-lab/log/2026"
CASES: list[dict[str, Any]] = json.loads(INDEX.read_text())
ROWS = set(range(1, 49))
LISTS = b'"notices":{'
BUNDLES = [case for case in CASES if case["kind"] in ("try", "screening")]


def memory_of(case: dict[str, Any], folder: Path, memory: Path) -> CheckpointMemory | None:
    """The verifier's memory as a case wants it: what it holds is the text part of a signed checkpoint."""
    if case["remembered"] is None:
        return None
    known = CheckpointMemory(memory)
    raw = (folder / case["remembered"]).read_bytes().partition(b"\n\n")[0] + b"\n"
    known.remember(Checkpoint(ORIGIN, 1, bytes(32)))
    (file,) = memory.iterdir()
    file.write_bytes(raw)
    return known


def ask(case: dict[str, Any], folder: Path, memory: Path) -> TryResult | ScreeningResult:
    root = trust.load(folder / f"trust-{case['trust']}.json")
    store = EvidenceStore(folder / f"store-{case['store']}") if case["store"] else None
    verify = verify_try_bundle if case["kind"] == "try" else verify_screening_bundle

    def consistency(smaller: Checkpoint, larger: Checkpoint) -> tuple[bytes, ...] | None:
        if case["consistency"] is None:
            return None
        return parse_consistency((folder / case["consistency"]).read_bytes()).path

    logs = LogChecks(root, memory_of(case, folder, memory), consistency)
    published = PublishedNotices(folder / case["published"]) if case["published"] else None
    policy = Policy(case["current_packs"])
    return verify(folder / case["file"], root, store=store, policy=policy, logs=logs, published=published)


@pytest.mark.parametrize("case", BUNDLES, ids=lambda c: c["name"])
def test_file_gets_its_verdict(case: dict[str, Any], case_files: Path, tmp_path: Path) -> None:
    """Exit code and the whole set of reason codes, nothing more and nothing less."""
    result = ask(case, case_files, tmp_path / "memory")
    assert (result.exit_code, sorted(result.reasons)) == (case["exit"], sorted(case["codes"]))
    notes = sorted({f.code for f in result.findings if f.rule.exit_code == 0})
    assert notes == case["notes"]


def test_company_changes_nothing(case_files: Path) -> None:
    """Every try file gets the same findings among all others, whatever is wrong with those, as alone.

    But for the list of notices in it: a checkpoint of another file may be as large as the list needs.
    """
    compared = 0
    for name in sorted({case["trust"] for case in BUNDLES if case["kind"] == "try"}):
        root = trust.load(case_files / f"trust-{name}.json")
        files = [case["file"] for case in BUNDLES if case["kind"] == "try" and case["trust"] == name]
        raws = [raw for raw in ((case_files / file).read_bytes() for file in files) if LISTS not in raw]
        alone = [check_tries([raw], LogChecks(root))[0] for raw in raws]
        numbers = list(range(1, len(raws) + 1))
        together = check_tries(raws, LogChecks(root), numbers=numbers)
        assert [one.number for one in together] == numbers
        assert [(one.findings, one.digest, one.index) for one in together] == [
            (one.findings, one.digest, one.index) for one in alone
        ]
        compared += len(raws)
    assert compared > 100


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "audit"], ids=lambda c: c["name"])
def test_log_gets_its_verdict(case: dict[str, Any], case_files: Path, tmp_path: Path) -> None:
    """`--audit`: exit code and all reason codes of a whole published log, and both ways to show them."""
    root = trust.load(case_files / f"trust-{case['trust']}.json")
    found = audit_log(case_files / case["file"], root, memory_of(case, case_files, tmp_path / "memory"))
    assert (found.exit_code, sorted(found.reasons)) == (case["exit"], sorted(case["codes"]))
    shown = audit_text(found, root)
    data = json.loads(json.dumps(audit_data(found, root)))
    assert data["reasons"] == list(found.reasons)
    for code in case["codes"]:
        assert f"{code}: " in shown


@pytest.mark.parametrize("case", BUNDLES, ids=lambda c: c["name"])
def test_verdict_parts_agree_with_the_exit_code(
    case: dict[str, Any], case_files: Path, tmp_path: Path
) -> None:
    """Three separate verdicts (decision 6): COUNTS is yes exactly for exit 0, AUTHENTIC no never with it."""
    result = ask(case, case_files, tmp_path / "memory")
    assert (result.counts is Verdict.YES) == (case["exit"] == 0)
    if case["exit"] in (0, 3):
        assert result.authentic is Verdict.YES
        assert result.complete is Verdict.YES
    if case["exit"] == 4:
        assert Verdict.UNDECIDED in (result.authentic, result.complete)
        assert Verdict.NO not in (result.authentic, result.complete)
    shown = report.try_text(result) if isinstance(result, TryResult) else report.screening_text(result)
    for code in case["codes"]:
        assert f"{code}: " in shown


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "trust-root"], ids=lambda c: c["name"])
def test_trust_root_is_taken_or_refused(case: dict[str, Any], case_files: Path) -> None:
    """Rows 14, 18, 45: no key of a bad trust root is ever used."""
    files = [case_files / name for name in (*case["after"], case["file"])]
    if not case["codes"]:
        assert trust.load(*files).keys
        return
    with pytest.raises(VerificationError) as caught:
        trust.load(*files)
    assert (caught.value.decisive_exit_code, list(caught.value.reasons)) == (case["exit"], case["codes"])


def test_index_is_what_the_generator_makes(case_files: Path) -> None:
    """The committed expectations belong to the committed generator."""
    assert (case_files / "index.json").read_text() == INDEX.read_text()


def test_generator_is_deterministic(generator: ModuleType, case_files: Path, tmp_path: Path) -> None:
    """Two runs make the same bytes."""
    again = tmp_path / "again"
    generator.build(again)
    for path in sorted(again.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (case_files / path.relative_to(again)).read_bytes(), path.name


def test_every_row_has_a_file() -> None:
    """All 48 rows of the table."""
    assert {case["row"] for case in CASES} >= ROWS


def test_every_reason_code_is_provoked(case_files: Path) -> None:
    """No code of the closed table is dead; the rest is provoked by tests of their own."""
    both = [*CASES, *json.loads(LOG_INDEX.read_text())]
    seen = {code for case in both for code in (*case["codes"], *case["notes"])}
    assert set(REASONS) - seen == {"trust-root-pin", "internal"}
