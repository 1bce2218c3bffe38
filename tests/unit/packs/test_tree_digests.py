"""Folder digests: independent of order, changed by every byte and x bit; the unpinnable is refused."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.packs.errors import PackError
from orchestrator.packs.tree import TreeEntry, scan_tree, tree_digest

NAMES = st.lists(st.text("abcdé", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(NAMES, st.tuples(st.binary(max_size=20), st.booleans()), min_size=1, max_size=6)


def _write(root: Path, files: dict[str, tuple[bytes, bool]]) -> list[str]:
    """Write what does not clash (a file where a folder is needed, or one name in two Unicode forms)."""
    written: list[str] = []
    for name, (content, executable) in files.items():
        parents = {"/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 1)}
        if parents & set(written) or any(other.startswith(name + "/") for other in written):
            continue
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if executable else 0o644)
        written.append(name)
    return written


@settings(max_examples=40, deadline=None)
@given(FILES, st.randoms(use_true_random=False))
def test_order_of_entries_and_of_writing_does_not_matter(
    files: dict[str, tuple[bytes, bool]], shuffler: random.Random
) -> None:
    """One content, one digest."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        written = _write(Path(first), files)
        again = [(name, files[name]) for name in written]
        shuffler.shuffle(again)
        _write(Path(second), dict(again))
        entries = list(scan_tree(Path(first), "x"))
        assert tree_digest(entries) == tree_digest(scan_tree(Path(second), "x"))
        shuffler.shuffle(entries)
        assert tree_digest(entries) == tree_digest(scan_tree(Path(first), "x"))


@settings(max_examples=40, deadline=None)
@given(FILES, st.data())
def test_every_byte_bit_and_name_counts(files: dict[str, tuple[bytes, bool]], data: st.DataObject) -> None:
    """Any flip of a byte, of an x bit, any rename, addition or removal gives another digest."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        victim = root / data.draw(st.sampled_from(_write(root, files)))
        before = tree_digest(scan_tree(root, "x"))
        kind = data.draw(st.sampled_from(["byte", "bit", "rename", "add", "remove"]))
        content = victim.read_bytes()
        if kind == "byte" and content:
            at = data.draw(st.integers(0, len(content) - 1))
            flip = 1 << data.draw(st.integers(0, 7))
            victim.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
        elif kind == "bit":
            victim.chmod(victim.stat().st_mode ^ 0o100)
        elif kind == "rename":
            victim.rename(victim.with_name("zz"))
        elif kind == "remove":
            victim.unlink()
        else:
            (root / "zz").write_bytes(b"")
        assert tree_digest(scan_tree(root, "x")) != before


def test_times_and_other_mode_bits_do_not_count(tmp_path: Path) -> None:
    """A clone made later, or under another umask, is the same content."""
    _write(tmp_path, {"a": (b"1", False)})
    before = tree_digest(scan_tree(tmp_path, "x"))
    (tmp_path / "a").chmod(0o600)
    os.utime(tmp_path / "a", (1, 1))
    (tmp_path / "empty").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("x")
    assert tree_digest(scan_tree(tmp_path, "x")) == before


def test_the_digest_has_a_known_form() -> None:
    """The form of a record is fixed: a change of it would change the identity of every pack."""
    entry = TreeEntry("a", "file", False, 1, "00" * 32)
    written_out = '[["a","file",false,1,"' + "00" * 32 + '"]]'
    assert tree_digest([entry]) == hashlib.sha256(written_out.encode()).hexdigest()


def test_links_that_stay_inside_are_pinned_by_their_target(tmp_path: Path) -> None:
    """Also a dangling one; another target is another digest."""
    (tmp_path / "link").symlink_to("a/../b")
    first = scan_tree(tmp_path, "x")
    assert [(item.kind, item.target) for item in first] == [("link", "a/../b")]
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("c")
    assert tree_digest(scan_tree(tmp_path, "x")) != tree_digest(first)


@pytest.mark.parametrize("target", ["../outside", "/etc/passwd", "sub/../../outside", "loop"])
def test_links_that_leave_are_refused(tmp_path: Path, target: str) -> None:
    """Escaping, absolute and endless links."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("secret")
    (root / "loop").symlink_to(target)
    with pytest.raises(PackError, match=r"x: loop: the link to .* leaves the folder"):
        scan_tree(root, "x")


def test_a_link_through_another_link_may_not_leave(tmp_path: Path) -> None:
    """The target is resolved, not only read."""
    root = tmp_path / "root"
    (root / "d" / "e").mkdir(parents=True)
    (root / "hop").symlink_to("d/e")
    (root / "out").symlink_to("hop/../../../outside")
    with pytest.raises(PackError, match="out: the link"):
        scan_tree(root, "x")


def test_special_files_pointers_and_colliding_names_are_all_listed(tmp_path: Path) -> None:
    """Each bad entry is named, in one error."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    for name in ("Data", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "Data" / "a").write_text("")
    (tmp_path / "data" / "b").write_text("")
    (tmp_path / "new\nline").write_text("")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_text("")
    with pytest.raises(PackError) as caught:
        scan_tree(tmp_path, "task demo")
    text = caught.value.message
    assert len(caught.value.problems) == 5
    for part in (
        "pipe: neither",
        "big.bin: a Git LFS pointer",
        "differs from",
        "control character",
        "not valid UTF-8",
    ):
        assert part in text
