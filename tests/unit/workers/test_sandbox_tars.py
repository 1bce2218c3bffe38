"""Archives for the engine: exact owners and modes, concatenation, private trees; users by number and name."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from workers.errors import ContainerGoneError
from workers.sandbox.profile import PID1_UID
from workers.sandbox.tars import ROOT, Owner, TarBuilder
from workers.sandbox.users import UnknownUserError, resolve_owner


def members(raw: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {info.name: info for info in tar}


def content(raw: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        found = tar.extractfile(name)
        assert found is not None
        return found.read()


def test_owners_and_modes_are_exact() -> None:
    """The engine applies them as they are; times are fixed, so that equal content has equal bytes."""
    tar = TarBuilder()
    tar.folder("/a", 0o700, Owner(1000, 2000))
    tar.file("/a/f", b"x", 0o444)
    tar.link("/a/l", "f", Owner(5, 6))
    found = members(tar.bytes())
    assert [(i.name, oct(i.mode), i.uid, i.gid, i.mtime) for i in found.values()] == [
        ("a", "0o700", 1000, 2000, 0),
        ("a/f", "0o444", 0, 0, 0),
        ("a/l", "0o777", 5, 6, 0),
    ]
    assert found["a"].isdir() and found["a/l"].linkname == "f"
    assert {(i.uname, i.gname) for i in found.values()} == {("", "")}


def test_a_folder_is_written_once_and_the_root_never() -> None:
    """A second entry would reset owner and mode; `/` is not ours."""
    tar = TarBuilder()
    for _ in range(2):
        tar.folder("/a/", 0o700)
    tar.folder("a", 0o755)
    tar.folder("/", 0o700)
    assert [oct(info.mode) for info in members(tar.bytes()).values()] == ["0o700"]


def test_members_of_another_archive_are_appended() -> None:
    """The verifier's archive is our own part, then what the agent left, byte by byte."""
    other = TarBuilder()
    other.file("/w/agent", b"agent's", 0o600, Owner(1, 1))
    body = other.bytes()[:1024]
    tar = TarBuilder()
    tar.file("/before", b"1", 0o644)
    tar.members(body)
    tar.file("/after", b"2" * 700, 0o644)
    raw = tar.bytes()
    assert list(members(raw)) == ["before", "w/agent", "after"]
    assert content(raw, "w/agent") == b"agent's" and content(raw, "after") == b"2" * 700
    assert len(raw) % tarfile.RECORDSIZE == 0


def test_long_and_odd_names_survive() -> None:
    """Names beyond the old header's field, and bytes that are no text."""
    tar = TarBuilder()
    names = ["/" + "d" * 200 + "/" + "f" * 200, "/caf\udce9", "/new\nline"]
    for name in names:
        tar.file(name, b"x", 0o644)
    assert list(members(tar.bytes())) == [name[1:] for name in names]


@pytest.mark.parametrize(("private", "expected"), [(True, ["0o700", "0o600"]), (False, ["0o755", "0o644"])])
def test_trees(tmp_path: Path, private: bool, expected: list[str]) -> None:
    """Hidden tests are for their owner alone: agent code of another uid in the verifier cannot read them."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "test.sh").write_text("run")
    (tmp_path / "test.sh").chmod(0o755)
    (tmp_path / "lib/data").write_text("data")
    (tmp_path / "unlisted").write_text("not ours")
    tar = TarBuilder()
    tar.tree(tmp_path, ("test.sh", "lib/data"), "/tests", Owner(7, 8), private=private)
    found = members(tar.bytes())
    assert list(found) == ["tests", "tests/lib", "tests/lib/data", "tests/test.sh"]
    assert {(info.uid, info.gid) for info in found.values()} == {(7, 8)}
    folder, plain = expected
    modes = {name: oct(info.mode) for name, info in found.items()}
    assert modes == {
        "tests": folder,
        "tests/lib": folder,
        "tests/lib/data": plain,
        "tests/test.sh": folder,
    }


PASSWD = "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1001::/home/agent:/bin/sh\nshort:x\nbad:x:one:two:::\n"


def passwd(text: str = PASSWD, kind: bytes = tarfile.REGTYPE) -> Iterable[bytes]:
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("passwd")
        info.type, info.size = kind, len(text) if kind == tarfile.REGTYPE else 0
        tar.addfile(info, io.BytesIO(text.encode()))
    return [buffer.getvalue()]


@pytest.mark.parametrize(
    ("wanted", "image_user", "owner"),
    [
        (None, "", Owner(0, 0)),
        (None, "1000", Owner(1000, 1000)),
        (None, "agent", Owner(1000, 1001)),
        ("0", "agent", Owner(0, 0)),
        ("1000:5", "", Owner(1000, 5)),
        ("root", "", Owner(0, 0)),
        ("agent", "", Owner(1000, 1001)),
        ("agent:staff", "", Owner(1000, 1001)),
    ],
)
def test_users(wanted: str | None, image_user: str, owner: Owner) -> None:
    """By number, by name, or the image's own."""
    assert resolve_owner(passwd, wanted, image_user) == owner


@pytest.mark.parametrize("wanted", ["0", "1000:1", "root"])
def test_numbers_need_no_file(wanted: str) -> None:
    """The image's file is read for names only."""

    def never() -> Iterable[bytes]:
        raise AssertionError("read")

    resolve_owner(never, wanted, "")


@pytest.mark.parametrize(
    "wanted", ["nobody-here", "short", "bad", str(PID1_UID), f"{PID1_UID}:0", "9999999999", "-1", "1000:"]
)
def test_users_that_cannot_be(wanted: str) -> None:
    """Unknown, malformed, or the one that is reserved for PID 1."""
    with pytest.raises(UnknownUserError):
        resolve_owner(passwd, wanted, "")


def gone() -> Iterable[bytes]:
    raise ContainerGoneError("get_archive", "NotFound", "", 404)


@pytest.mark.parametrize(
    "broken",
    [
        gone,
        lambda: passwd(kind=tarfile.FIFOTYPE),
        lambda: passwd(kind=tarfile.SYMTYPE),
        lambda: [],
        lambda: [b"no archive" * 100],
        lambda: passwd("x" * (2 << 20)),
    ],
    ids=["gone", "pipe", "link", "empty", "noise", "huge"],
)
def test_an_image_whose_users_cannot_be_read(broken: object) -> None:
    """One typed error, whatever is wrong with the file."""
    with pytest.raises(UnknownUserError):
        resolve_owner(broken, "agent", "")  # type: ignore[arg-type]


def test_root_is_the_default_owner() -> None:
    """Folders of ours belong to nobody's agent."""
    assert Owner(0, 0) == ROOT
