"""What an agent wrote about itself below HOME is an exhibit: found by glob, bounded."""

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
from workers.capture.changes import ADDED, DELETED
from workers.capture.layer import Member
from workers.capture.transcripts import MAX_TRANSCRIPTS, TRANSCRIPT_BYTES, transcripts_in
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError, PathRefusedError

HOME: Final = "/assize/home"
GLOBS: Final = (".a/**/*.jsonl", "log.txt")


class Files:
    """A dead container's files; an error is raised, `@` is a link."""

    direct = True

    def __init__(self, files: dict[str, bytes | Exception]) -> None:
        self._files = {f"{HOME}/{name}": content for name, content in files.items()}
        self.asked: list[str] = []

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        self.asked.append(path.removeprefix(f"{HOME}/"))
        content = self._files[path]
        if isinstance(content, Exception):
            raise content
        info = tarfile.TarInfo(path)
        info.size = len(content)
        info.type = tarfile.SYMTYPE if content == b"@" else tarfile.REGTYPE
        yield Member(path, info, io.BytesIO(content) if info.isreg() else None)

    def changes(self) -> list[tuple[int, str]]:
        return [(ADDED, path) for path in self._files]

    def originals(self, paths: object) -> dict[str, bytes]:
        raise AssertionError("not asked")

    def was_folder(self, path: str) -> bool:
        raise AssertionError("not asked")


def found_in(files: dict[str, bytes | Exception]) -> tuple[dict[str, bytes], list[str]]:
    source = Files(files)
    return transcripts_in(source, HOME, GLOBS, source.changes()), source.asked


def test_only_fitting_files_are_asked_for() -> None:
    """A HOME of any size costs nothing else; links are no files."""
    found, asked = found_in({".a/b/x.jsonl": b"1", "log.txt": b"2", ".a/big": b"3", ".a/y.jsonl": b"@"})
    assert found == {".a/b/x.jsonl": b"1", "log.txt": b"2"}
    assert asked == [".a/b/x.jsonl", ".a/y.jsonl", "log.txt"]


def test_what_was_deleted_or_lies_elsewhere_is_not_asked_for() -> None:
    """By the list of changes alone."""
    source = Files({})
    changes = [(DELETED, f"{HOME}/log.txt"), (ADDED, "/tmp/log.txt"), (ADDED, "/assize/homes/log.txt")]
    assert transcripts_in(source, HOME, GLOBS, changes) == {} and source.asked == []


def test_files_and_bytes_are_bounded() -> None:
    """The first names in order, as far as they fit together; what does not fit is left out whole."""
    found, asked = found_in({f".a/{n:03d}.jsonl": b"x" for n in range(MAX_TRANSCRIPTS + 10)})
    assert len(found) == len(asked) == MAX_TRANSCRIPTS and ".a/000.jsonl" in found
    half = b"x" * (TRANSCRIPT_BYTES // 2)
    found, _ = found_in({".a/1.jsonl": half, ".a/2.jsonl": half + b"x", ".a/3.jsonl": half, "log.txt": b"y"})
    assert sorted(found) == [".a/1.jsonl", ".a/3.jsonl"]


@pytest.mark.parametrize(
    "broken",
    [
        ArchiveFormError("x"),
        OSError("x"),
        CarryOverflowError("x"),
        PathRefusedError("a", "b", "", 400),
        ContainerGoneError("a", "b", "", 404),
    ],
)
def test_a_file_that_cannot_be_read_costs_only_itself(broken: Exception) -> None:
    """No try is decided by it."""
    assert found_in({".a/x.jsonl": broken, "log.txt": b"2"})[0] == {"log.txt": b"2"}


def test_they_are_listed_as_what_they_are(tmp_path: Path) -> None:
    """By place, with a role of their own; a name that no record can carry gets a number instead."""
    builder = ManifestBuilder(EvidenceStore(tmp_path), attempt_id=new_id(), try_id=new_id())
    evidence.add_transcripts(builder, {"a/x.jsonl": b"1", "a\n": b"2"}, {"t.json": b"3"})
    digest = builder.seal()
    manifest = EvidenceManifest.from_bytes(EvidenceStore(tmp_path).read(digest, MANIFEST_LIMIT_BYTES))
    assert {one.path: one.role for one in manifest.files} == {
        "agent/transcripts/home-unnamed/1": Role.AGENT_TRANSCRIPT,
        "agent/transcripts/home/a/x.jsonl": Role.AGENT_TRANSCRIPT,
        "agent/transcripts/out/t.json": Role.AGENT_TRANSCRIPT,
    }
