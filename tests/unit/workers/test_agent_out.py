"""What an agent leaves in /assize/out is kept as evidence: bounded, never asked for when there is nothing."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest, ManifestBuilder, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.ids import new_id
from workers.attempt import evidence
from workers.capture import folder
from workers.capture.changes import ADDED, CHANGED, DELETED
from workers.capture.folder import LEFT_BYTES, MAX_LEFT_FILES, left_in
from workers.capture.layer import Member
from workers.errors import ArchiveFormError, ContainerGoneError

OUT: Final = "/assize/out"


class Folder:
    """A dead container's output folder; a name that ends with `|` is a pipe, one with `@` a link."""

    direct = True

    def __init__(self, files: dict[str, bytes], broken: Exception | None = None) -> None:
        self._files = files
        self._broken = broken
        self.asked: list[str] = []

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        self.asked.append(path)
        kinds = {"|": tarfile.FIFOTYPE, "@": tarfile.SYMTYPE}
        for name, data in self._files.items():
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kinds.get(name[-1:], tarfile.REGTYPE)
            yield Member(f"{path}/{name}", info, io.BytesIO(data) if info.isreg() else None)
        if self._broken is not None:
            raise self._broken

    def changes(self) -> list[tuple[int, str]]:
        raise AssertionError("not asked")

    def originals(self, paths: object) -> dict[str, bytes]:
        raise AssertionError("not asked")

    def was_folder(self, path: str) -> bool:
        raise AssertionError("not asked")


def left(files: dict[str, bytes], broken: Exception | None = None) -> dict[str, bytes]:
    return left_in(Folder(files, broken), OUT, [(ADDED, f"{OUT}/{name}") for name in files])


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [(CHANGED, "/assize"), (CHANGED, OUT)],
        [(ADDED, "/assize/outer/x"), (ADDED, "/tmp/assize/out/x")],
        [(DELETED, f"{OUT}/x")],
    ],
)
def test_nothing_is_read_where_nothing_was_added(changes: list[tuple[int, str]]) -> None:
    """Most agents leave nothing: their try costs no engine call for it."""
    source = Folder({"x": b"1"})
    assert left_in(source, OUT, changes) == {}
    assert source.asked == []


def test_regular_files_by_relative_name() -> None:
    """Sub-folders included; links and pipes are no content."""
    found = left({"answer.txt": b"42", "log/run.json": b"{}", "pipe|": b"", "link@": b""})
    assert found == {"answer.txt": b"42", "log/run.json": b"{}"}


def test_a_verdict_in_the_output_folder_is_a_file_like_any_other() -> None:
    """Only the verifier's own folder has files that are read whatever their size."""
    assert left({"reward.txt": b"1" * (LEFT_BYTES + 1), "answer.txt": b"x"}) == {"answer.txt": b"x"}


def test_bytes_and_files_are_bounded() -> None:
    """The first names in order, as far as they fit together."""
    many = {f"{number:03d}": b"x" for number in range(MAX_LEFT_FILES + 10)}
    assert sorted(left(many)) == sorted(many)[:MAX_LEFT_FILES]
    half = b"y" * (LEFT_BYTES // 2)
    assert sorted(left({"a": half, "b": half, "c": b"z"})) == ["a", "b"]


@pytest.mark.parametrize(
    "broken", [ArchiveFormError("x"), OSError("x"), ContainerGoneError("a", "b", "", 404)]
)
def test_a_folder_that_breaks_off_gives_what_was_read(broken: Exception) -> None:
    """It is evidence only, and decides nothing."""
    assert left({"answer.txt": b"42"}, broken) == {"answer.txt": b"42"}


def test_a_flood_of_entries_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million empty files are not waited for."""
    monkeypatch.setattr(folder, "MAX_ENTRIES", 5)
    assert len(left({str(number): b"" for number in range(9)})) == 5


def _sealed(root: Path, files: dict[str, bytes]) -> EvidenceManifest:
    store = EvidenceStore(root)
    builder = ManifestBuilder(store, attempt_id=new_id(), try_id=new_id())
    evidence.add_out(builder, files)
    return EvidenceManifest.from_bytes(store.read(builder.seal(), MANIFEST_LIMIT_BYTES))


def test_the_files_are_listed_as_artifacts(tmp_path: Path) -> None:
    """Under `agent/out/`; a name that no record can carry gets a number instead."""
    files = {"answer.txt": b"42", "bad\nname": b"1", "a\udcff": b"2"}
    manifest = _sealed(tmp_path, files)
    assert {(file.path, file.role) for file in manifest.files} == {
        ("agent/out/answer.txt", Role.ARTIFACTS),
        ("agent/out-unnamed/1", Role.ARTIFACTS),
        ("agent/out-unnamed/2", Role.ARTIFACTS),
    }


def test_nothing_left_is_nothing_listed(tmp_path: Path) -> None:
    """No empty entry for the many agents that leave nothing."""
    assert _sealed(tmp_path, {}).files == ()


def test_no_choice_of_names_makes_the_manifest_too_large(tmp_path: Path) -> None:
    """An end without evidence is the platform's fault, so an agent must not be able to cause one."""
    longest = {f"{number:02d}" + "\U00010348" * 298: b"" for number in range(MAX_LEFT_FILES)}
    assert len(_sealed(tmp_path, longest).to_bytes()) < MANIFEST_LIMIT_BYTES // 2
