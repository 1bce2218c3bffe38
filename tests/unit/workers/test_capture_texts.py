"""The chunk reader, the readable diff and the verdict folder."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.capture import diff as diff_module
from workers.capture import folder as folder_module
from workers.capture.diff import MAX_DIFF_BYTES, MAX_FILE_BYTES, unified
from workers.capture.folder import MAX_FILES, read_folder
from workers.capture.layer import Member
from workers.errors import ArchiveFormError, CarryOverflowError, ContainerGoneError
from workers.sandbox.stream import ChunkReader

MIB = 1 << 20


@given(st.lists(st.binary(max_size=50), max_size=20), st.lists(st.integers(0, 70), max_size=40))
def test_reads_do_not_depend_on_how_the_stream_is_cut(chunks: list[bytes], sizes: list[int]) -> None:
    """Every read gives what it asks for until the end, in order, whatever the chunks are."""
    whole = b"".join(chunks)
    reader, at = ChunkReader(chunks, len(whole)), 0
    for size in sizes:
        assert reader.read(size) == whole[at : at + size]
        at += size
    assert reader.read() == whole[at:]
    assert reader.read(5) == b""
    assert reader.total_bytes == len(whole)


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=20))
def test_the_cap_is_exact(chunks: list[bytes]) -> None:
    """One byte more than the cap is never handed out."""
    whole = b"".join(chunks)
    with pytest.raises(CarryOverflowError):
        ChunkReader(chunks, len(whole) - 1).read()


def test_an_endless_stream_ends_at_the_cap() -> None:
    """Archives whose reading never ends."""

    def endless() -> Generator[bytes, None, None]:
        while True:
            yield bytes(1000)

    with pytest.raises(CarryOverflowError):
        ChunkReader(endless(), 10_000).read()


def test_small_reads_of_a_large_chunk_are_linear() -> None:
    """Copying the rest of a chunk at every read would cost gigabytes of copying; a view costs nothing."""
    chunk = bytes(64 * MIB)
    reader = ChunkReader([chunk], 64 * MIB)
    first = reader.read(512)
    assert reader._rest.obj is chunk and len(first) == 512


def text(*args: Any) -> str:
    return unified(*args).decode()


def test_a_changed_an_added_and_a_deleted_file() -> None:
    """The usual form that people and tools read."""
    out = text({"/w/a": b"1\n2\n"}, {"/w/a": b"1\n3\n", "/w/b": b"new"}, ["/w/c"])
    assert "--- a/w/a\n+++ b/w/a\n" in out and "-2\n+3\n" in out
    assert "--- /dev/null\n+++ b/w/b\n" in out and "+new\n\\ No newline at end of file\n" in out
    assert out.endswith("Deleted: /w/c\n")


def test_files_that_are_no_text_appear_by_digest() -> None:
    """Binary, long and unkept files."""
    out = text({"/x": b"old"}, {"/x": b"a\0b", "/y": b"y" * (MAX_FILE_BYTES + 1)}, [], {"/z": "f" * 64})
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "Large or binary file /x",
        "Large or binary file /y",
        "Large or binary file /z",
    ]
    assert out.endswith(f"sha256 none -> {'f' * 64}\n")


def test_a_name_cannot_forge_lines() -> None:
    """A newline or an escape in a name stays inside its line."""
    out = text({}, {"/w/a\n+++ b/forged\x1b[2J": b"x\n"}, ["/w/\nDeleted: /w/forged"])
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if "forged" in line and "x0a" not in line] == []


@pytest.mark.parametrize("deleted", [0, 100_000])
def test_the_whole_is_bounded(deleted: int) -> None:
    """Contents and deletions together; what is missing is said."""
    files = {f"/w/{n:04d}": b"line\n" * 2_000 for n in range(0 if deleted else 500)}
    out = unified({}, files, [f"/w/{n:060d}" for n in range(deleted)])
    assert MAX_DIFF_BYTES / 2 < len(out) < MAX_DIFF_BYTES + 300
    assert out.splitlines()[-1].startswith(b"(cut: ")


def test_comparing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing costs more than reading: many files with originals fall back to digests."""
    monkeypatch.setattr(diff_module, "MAX_COMPARED_LINES", 50)
    before = {f"/w/{n}": b"a\n" * 10 for n in range(5)}
    out = text(before, dict.fromkeys(before, b"b\n" * 10), [])
    assert out.count("+++ ") == 2 and out.count("Large or binary") == 3


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=200), max_size=4), st.binary(max_size=200))
def test_any_content_gives_a_diff(after: dict[str, bytes], before: bytes) -> None:
    """No bytes, and no line ends of any kind, break it; the result is text."""
    unified(dict.fromkeys(after, before), after, list(after)).decode()


class FakeSource:
    """One folder of files; `broken` ends it with an error."""

    direct = True

    def __init__(self, files: list[tuple[str, bytes]], broken: Exception | None = None) -> None:
        self._files = files
        self._broken = broken

    def members(self, path: str, cap_bytes: int) -> Generator[Member, None, None]:
        if isinstance(self._broken, ContainerGoneError):
            raise self._broken
        for name, data in self._files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            if name.endswith("|"):
                name, info.type = name[:-1], tarfile.FIFOTYPE
            yield Member(f"{path}/{name}", info, io.BytesIO(data) if info.isreg() else None)
        if self._broken is not None:
            raise self._broken

    def changes(self) -> list[tuple[int, str]]:
        raise AssertionError("not asked")

    def originals(self, paths: object) -> dict[str, bytes]:
        raise AssertionError("not asked")

    def was_folder(self, path: str) -> bool:
        raise AssertionError("not asked")


def read(files: list[tuple[str, bytes]], cap_bytes: int = 1_000, broken: Exception | None = None) -> Any:
    return read_folder(FakeSource(files, broken), "/v", cap_bytes)


def test_a_folder_by_relative_names() -> None:
    """Sub-folders and any names included."""
    assert read([("reward.txt", b"1"), ("a/b\n\udcff", b"x")]) == (
        {"reward.txt": b"1", "a/b\n\udcff": b"x"},
        False,
    )


def test_a_missing_folder_is_empty() -> None:
    """Agent code may have removed it."""
    assert read([], broken=ContainerGoneError("get_archive", "NotFound", "", 404)) == ({}, False)


def test_a_verdict_that_is_no_regular_file_is_foreign() -> None:
    """A pipe or link in the place of a reward is told; elsewhere it is only left out."""
    assert read([("reward.json|", b"")]) == ({}, True)
    assert read([("other|", b"")]) == ({}, False)
    assert read([("deep/reward.json|", b"")]) == ({}, False)


def test_many_and_large_files_do_not_hide_a_verdict() -> None:
    """Honest tests may leave hundreds of logs beside it."""
    many = [(f"log-{n:04d}", b"x") for n in range(MAX_FILES + 50)]
    files, _ = read([("a", b"x" * 2_000), *many, ("reward.txt", b"1")])
    assert files["reward.txt"] == b"1" and "a" not in files and len(files) == MAX_FILES + 1


@pytest.mark.parametrize(
    "broken", [CarryOverflowError("x"), ArchiveFormError("x"), tarfile.ReadError("x"), OSError("x")]
)
def test_a_folder_that_cannot_be_read_to_its_end_has_no_verdict(broken: Exception) -> None:
    """What was not seen may contradict what was: a forged file first, a flood behind it."""
    assert read([("reward.json", b"1"), ("log", b"x")], broken=broken) == ({"log": b"x"}, False)


def test_too_many_entries_are_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million empty files are not waited for."""
    monkeypatch.setattr(folder_module, "MAX_ENTRIES", 5)
    files, _ = read([("reward.txt", b"1"), *((str(n), b"") for n in range(6))])
    assert "reward.txt" not in files


def test_a_huge_reward_is_cut_and_then_unreadable() -> None:
    """It is never taken into memory as a whole."""
    files, _ = read([("reward.txt", b"1" * 5_000)])
    assert len(files["reward.txt"]) == 1_000
