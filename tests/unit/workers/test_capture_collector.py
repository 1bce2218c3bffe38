"""The collector over synthetic archives and a fake container: what crosses, caps, memory, errors."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tracemalloc
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.capture import carry as module
from workers.capture.carry import Carry, collect
from workers.capture.changes import ADDED, CHANGED, DELETED
from workers.capture.members import Drop
from workers.capture.source import EngineSource
from workers.errors import (
    ArchiveFormError,
    CarryOverflowError,
    ContainerGoneError,
    EngineCallError,
    PathRefusedError,
)
from workers.sandbox.container import Container
from workers.sandbox.tars import Owner

MIB = 1 << 20


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.uid = info.gid = 1000
    info.mtime = 123
    return info


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive as the engine sends it: names relative to the parent of the fetched path."""
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class FakeContainer:
    """A stopped container: archives by path, and a list of changes."""

    def __init__(self, changes: list[tuple[int, str]], archives: dict[str, Any]) -> None:
        self._changes = changes
        self._archives = archives
        self.fetched: list[str] = []
        self.closed = 0

    def changes(self) -> list[tuple[int, str]]:
        return self._changes

    def archive(self, path: str) -> Generator[bytes, None, None]:
        self.fetched.append(path)
        found = self._archives.get(path)
        if found is None:
            raise ContainerGoneError("get_archive", "NotFound", path, 404)
        if isinstance(found, Exception):
            raise found
        return self._chunks(found)

    def _chunks(self, found: bytes | Callable[[], Iterator[bytes]]) -> Generator[bytes, None, None]:
        try:
            if callable(found):
                yield from found()
            else:
                for start in range(0, len(found), 1000):
                    yield found[start : start + 1000]
        finally:
            self.closed += 1


def run(
    tmp_path: Path,
    changes: list[tuple[int, str]],
    archives: dict[str, Any],
    *,
    artifacts: tuple[dict[str, Any], ...] = (),
    whole: bool = True,
    cap_bytes: int = MIB,
    was_folder: Callable[[str], bool] = lambda path: True,
) -> tuple[Carry, FakeContainer]:
    container = FakeContainer(changes, archives)
    source = EngineSource(cast(Container, container), lambda paths: {}, was_folder)
    carry = collect(
        source,
        artifacts=artifacts,
        whole_change=whole,
        workdir="/w",
        image_config={"Env": ["PATH=/opt/tools/bin:/bin"]},
        owner=Owner(0, 0),
        cap_bytes=cap_bytes,
        spool=tmp_path / "spool",
    )
    return carry, container


def carried(carry: Carry) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(carry.tar) as tar:
        return {info.name: info for info in tar}


def test_an_added_folder_crosses_with_its_content(tmp_path: Path) -> None:
    """Owners are replaced, set-id bits and times removed, names have no leading slash."""
    data = archive(
        (entry("d", tarfile.DIRTYPE, mode=0o2775), b""),
        (entry("d/run", mode=0o6777), b"x" * 10),
        (entry("d/quiet", mode=0o000), b""),
        (entry("d/link", tarfile.SYMTYPE, "run"), b""),
    )
    carry, container = run(tmp_path, [(ADDED, "/w/d")], {"/w/d": data})
    found = carried(carry)
    assert list(found) == ["w/d", "w/d/run", "w/d/quiet", "w/d/link"]
    assert {(info.uid, info.gid, info.mtime) for info in found.values()} == {(0, 0, 0)}
    assert [oct(info.mode) for info in found.values()][:3] == ["0o775", "0o755", "0o600"]
    assert found["w/d/link"].linkname == "run"
    assert carry.files == {"/w/d/run": b"x" * 10, "/w/d/quiet": b""}
    assert container.closed == 1


def test_body_length_leaves_out_the_end_of_the_archive(tmp_path: Path) -> None:
    """Other members are appended to the body in the verifier's archive."""
    carry, _ = run(tmp_path, [(ADDED, "/w/f")], {"/w/f": archive((entry("f"), b"abc"))})
    raw = carry.tar.read_bytes()
    assert carry.tar_body_bytes == 1024 and raw[1024:].strip(b"\0") == b""


def test_nothing_changed_carries_nothing(tmp_path: Path) -> None:
    """An idle agent costs no call but the list."""
    carry, container = run(tmp_path, [], {})
    assert (carry.tar_body_bytes, carry.files, container.fetched) == (0, {}, [])


def test_deletions_and_refusals_are_kept(tmp_path: Path) -> None:
    """The record tells what was deleted and what did not cross, and why."""
    carry, _ = run(tmp_path, [(DELETED, "/w/x"), (ADDED, "/usr/bin/cat")], {})
    assert carry.deleted == ["/w/x"]
    assert [(item.path, item.why) for item in carry.dropped] == [("/usr/bin/cat", Drop.PROGRAMS)]


def test_every_member_of_a_new_folder_is_judged_by_itself(tmp_path: Path) -> None:
    """A new folder cannot smuggle programs or configuration that could not cross alone."""
    data = archive(
        (entry("opt", tarfile.DIRTYPE), b""),
        (entry("opt/tools", tarfile.DIRTYPE), b""),
        (entry("opt/tools/bin/bash"), b"evil"),
        (entry("opt/agent/secret"), b"bundle"),
        (entry("opt/data"), b"work"),
    )
    carry, _ = run(tmp_path, [(ADDED, "/opt")], {"/opt": data})
    assert list(carried(carry)) == ["opt", "opt/data"]
    assert {item.why for item in carry.dropped} == {Drop.PROGRAMS, Drop.RESERVED}


def test_a_declared_artifact_may_lie_anywhere(tmp_path: Path) -> None:
    """The pack's own wish is not filtered as configuration; patterns exclude parts of it."""
    data = archive(
        (entry("out", tarfile.DIRTYPE), b""),
        (entry("out/keep.txt"), b"1"),
        (entry("out/x.log"), b"2"),
        (entry("out/cache", tarfile.DIRTYPE), b""),
        (entry("out/cache/y"), b"3"),
        (entry("out/deep", tarfile.DIRTYPE), b""),
        (entry("out/deep/z.log"), b"4"),
        (entry("out/a", tarfile.DIRTYPE), b""),
        (entry("out/a/b"), b"5"),
    )
    source = "/root/.cache/out"
    carry, _ = run(
        tmp_path,
        [],
        {source: data},
        artifacts=({"source": source, "exclude": ["*.log", "cache", "a/b"]},),
        whole=False,
    )
    assert list(carry.files) == [f"{source}/keep.txt"]


def test_a_path_twice_crosses_once(tmp_path: Path) -> None:
    """A declared artefact inside the workspace is not carried a second time."""
    one = archive((entry("f"), b"first"))
    carry, _ = run(tmp_path, [(ADDED, "/w/f")], {"/w/f": one}, artifacts=({"source": "/w/f"},))
    assert list(carried(carry)) == ["w/f"]


def test_the_convention_folder_is_fetched_once_and_only_when_filled(tmp_path: Path) -> None:
    """harbor.md section 1: `/logs/artifacts` needs no declaration."""
    data = archive((entry("artifacts", tarfile.DIRTYPE), b""), (entry("artifacts/a"), b"x"))
    archives = {"/logs/artifacts": data}
    for declared in ((), ({"source": "/logs/artifacts"},)):
        carry, container = run(tmp_path, [(ADDED, "/logs/artifacts/a")], archives, artifacts=declared)
        assert container.fetched == ["/logs/artifacts"] and list(carry.files) == ["/logs/artifacts/a"]
    _, container = run(tmp_path, [(CHANGED, "/logs/artifacts")], archives)
    assert container.fetched == []


@pytest.mark.parametrize("error", [None, PathRefusedError("get_archive", "APIError", "too many links", 500)])
def test_what_cannot_be_fetched_is_missing(tmp_path: Path, error: Exception | None) -> None:
    """A missing artefact, or a loop in its place, is the agent's and no fault of the engine."""
    carry, _ = run(tmp_path, [(ADDED, "/w/loop")], {"/w/loop": error} if error else {})
    assert carry.missing == ["/w/loop"] and carry.files == {}


def test_an_engine_that_fails_is_an_error(tmp_path: Path) -> None:
    """Anything else must not look like missing work."""
    broken = EngineCallError("get_archive", "APIError", "boom", 500)
    with pytest.raises(EngineCallError):
        run(tmp_path, [(ADDED, "/w/f")], {"/w/f": broken})


def test_a_stream_that_breaks_off_is_an_error(tmp_path: Path) -> None:
    """A cut archive must not be graded as if it were whole."""
    data = archive((entry("f"), b"x" * 5_000))

    def broken() -> Iterator[bytes]:
        yield data[:2_000]
        raise EngineCallError("get_archive", "ChunkedEncodingError", "cut")

    with pytest.raises(EngineCallError):
        run(tmp_path, [(ADDED, "/w/f")], {"/w/f": broken})


@pytest.mark.parametrize("data", [b"", b"not an archive" * 100, archive((entry("f"), b"x" * 5_000))[:2_000]])
def test_an_unreadable_archive_is_an_error_of_its_own(tmp_path: Path, data: bytes) -> None:
    """Empty, foreign and cut archives."""
    with pytest.raises(ArchiveFormError):
        run(tmp_path, [(ADDED, "/w/f")], {"/w/f": data})


def sparse_stream(name: str, size: int) -> Callable[[], Iterator[bytes]]:
    """An archive of one file of zeros, as long as one likes."""
    info = entry(name)
    info.size = size

    def chunks() -> Iterator[bytes]:
        yield info.tobuf(tarfile.PAX_FORMAT)
        for _ in range(size // MIB + 1):
            yield bytes(MIB)

    return chunks


def test_a_terabyte_is_refused_by_its_header(tmp_path: Path) -> None:
    """res-sparse-artifact: nothing of it is read, nothing allocated."""
    served = 0
    inner = sparse_stream("f", 1 << 40)

    def counted() -> Iterator[bytes]:
        nonlocal served
        for chunk in inner():
            served += 1
            yield chunk

    with pytest.raises(CarryOverflowError):
        run(tmp_path, [(ADDED, "/w/f")], {"/w/f": counted})
    assert served <= 2


def test_the_cap_counts_everything_together(tmp_path: Path) -> None:
    """Many small files and many names are as large as one file."""
    changes = [(ADDED, f"/w/{n}") for n in range(20)]
    archives = {f"/w/{n}": archive((entry(str(n)), b"x" * 1_000)) for n in range(20)}
    run(tmp_path, changes, archives, cap_bytes=20 * 1_512)
    with pytest.raises(CarryOverflowError):
        run(tmp_path, changes, archives, cap_bytes=20 * 1_512 - 1)


def test_dropped_members_count_as_well(tmp_path: Path) -> None:
    """What will not cross must not be a free ride through the reader."""
    data = archive((entry("d", tarfile.DIRTYPE), b""), (entry("d/" + "n" * 1_100), b"x" * 5_000))
    with pytest.raises(CarryOverflowError):
        run(tmp_path, [(ADDED, "/w/d")], {"/w/d": data}, cap_bytes=2_000)


def test_the_number_of_members_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """res-inodes: a named limit, never a silently cut archive."""
    monkeypatch.setattr(module, "MAX_MEMBERS", 10)
    folder = (entry("d", tarfile.DIRTYPE), b"")
    fits = archive(folder, *((entry(f"d/{n}"), b"") for n in range(9)))
    assert len(carried(run(tmp_path, [(ADDED, "/w/d")], {"/w/d": fits})[0])) == 10
    more = archive(folder, *((entry(f"d/{n}", tarfile.FIFOTYPE), b"") for n in range(10)))
    with pytest.raises(CarryOverflowError):
        run(tmp_path, [(ADDED, "/w/d")], {"/w/d": more})
    with pytest.raises(CarryOverflowError):
        run(tmp_path, [(ADDED, f"/w/{n}") for n in range(11)], {})


def test_only_small_files_are_kept_for_the_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are known by digest, and the record loses nothing: the archive has the bytes."""
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)
    sizes = {"a": 60_000, "b": 60_000, "c": 70_000, "d": 1_000}
    data = {name: name.encode() * size for name, size in sizes.items()}
    archives = {f"/w/{name}": archive((entry(name), content)) for name, content in data.items()}
    carry, _ = run(tmp_path, [(ADDED, path) for path in archives], archives)
    assert set(carry.files) == {"/w/a", "/w/d"}
    assert carry.digests == {f"/w/{n}": hashlib.sha256(data[n]).hexdigest() for n in "bc"}
    with tarfile.open(carry.tar) as tar:
        for name, content in data.items():
            member = tar.extractfile(f"w/{name}")
            assert member is not None and member.read() == content


def test_memory_does_not_grow_with_what_was_left(tmp_path: Path) -> None:
    """Four attempts at 256 MiB each must fit beside everything else on a worker."""
    tracemalloc.start()
    try:
        run(tmp_path, [(ADDED, "/w/f")], {"/w/f": sparse_stream("f", 64 * MIB)}, cap_bytes=65 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB


def test_many_headers_are_not_remembered(tmp_path: Path) -> None:
    """tarfile keeps every header it read or wrote unless it is told not to."""
    names = [entry(f"d/{n:06d}") for n in range(4_000)]
    data = archive((entry("d", tarfile.DIRTYPE), b""), *((info, b"") for info in names))
    names.clear()
    tracemalloc.start()
    try:
        carry, _ = run(tmp_path, [(ADDED, "/w/d")], {"/w/d": data}, cap_bytes=64 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(carry.files), peak < 1_500_000) == (4_000, True), peak


def test_many_roots_are_fetched_as_few_and_filtered(tmp_path: Path) -> None:
    """res-inodes beside the workspace: one stream, of which only the changed part is taken."""
    changes = [(CHANGED, "/var/tmp"), *((ADDED, f"/var/tmp/{n}") for n in range(500))]
    members = [(entry(f"tmp/{n}"), b"new") for n in range(500)]
    image = [(entry("tmp", tarfile.DIRTYPE), b""), (entry("tmp/of-the-image"), b"x" * 400_000)]
    carry, container = run(tmp_path, changes, {"/var/tmp": archive(*image, *members)}, cap_bytes=300_000)
    assert container.fetched == ["/var/tmp"]
    assert len(carry.files) == 500 and "/var/tmp/of-the-image" not in {*carry.files, *carry.digests}


def test_a_leaf_folder_keeps_the_verifiers_own_entry(tmp_path: Path) -> None:
    """`/tmp` with a new time or mode must not arrive as a folder of ours; a replaced one must."""
    folder = archive((entry("tmp", tarfile.DIRTYPE, mode=0o1777), b""))
    carry, _ = run(tmp_path, [(CHANGED, "/tmp")], {"/tmp": folder})
    assert carried(carry) == {}
    carry, _ = run(tmp_path, [(CHANGED, "/tmp")], {"/tmp": folder}, was_folder=lambda path: False)
    assert oct(carried(carry)["tmp"].mode) == "0o1777"


def test_hard_links_keep_their_target(tmp_path: Path) -> None:
    """The engine writes link names relative to the fetched path's parent, like names."""
    data = archive(
        (entry("d", tarfile.DIRTYPE), b""),
        (entry("d/a"), b"x"),
        (entry("d/b", tarfile.LNKTYPE, "d/a"), b""),
        (entry("d/c", tarfile.LNKTYPE, "../etc/passwd"), b""),
    )
    carry, _ = run(tmp_path, [(ADDED, "/w/d")], {"/w/d": data})
    assert carried(carry)["w/d/b"].linkname == "w/d/a"
    assert [item.why for item in carry.dropped] == [Drop.HARDLINK]


raw_names = st.binary(min_size=1, max_size=40).filter(lambda raw: b"/" not in raw and b"\0" not in raw)


@settings(max_examples=60)
@given(st.lists(raw_names, min_size=1, max_size=8, unique=True))
def test_any_bytes_in_names_survive(tmp_path_factory: pytest.TempPathFactory, names: list[bytes]) -> None:
    """art-names: what the file system takes as a name goes through unharmed or is refused by name."""
    texts = [name.decode("utf-8", "surrogateescape") for name in names if name not in (b".", b"..")]
    data = archive((entry("d", tarfile.DIRTYPE), b""), *((entry(f"d/{text}"), b"x") for text in texts))
    carry, _ = run(tmp_path_factory.mktemp("names"), [(ADDED, "/w/d")], {"/w/d": data})
    assert set(carry.files) == {f"/w/d/{text}" for text in texts}
    assert {f"/{name}" for name in carried(carry)} == {"/w/d", *carry.files}


@settings(max_examples=60)
@given(st.binary(max_size=3_000), st.integers(0, 2_000))
def test_damaged_archives_never_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    """Whatever comes out of the stream: a carry, or one of our own errors."""
    good = archive((entry("d", tarfile.DIRTYPE), b""), (entry("d/f"), b"x" * 700))
    data = good[:at] + noise + good[at + len(noise) :]
    try:
        run(tmp_path_factory.mktemp("damage"), [(ADDED, "/w/d")], {"/w/d": data})
    except (ArchiveFormError, CarryOverflowError):
        return
