"""Evidence files of an attempt: names and bytes of an agent's choice never make them unwritable."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator import canonical
from orchestrator.attempts import AttemptOrder
from orchestrator.evidence import observed
from orchestrator.evidence.manifest import EvidenceManifest, ManifestBuilder
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import decide
from orchestrator.ids import new_id
from orchestrator.observations import Clock, Observations
from workers.attempt import evidence
from workers.attempt.phases import AgentPhase
from workers.capture.carry import Carry
from workers.capture.members import Drop, Dropped
from workers.grading.grade import Graded
from workers.sandbox.execute import ExecResult, StreamEnd
from workers.sandbox.tars import Owner


class Sealed:
    """One attempt's evidence: filled through `builder`, read back by path."""

    def __init__(self, root: Path) -> None:
        self.store = EvidenceStore(root)
        self.builder = ManifestBuilder(self.store, attempt_id=new_id(), try_id=new_id())

    def files(self) -> dict[str, bytes | None]:
        digest = self.builder.seal()
        manifest = EvidenceManifest.from_bytes(self.store.read(digest, 1 << 20))
        return {
            file.path: self.store.read(file.sha256, 1 << 24) if file.sha256 else None
            for file in manifest.files
        }


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    return Sealed(tmp_path / "evidence")


def carry(tmp_path: Path, **changes: Any) -> Carry:
    spool = tmp_path / "spool"
    spool.write_bytes(b"archive")
    values: dict[str, Any] = {"deleted": [], "dropped": [], "files": {}, "changes": []}
    return Carry(spool, 0, **{**values, **changes})


def order(tmp_path: Path, tests: dict[str, bytes]) -> AttemptOrder:
    for name, data in tests.items():
        path = tmp_path / "task/tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    values: dict[str, Any] = dict.fromkeys(AttemptOrder.__dataclass_fields__)
    return AttemptOrder(**{**values, "task_dir": tmp_path / "task", "test_files": tuple(tests)})


def test_the_command_and_its_output(sealed: Sealed) -> None:
    """As captured, byte by byte, with what was cut said."""
    result = ExecResult(StreamEnd.OUTPUT_CAP, None, 12, bytearray(b"\xff\0out"), bytearray(b"err"), 900)
    phase = AgentPhase(owner=Owner(5, 6), output=result, argv=("run", "it"))
    evidence.add_agent(sealed.builder, phase)
    files = sealed.files()
    assert json.loads(files["agent/command.json"] or b"") == {
        "argv": ["run", "it"],
        "ran": True,
        "user": "5:6",
        "end": "output_cap",
        "exitCode": None,
        "wallMs": 12,
        "outputBytes": 900,
        "keptBytes": 8,
    }
    assert (files["agent/stdout.txt"], files["agent/stderr.txt"]) == (b"\xff\0out", b"err")


def test_an_agent_that_ran_nothing(sealed: Sealed) -> None:
    """The idle agent's record says so."""
    evidence.add_agent(sealed.builder, AgentPhase())
    assert {path: json.loads(data or b"") for path, data in sealed.files().items()} == {
        "agent/command.json": {"argv": [], "ran": False}
    }


def test_the_carry(sealed: Sealed, tmp_path: Path) -> None:
    """The archive itself, all changes by kind, refusals with reasons, a diff."""
    found = carry(
        tmp_path,
        deleted=["/w/d"],
        dropped=[Dropped("/w/p", Drop.KIND)],
        files={"/w/f": b"new\n"},
        changes=[(0, "/w/f"), (1, "/w/a"), (2, "/w/d"), (9, "/w/x")],
        missing=["/w/m"],
        digests={"/w/big": "e" * 64},
    )
    evidence.add_carry(sealed.builder, found, {"/w/f": b"old\n"})
    files = sealed.files()
    assert files["workspace/carried.tar"] == b"archive"
    assert json.loads(files["workspace/changes.json"] or b"") == {
        "changes": [["changed", "/w/f"], ["added", "/w/a"], ["deleted", "/w/d"], ["9", "/w/x"]],
        "changesTotal": 4,
        "deleted": ["/w/d"],
        "dropped": [["/w/p", "not_a_file_directory_or_symlink"]],
        "missing": ["/w/m"],
    }
    diff = files["workspace/diff.patch"] or b""
    assert b"-old\n+new\n" in diff and b"e" * 64 in diff and b"Deleted: /w/d" in diff


def test_a_million_changes_are_counted_and_cut(sealed: Sealed, tmp_path: Path) -> None:
    """The total is exact; the list has an end."""
    found = carry(tmp_path, changes=[(1, "/w/x")] * 20_000, deleted=["/w/y"] * 20_000)
    evidence.add_carry(sealed.builder, found, {})
    data = json.loads(sealed.files()["workspace/changes.json"] or b"")
    assert (data["changesTotal"], len(data["changes"]), len(data["deleted"])) == (20_000, 10_000, 10_000)


raw_paths = st.binary(min_size=1, max_size=40).map(lambda raw: "/" + raw.decode("utf-8", "surrogateescape"))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(raw_paths, max_size=6, unique=True), st.binary(max_size=100))
def test_any_name_fits_the_record(tmp_path: Path, paths: list[str], data: bytes) -> None:
    """art-names: surrogates never reach canonical JSON, which would refuse them."""
    sealed = Sealed(tmp_path / new_id())
    found = carry(
        tmp_path,
        changes=[(1, path) for path in paths],
        deleted=paths,
        files=dict.fromkeys(paths, data),
        digests={path + "x": "a" * 64 for path in paths},
    )
    evidence.add_carry(sealed.builder, found, {})
    files = sealed.files()
    canonical.decode_strict(files["workspace/changes.json"] or b"")
    assert b"\x1b" not in (files["workspace/changes.json"] or b"")


def test_grading(sealed: Sealed, tmp_path: Path) -> None:
    """Output and verdict files are listed, the hidden tests only as withheld."""
    task = order(tmp_path, {"test.sh": b"secret test", "lib/data": b"secret data"})
    result = ExecResult(StreamEnd.EOF, 0, 1, bytearray(b"o"), bytearray(b"e"), 2)
    graded = Graded(output=result, files={"reward.txt": b"1", "log/x.txt": b"l"})
    evidence.add_grade(sealed.builder, task, graded)
    files = sealed.files()
    assert files.pop("grader/tests.tar") is None
    assert files == {
        "grader/stdout.txt": b"o",
        "grader/stderr.txt": b"e",
        "grader/verifier/reward.txt": b"1",
        "grader/verifier/log/x.txt": b"l",
    }
    public = b"".join(
        path.read_bytes() for path in (sealed.store.root / "sha256").rglob("*") if path.is_file()
    )
    assert b"secret" not in public


def test_the_withheld_tests_are_all_there(sealed: Sealed, tmp_path: Path) -> None:
    """Whoever may see them gets them unchanged."""
    tests = {"b": b"2", "a/c": b"3"}
    evidence.add_grade(sealed.builder, order(tmp_path, tests), Graded())
    blobs = [path for path in (sealed.store.root / "withheld/sha256").rglob("*") if path.is_file()]
    with tarfile.open(fileobj=io.BytesIO(blobs[0].read_bytes())) as tar:
        found = {info.name: (tar.extractfile(info) or io.BytesIO()).read() for info in tar}
    assert found == tests and len(blobs) == 1


odd_names = st.one_of(
    raw_paths.map(lambda path: path[1:]),
    st.sampled_from(["file-0", "unnamed/0", "a/../b", "a//b", ".", "..", "a/", "x" * 301, "é/ü", "a\nb", ""]),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(odd_names, st.binary(max_size=10), max_size=70))
def test_any_files_beside_the_verdict(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Agent code may run in the verifier: no choice of names makes the evidence unwritable."""
    sealed = Sealed(tmp_path / new_id())
    evidence.add_grade(sealed.builder, order(tmp_path, {"test.sh": b""}), Graded(files=files))
    assert len(sealed.files()) == 1 + min(len(files), evidence.MAX_GRADER_FILES)


def test_a_name_like_the_number_of_another(sealed: Sealed, tmp_path: Path) -> None:
    """Both are kept, under different paths."""
    names = ["bad\n", "file-0", "file-1", "unnamed/0", "0"]
    files = {name: name.encode() for name in names}
    evidence.add_grade(sealed.builder, order(tmp_path, {"test.sh": b""}), Graded(files=files))
    found = sealed.files()
    assert sorted(data for data in found.values() if data is not None) == sorted(files.values())


def test_the_report_and_the_observations(sealed: Sealed) -> None:
    """The signer decides again from these bytes and comes to the same end."""
    seen = Observations(agent_started=True, agent_clock=Clock.WALL, agent_clock_value=5)
    evidence.add_report(sealed.builder, {"runtime": "runc"}, seen, decide(seen))
    files = sealed.files()
    assert json.loads(files["sandbox-report.json"] or b"") == {"runtime": "runc"}
    assert decide(observed.decode(files["observations.json"] or b"")) == decide(seen)
