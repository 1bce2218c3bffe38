"""Which source reads what: layer first, engine where only it can tell; what a running container writes."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.capture import growth
from workers.capture import source as module
from workers.capture.layer import LayerUnusableError, Member, OverlayLayer
from workers.capture.originals import Originals
from workers.capture.source import EngineSource, LayerSource, source_of
from workers.errors import (
    ArchiveFormError,
    CarryOverflowError,
    EngineCallError,
    PathRefusedError,
)
from workers.sandbox import disk
from workers.sandbox.client import Engine
from workers.sandbox.container import MAX_CHANGES_BYTES, Container
from workers.sandbox.disk import DiskWatch, Free
from workers.sandbox.station import Station
from workers.sandbox.watch import EngineWatch


class FakeLayer:
    """An overlay layer that fails where it is told to."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def _answer(self, name: str, default: Any) -> Any:
        found = self._answers.get(name, default)
        if isinstance(found, Exception):
            raise found
        return found

    def changes(self) -> Any:
        return self._answer("changes", [(1, "/layer")])

    def covers(self, path: str) -> Any:
        return self._answer("covers", True)

    def was_folder(self, path: str) -> Any:
        return self._answer("was_folder", False)

    def original(self, path: str) -> Any:
        return self._answer("original", b"x" * 1_000)

    def members(self, path: str) -> Iterator[Member]:
        for size in self._answer("members", [1]):
            if isinstance(size, Exception):
                raise size
            info = tarfile.TarInfo("f")
            info.size = size
            yield Member(f"{path}/{size}", info, None)


class FakeEngineSource:
    def changes(self) -> list[tuple[int, str]]:
        return [(0, "/engine")]

    def members(self, path: str, cap_bytes: int) -> Iterator[Member]:
        yield Member("/from/engine", tarfile.TarInfo("f"), None)


def layered(**answers: Any) -> LayerSource:
    return LayerSource(cast(OverlayLayer, FakeLayer(**answers)), cast(EngineSource, FakeEngineSource()))


def test_the_layer_answers_where_it_can() -> None:
    """No engine call for the usual try."""
    source = layered()
    assert source.changes() == [(1, "/layer")]
    assert [member.path for member in source.members("/w", 100)] == ["/w/1"]
    assert source.was_folder("/w") is False


@pytest.mark.parametrize("error", [LayerUnusableError("x"), OSError("x"), PermissionError("x")])
def test_the_engine_answers_where_the_layer_cannot(error: Exception) -> None:
    """A layer that went out of sight is no fault of anybody."""
    assert layered(changes=error).changes() == [(0, "/engine")]
    assert [member.path for member in layered(covers=False).members("/w", 100)] == ["/from/engine"]


def test_too_many_changes_are_not_asked_for_again() -> None:
    """The engine would list the same million."""
    with pytest.raises(CarryOverflowError):
        layered(changes=CarryOverflowError("x")).changes()


def test_far_beyond_the_cap_reading_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Things that nobody takes are not read without end."""
    monkeypatch.setattr(module, "_SLACK_BYTES", 1_000)
    assert len(list(layered(members=[100, 100]).members("/w", 2_000))) == 2
    with pytest.raises(CarryOverflowError):
        list(layered(members=[2_000, 2_000]).members("/w", 2_000))


def test_a_layer_that_fails_while_it_is_read_is_an_error() -> None:
    """Half a folder must not be graded."""
    with pytest.raises(ArchiveFormError):
        list(layered(members=[1, OSError(5, "input/output error")]).members("/w", 100))


def test_originals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that empties every file of an image does not bring the image into memory."""
    monkeypatch.setattr(module, "_ORIGINALS_BYTES", 5_000)
    assert len(layered().originals(f"/{n}" for n in range(100))) == 5
    assert layered(original=None).originals(["/a"]) == {}


def test_which_source_a_container_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the engine said about its storage when it was created."""
    container = cast(Container, SimpleNamespace(created={}))
    assert isinstance(source_of(container, lambda paths: {}), EngineSource)
    monkeypatch.setattr(OverlayLayer, "of", classmethod(lambda cls, created: FakeLayer()))
    assert isinstance(source_of(container, lambda paths: {}), LayerSource)


class FakeEngine:
    """Streams by path; everything else is not asked."""

    def __init__(self, streams: dict[str, Any], stats: dict[str, Any] | None = None) -> None:
        self._streams = streams
        self._stats = stats or {}
        self.asked: list[str] = []

    def stream(self, call: str, where: str, **params: str) -> Any:
        self.asked.append(where)
        found = self._streams[call]
        if isinstance(found, Exception):
            raise found
        return iter_closing(found)

    def path_stat(self, container_id: str, path: str) -> Any:
        self.asked.append(path)
        return self._stats.get(path)


def iter_closing(chunks: Any) -> Any:
    yield from chunks


def container(streams: dict[str, Any], stats: dict[str, Any] | None = None) -> Container:
    engine = cast(Engine, FakeEngine(streams, stats))
    return Container(engine, cast(EngineWatch, None), "c" * 64, {})


def test_a_list_of_changes_that_is_too_long() -> None:
    """Names of four thousand bytes, a million times, must not reach the worker's memory."""
    served = 0

    def endless() -> Iterator[bytes]:
        nonlocal served
        while True:
            served += 1
            yield b" " * (1 << 20)

    with pytest.raises(CarryOverflowError):
        container({"changes": endless()}).changes()
    assert served == (MAX_CHANGES_BYTES >> 20) + 1


@pytest.mark.parametrize(
    ("answer", "size"), [({"SizeRw": 5}, 5), ({"SizeRw": None}, 0), ({}, 0), ({"SizeRw": -1}, 1 << 62)]
)
def test_what_a_container_has_written(answer: dict[str, Any], size: int) -> None:
    """A tree that the engine cannot walk is no way around the limit."""
    assert container({"size": [json.dumps(answer).encode()]}).written_bytes() == size


FILE, FOLDER, PIPE, LINK = 0o644, (1 << 31) | 0o755, (1 << 25) | 0o644, (1 << 27) | 0o777


@pytest.mark.parametrize(
    ("stats", "plain"),
    [
        ({}, True),
        ({"/etc/passwd": {"mode": FILE, "size": 900}, "/etc/group": {"mode": FILE, "size": 400}}, True),
        ({"/etc/passwd": {"mode": PIPE, "size": 0}}, False),
        ({"/etc/passwd": {"mode": LINK, "size": 9}}, False),
        ({"/etc/passwd": {"mode": FOLDER, "size": 4096}}, False),
        ({"/etc/group": {"mode": PIPE, "size": 0}}, False),
        ({"/etc/group": {"mode": FILE, "size": 1 << 40}}, False),
    ],
)
def test_files_of_users_that_the_engine_would_hang_on(stats: dict[str, Any], plain: bool) -> None:
    """The engine opens them at every start and exec: a pipe there blocks it for ever, a terabyte fills it."""
    assert container({}, stats).has_plain_users() is plain


def test_folders_of_an_image_are_asked_once() -> None:
    """From a never-started container; what is not there counts as a folder, since nothing is replaced."""
    made: list[str] = []
    stats = {"/d": {"mode": FOLDER, "size": 1}, "/f": {"mode": FILE, "size": 1}}
    reference = container({}, stats)

    def create(image_id: str) -> Container:
        made.append(image_id)
        return reference

    originals = Originals(create)
    for _ in range(2):
        assert [originals.was_folder("i", path) for path in ("/d", "/f", "/none")] == [True, False, True]
    assert made == ["i"] and cast(FakeEngine, reference._engine).asked == ["/d", "/f", "/none"]


@pytest.mark.parametrize(
    "error",
    [PathRefusedError("get_archive", "APIError", "x"), CarryOverflowError("x")],
)
def test_originals_that_cannot_be_read_are_none(error: Exception) -> None:
    """Only the diff is poorer for it."""
    originals = Originals(lambda image_id: container({"get_archive": error}))
    assert originals.of("i", ["/x"]) == {}


def watched(
    monkeypatch: pytest.MonkeyPatch, written: Any, changes: Any, free: Callable[[], Free]
) -> DiskWatch:
    def answer(found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    fake = SimpleNamespace(created={}, written_bytes=lambda: answer(written), changes=lambda: answer(changes))
    monkeypatch.setattr(disk, "free_on", lambda root: free())
    station = SimpleNamespace(disk_root=lambda: "/")
    return growth.disk_watch(cast(Station, station), cast(Container, fake))


@pytest.mark.parametrize(
    ("written", "over"),
    [(1 << 40, True), (5, False), (EngineCallError("size", "ReadTimeout", "slow"), False)],
)
def test_bytes_of_a_running_container(monkeypatch: pytest.MonkeyPatch, written: Any, over: bool) -> None:
    """A measurement that fails is no verdict on the agent, and no fault of the platform."""
    states = iter([Free(1 << 40, 10**7), *[Free(1 << 30, 10**7)] * 2])
    watch = watched(monkeypatch, written, [], lambda: next(states))
    assert (watch.due() is not None and watch.measure()) is over


@pytest.mark.parametrize(
    ("changes", "over"),
    [
        (CarryOverflowError("x"), True),
        ([], False),
        (EngineCallError("changes", "ReadTimeout", "slow"), False),
        (PathRefusedError("changes", "APIError", "file name too long"), False),
        (OSError("vanished"), False),
    ],
)
def test_files_of_a_running_container(
    monkeypatch: pytest.MonkeyPatch, changes: Any, over: bool, tmp_path: Path
) -> None:
    """Counted by the collector's own means, while they change under its hands."""
    states = iter([Free(1 << 40, 10**7), *[Free(1 << 40, 10**6)] * 2])
    watch = watched(monkeypatch, 0, changes, lambda: next(states))
    assert (watch.due() is not None and watch.measure()) is over
