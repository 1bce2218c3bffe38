"""Build contexts: the same bytes give the same tar, other bytes another digest, nothing leaves the folder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from sandbox_images.context import SENT_DOCKERFILE, BuildContext, read_context
from sandbox_images.errors import BuildContextError


def make(folder: Path, files: dict[str, str], mtime_s: int = 1_600_000_000) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (mtime_s, mtime_s))
    return folder


def tar_bytes(context: BuildContext) -> bytes:
    out = io.BytesIO()
    context.write_tar(out, "FROM scratch\n")
    return out.getvalue()


FILES = {"Dockerfile": "FROM scratch\n", "b/x.txt": "1", "a.sh": "#!/bin/sh\n"}


def test_same_bytes_give_the_same_tar_whatever_dates_modes_and_order(tmp_path: Path) -> None:
    """DESIGN 3, prepare: a tar that we hash ourselves; dates, owners and umask play no part."""
    one = make(tmp_path / "one", FILES)
    two = make(tmp_path / "two", dict(reversed(FILES.items())), mtime_s=1_700_000_000)
    (two / "b" / "x.txt").chmod(0o600)
    first, second = read_context(one), read_context(two)
    assert first.digest == second.digest
    assert tar_bytes(first) == tar_bytes(second)


def test_same_size_and_date_but_other_bytes_give_another_digest(tmp_path: Path) -> None:
    """reference/harbor.md 9: size and date must never stand for the content."""
    one = read_context(make(tmp_path / "a", {**FILES, "t": "AAAA"}))
    two = read_context(make(tmp_path / "b", {**FILES, "t": "BBBB"}))
    assert one.digest != two.digest


def test_executable_bit_counts(tmp_path: Path) -> None:
    folder = make(tmp_path / "a", FILES)
    before = read_context(folder).digest
    (folder / "a.sh").chmod(0o755)
    assert read_context(folder).digest != before


def test_ignore_file_is_honoured_and_our_members_are_ignored_by_the_engine(tmp_path: Path) -> None:
    """What .dockerignore names is neither hashed nor sent; `COPY .` must not see our own two members."""
    folder = make(
        tmp_path / "a", {**FILES, ".dockerignore": "*.log\n!keep.log\n", "x.log": "x", "keep.log": "k"}
    )
    context = read_context(folder)
    assert {"keep.log", "Dockerfile"} <= set(context.files())
    assert "x.log" not in context.files()
    with tarfile.open(fileobj=io.BytesIO(tar_bytes(context))) as tar:
        names = tar.getnames()
        sent = tar.extractfile(".dockerignore")
        assert sent is not None
        assert sent.read().decode().split() == [SENT_DOCKERFILE, ".dockerignore"]
    assert names.count(".dockerignore") == 1
    assert names.count(SENT_DOCKERFILE) == 1


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "b/../../outside"])
def test_a_link_out_of_the_context_is_refused_by_name(tmp_path: Path, target: str) -> None:
    folder = make(tmp_path / "a", FILES)
    (folder / "link").symlink_to(target)
    with pytest.raises(BuildContextError, match=r"the link link -> .* leaves"):
        read_context(folder)


def test_a_link_inside_the_context_stays_a_link(tmp_path: Path) -> None:
    folder = make(tmp_path / "a", FILES)
    (folder / "b" / "up").symlink_to("../a.sh")
    with tarfile.open(fileobj=io.BytesIO(tar_bytes(read_context(folder)))) as tar:
        member = tar.getmember("b/up")
    assert member.issym()
    assert member.linkname == "../a.sh"


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    folder = make(tmp_path / "a", FILES)
    os.mkfifo(folder / "pipe")
    with pytest.raises(BuildContextError, match="pipe is neither"):
        read_context(folder)


def test_a_file_changed_between_hash_and_send_is_refused(tmp_path: Path) -> None:
    """The bytes sent are the bytes hashed, or nothing is sent."""
    folder = make(tmp_path / "a", FILES)
    context = read_context(folder)
    (folder / "b" / "x.txt").write_text("2")
    with pytest.raises(BuildContextError, match=r"x\.txt changed"):
        tar_bytes(context)


def test_missing_dockerfile_and_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(BuildContextError, match="there is no file Dockerfile"):
        read_context(make(tmp_path / "a", {"x": "1"}))
    with pytest.raises(BuildContextError, match="no build context folder"):
        read_context(tmp_path / "none")


def test_our_reserved_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildContextError, match="is taken"):
        read_context(make(tmp_path / "a", {**FILES, SENT_DOCKERFILE: "FROM x"}))
