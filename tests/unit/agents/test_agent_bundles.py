"""Bundles: the MANIFEST, its digest, the deterministic tar, refusals (reference/agents.md section 4)."""

from __future__ import annotations

import hashlib
import io
import os
import random
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.agents import bundle as bundles
from orchestrator.agents.bundle import (
    BundleManifest,
    copy_bundle,
    manifest_of_tar,
    read_bundle,
    write_bundle_tar,
)
from orchestrator.agents.errors import BundleError

FILES = st.dictionaries(
    st.lists(st.text("abé ", min_size=1, max_size=3).map(lambda s: f"n{s}n"), min_size=1, max_size=3).map(
        lambda parts: "/".join(["d", *parts[:-1], f"f-{parts[-1]}"])
    ),
    st.tuples(st.binary(max_size=30), st.booleans()),
    min_size=1,
    max_size=6,
)


def _fill(root: Path, files: dict[str, tuple[bytes, bool]]) -> Path:
    for name, (content, executable) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if executable else 0o644)
    return root


def _tar(root: Path) -> bytes:
    out = io.BytesIO()
    write_bundle_tar(root, out)
    return out.getvalue()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A bundle with a program, data and a link."""
    folder = _fill(tmp_path / "b", {"bin/run": (b"#!/bin/sh\n", True), "a.txt": (b"x", False)})
    (folder / "bin" / "link").symlink_to("../a.txt")
    return folder


def test_the_manifest_has_the_stated_form(root: Path) -> None:
    """`type mode size sha256 path`, links with target, sorted by path."""

    def sha(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    manifest = read_bundle(root)
    assert manifest.text == (
        f"f - 1 {sha(b'x')} a.txt\n"
        f"l - 8 {sha(b'../a.txt')} bin/link -> ../a.txt\n"
        f"f x 10 {sha(b'#!/bin/sh' + chr(10).encode())} bin/run\n"
    )
    assert manifest.digest == sha(manifest.text.encode())
    assert manifest.total_bytes == 11


@settings(max_examples=30, deadline=None)
@given(FILES, st.randoms(use_true_random=False), st.data())
def test_one_content_one_digest_one_tar(
    files: dict[str, tuple[bytes, bool]], shuffler: random.Random, data: st.DataObject
) -> None:
    """Order, times and umask do not matter; a flipped byte or x bit does; the tar reads back to the same."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        one = _fill(Path(first), files)
        items = list(files.items())
        shuffler.shuffle(items)
        two = _fill(Path(second), dict(items))
        victim = two / data.draw(st.sampled_from(sorted(files)))
        os.utime(victim, (1, 1))
        victim.chmod(victim.stat().st_mode & 0o700)
        manifest = read_bundle(one)
        assert read_bundle(two).digest == manifest.digest
        entries = list(manifest.entries)
        shuffler.shuffle(entries)
        assert BundleManifest.of(entries) == manifest
        raw = _tar(one)
        assert _tar(two) == raw
        assert manifest_of_tar(io.BytesIO(raw)) == manifest
        if data.draw(st.booleans()):
            victim.chmod(victim.stat().st_mode ^ 0o100)
        else:
            victim.write_bytes(victim.read_bytes() + b"!")
        assert read_bundle(two).digest != manifest.digest


def test_the_tar_holds_nothing_of_this_machine(root: Path) -> None:
    """Owner 0, no names, time 0, two modes; MANIFEST first, folders before what is in them."""
    with tarfile.open(fileobj=io.BytesIO(_tar(root))) as tar:
        members = tar.getmembers()
        stated = tar.extractfile("MANIFEST")
        assert stated is not None and stated.read().decode() == read_bundle(root).text
    assert [member.name for member in members] == ["MANIFEST", "a.txt", "bin", "bin/link", "bin/run"]
    for member in members:
        assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
    assert [member.mode for member in members] == [0o644, 0o644, 0o755, 0o777, 0o755]


def test_a_tar_below_a_folder_is_read_and_strangers_are_refused(root: Path) -> None:
    """The engine's archive call puts everything under one folder; devices and outsiders are refused."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(root, "agent")
    assert manifest_of_tar(io.BytesIO(out.getvalue()), top="agent") == read_bundle(root)
    with pytest.raises(BundleError, match="outside of other"):
        manifest_of_tar(io.BytesIO(out.getvalue()), top="other")
    for kind, mode in ((tarfile.CHRTYPE, 0o644), (tarfile.REGTYPE, 0o4755), (tarfile.LNKTYPE, 0o644)):
        bad = io.BytesIO()
        with tarfile.open(fileobj=bad, mode="w") as tar:
            info = tarfile.TarInfo("x")
            info.type, info.mode, info.linkname = kind, mode, "y"
            tar.addfile(info)
        with pytest.raises(BundleError, match="neither a plain file, a folder nor a link"):
            manifest_of_tar(io.BytesIO(bad.getvalue()))
    with pytest.raises(BundleError, match="not a readable tar"):
        manifest_of_tar(io.BytesIO(b"junk" * 300))


def test_what_cannot_be_pinned_is_listed(root: Path) -> None:
    """Escaping and absolute links, set-id files, special files, strange names: all in one error."""
    (root / "up").symlink_to("../../etc/passwd")
    (root / "abs").symlink_to("/bin/sh")
    (root / "self").symlink_to("self")
    (root / "suid").write_text("")
    (root / "suid").chmod(0o4755)
    (root / "sgid").write_text("")
    (root / "sgid").chmod(0o2755)
    os.mkfifo(root / "pipe")
    (root / "a -> b").write_text("")
    (root / "new\nline").write_text("")
    with pytest.raises(BundleError) as caught:
        read_bundle(root)
    text = caught.value.message
    assert "8 problems" in text
    for part in ("up: the link", "abs: the link", "self: the link", "suid: set-user-id", "sgid: set-user-id"):
        assert part in text
    assert "pipe: neither" in text and text.count("not a plain file name") == 2


def test_an_empty_or_missing_bundle_is_refused(tmp_path: Path) -> None:
    """Nothing to run is a mistake."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match="the folder is empty"):
        read_bundle(tmp_path / "empty")
    with pytest.raises(BundleError, match="not a folder"):
        read_bundle(tmp_path / "none")


def test_a_manifest_in_the_bundle_must_be_right(root: Path) -> None:
    """It is left out of itself, and checked."""
    before = read_bundle(root)
    (root / "MANIFEST").write_text(before.text)
    assert read_bundle(root) == before
    (root / "MANIFEST").write_text(before.text + "f - 0 00 x\n")
    with pytest.raises(BundleError, match="does not describe its files"):
        read_bundle(root)


@pytest.mark.parametrize("content", [b"yy", b"y", b""])
def test_a_file_that_changes_while_it_is_written_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Longer, same length, shorter: the tar is never wrong in silence."""
    manifest = read_bundle(root)
    (root / "a.txt").write_bytes(content)
    monkeypatch.setattr(bundles, "read_bundle", lambda folder: manifest)
    with pytest.raises(BundleError, match=r"a\.txt changed while it was read"):
        write_bundle_tar(root, io.BytesIO())


def test_a_copy_is_the_same_bundle_with_nothing_of_this_machine(root: Path, tmp_path: Path) -> None:
    """Two modes, time 0, links as they are, its MANIFEST with it."""
    manifest, target = read_bundle(root), tmp_path / "copy"
    target.mkdir()
    copy_bundle(root, manifest, target)
    assert read_bundle(target) == manifest and (target / "MANIFEST").read_text() == manifest.text
    assert os.readlink(target / "bin" / "link") == os.readlink(root / "bin" / "link")
    for entry in manifest.entries:
        info = (target / entry.path).lstat()
        if entry.type == "f":
            assert (info.st_mode & 0o7777, info.st_mtime) == (0o755 if entry.executable else 0o644, 0.0)


@pytest.mark.parametrize("content", [b"yy", b"y", b"", None])
def test_a_file_that_changes_while_it_is_copied_is_noticed(
    root: Path, tmp_path: Path, content: bytes | None
) -> None:
    """Longer, same length, shorter, gone: what was pinned is copied or nothing."""
    manifest, target = read_bundle(root), tmp_path / "copy"
    target.mkdir()
    (root / "a.txt").unlink()
    if content is not None:
        (root / "a.txt").write_bytes(content)
    with pytest.raises(BundleError, match=r"a\.txt changed while it was read"):
        copy_bundle(root, manifest, target)
