"""Which members of an agent's archive may cross: paths, kinds, links (reference/sandbox.md 1.4)."""

from __future__ import annotations

import posixpath
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.capture.members import (
    MAX_DEPTH,
    MAX_LINK_BYTES,
    MAX_PATH_BYTES,
    MAX_SHOWN,
    RESERVED,
    Drop,
    MemberFilter,
    below,
    path_form_ok,
    shown,
    within,
)

ROOTS = ("/workspace", "/srv/new", "/logs/artifacts")


def member(kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo("ignored")
    info.type, info.linkname = kind, link
    return info


def refusal(path: str, info: tarfile.TarInfo, filter_: MemberFilter | None = None) -> Drop | None:
    filter_ = filter_ or MemberFilter(ROOTS)
    return None if filter_.admit(path, info) else filter_.dropped[-1].why


def link(path: str, target: str) -> Drop | None:
    return refusal(path, member(tarfile.SYMTYPE, target))


@pytest.mark.parametrize(
    ("path", "ok"),
    [
        ("/workspace/a", True),
        ("/workspace/" + "n" * 255, True),
        ("/a\nb\x1b[31m\udcff", True),
        ("relative", False),
        ("", False),
        ("/", True),
        ("//", False),
        ("/a//b", False),
        ("/a/../b", False),
        ("/a/./b", False),
        ("/a/", False),
        ("/a\0b", False),
        ("/" + "x" * MAX_PATH_BYTES, False),
        ("/" + "x" * (MAX_PATH_BYTES - 1), True),
        ("/" + "\u20ac" * 341, True),
        ("/" + "\u20ac" * 342, False),
        ("/a" * MAX_DEPTH, True),
        ("/a" * (MAX_DEPTH + 1), False),
        ("/\ud800", False),
    ],
)
def test_the_form_of_paths(path: str, ok: bool) -> None:
    """Absolute, normalised, bounded in bytes (not characters) and depth."""
    assert path_form_ok(path) is ok


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (tarfile.REGTYPE, None),
        (tarfile.AREGTYPE, None),
        (tarfile.DIRTYPE, None),
        (tarfile.FIFOTYPE, Drop.KIND),
        (tarfile.CHRTYPE, Drop.KIND),
        (tarfile.BLKTYPE, Drop.KIND),
        (b"s", Drop.KIND),
    ],
)
def test_kinds(kind: bytes, why: Drop | None) -> None:
    """Regular files and directories cross; pipes, devices and what nobody knows do not."""
    assert refusal("/workspace/x", member(kind)) is why


@pytest.mark.parametrize("place", RESERVED)
def test_nothing_is_carried_to_places_of_ours(place: str) -> None:
    """Hidden tests, verdicts, our own files and the kernel's cannot be prepared by the agent."""
    assert refusal(place, member(tarfile.DIRTYPE)) is Drop.RESERVED
    assert refusal(place + "/x", member()) is Drop.RESERVED
    assert refusal(place + "x", member()) is None


def test_the_artifact_folder_is_the_exception() -> None:
    """harbor.md section 1: `/logs/artifacts` crosses by convention, its neighbours do not."""
    assert refusal("/logs/artifacts/x", member()) is None
    assert refusal("/logs/artifactsx", member()) is Drop.RESERVED
    assert refusal("/logs/verifier/reward.txt", member()) is Drop.RESERVED


@pytest.mark.parametrize(
    ("path", "target", "ok"),
    [
        ("/workspace/a", "b", True),
        ("/workspace/d/a", "../b", True),
        ("/workspace/d/a", "../../srv/new/x", True),
        ("/workspace/a", "/srv/new", True),
        ("/workspace/a", "/usr/bin/python3", True),
        ("/workspace/a", "./b/./c", True),
        ("/workspace/a", "/bin/sh", True),
        ("/workspace/a", "a", True),
        ("/workspace/a", "..", False),
        ("/workspace/a", "/", False),
        ("/workspace/a", ".", True),
        ("/workspace/a", "../..", False),
        ("/workspace/a", "../../../../tests/test.sh", False),
        ("/workspace/a", "/tests/test.sh", False),
        ("/workspace/a", "/tests", False),
        ("/workspace/a", "../tests", False),
        ("/workspace/a", "/etc/shadow", False),
        ("/workspace/a", "/proc/self/root", False),
        ("/workspace/a", "/logs/verifier", False),
        ("/workspace/a", "/opt/agent/key", False),
        ("/workspace/a", "u/../tests/test.sh", False),
        ("/workspace/a", "/usr/../tests/test.sh", False),
        ("/workspace/a", "/../tests", False),
        ("/workspace/a", "//tests/test.sh", False),
        ("/workspace/a", "///tests/test.sh", False),
        ("/workspace/a", "//workspace/b", True),
        ("/workspace/a", "//", False),
        ("/workspace/a", "d/..", False),
        ("/workspace/a", "", False),
        ("/workspace/a", "x\0y", False),
        ("/workspace/a", "x" * MAX_LINK_BYTES, True),
        ("/workspace/a", "x" * (MAX_LINK_BYTES + 1), False),
        ("/workspacex/a", "b", False),
    ],
)
def test_link_targets(path: str, target: str, ok: bool) -> None:
    """A link may only lead, step by step, to carried places or to programs that every image has."""
    assert (link(path, target) is None) is ok


def test_a_parent_step_behind_another_link_cannot_reach_the_tests() -> None:
    """`u -> /usr` is harmless, `u/../tests` is not what its name says: it is `/tests`."""
    filter_ = MemberFilter(ROOTS)
    assert refusal("/workspace/u", member(tarfile.SYMTYPE, "/usr"), filter_) is None
    assert refusal("/workspace/out", member(tarfile.SYMTYPE, "u/../tests/x"), filter_) is Drop.LINK_TARGET


@given(
    st.lists(st.sampled_from(["..", ".", "u", "usr", "tests", "a", ""]), min_size=1, max_size=7),
    st.booleans(),
    st.sampled_from(["/workspace/out", "/workspace/a/out", "/srv/new/out"]),
)
def test_no_admitted_chain_of_links_reaches_a_reserved_place(
    parts: list[str], absolute: bool, path: str
) -> None:
    """With `u` linking to `/usr` in every carried folder, whatever is admitted resolves outside RESERVED."""
    target = ("/" if absolute else "") + "/".join(parts)
    filter_ = MemberFilter(ROOTS)
    for place in ("/workspace/u", "/workspace/a/u", "/srv/new/u"):
        assert filter_.admit(place, member(tarfile.SYMTYPE, "/usr"))
    if filter_.admit(path, member(tarfile.SYMTYPE, target)):
        assert not within(resolved(posixpath.dirname(path), target), RESERVED)


def resolved(folder: str, target: str) -> str:
    """What a kernel does, where `u` is a link to `/usr` and everything else is a folder."""
    place = [] if target.startswith("/") else folder.strip("/").split("/")
    for part in target.split("/"):
        if part == "..":
            place = place[:-1]
        elif part == "u":
            place = ["usr"]
        elif part not in ("", "."):
            place = [*place, part]
    return "/" + "/".join(place)


def test_nothing_goes_through_a_carried_link() -> None:
    """A path below an admitted link would be written wherever the link leads."""
    filter_ = MemberFilter(ROOTS)
    assert refusal("/workspace/l", member(tarfile.SYMTYPE, "/usr/lib"), filter_) is None
    assert refusal("/workspace/l/x", member(), filter_) is Drop.THROUGH_LINK
    assert refusal("/workspace/l/d/e/x", member(), filter_) is Drop.THROUGH_LINK
    assert refusal("/workspace/lx", member(), filter_) is None


def test_hard_links_only_to_carried_files() -> None:
    """A hard link to something that did not cross would fail, or give away another file."""
    filter_ = MemberFilter(ROOTS)
    assert refusal("/workspace/h", member(tarfile.LNKTYPE, "workspace/f"), filter_) is Drop.HARDLINK
    assert refusal("/workspace/f", member(), filter_) is None
    assert refusal("/workspace/h", member(tarfile.LNKTYPE, "workspace/f"), filter_) is None
    assert refusal("/workspace/s", member(tarfile.SYMTYPE, "f"), filter_) is None
    assert refusal("/workspace/t", member(tarfile.LNKTYPE, "workspace/s"), filter_) is Drop.HARDLINK
    assert refusal("/workspace/p", member(tarfile.LNKTYPE, "etc/passwd"), filter_) is Drop.HARDLINK


def test_a_place_can_be_refused_for_every_path() -> None:
    """The caller's rule is asked for each member, whatever root it came with."""
    filter_ = MemberFilter(ROOTS)
    assert not filter_.admit("/srv/new/.config", member(), lambda path: ".config" not in path)
    assert filter_.dropped[-1].why is Drop.PROGRAMS
    assert filter_.admit("/srv/new/work", member(), lambda path: ".config" not in path)


def test_the_list_of_refusals_is_bounded() -> None:
    """An agent cannot fill memory or evidence with refused names."""
    filter_ = MemberFilter(ROOTS)
    for number in range(3_000):
        filter_.admit(f"/tests/{number}", member())
    assert len(filter_.dropped) == 1_000


@given(st.binary(max_size=3_000))
def test_shown_names_are_printable_ascii(raw: bytes) -> None:
    """Evidence and terminals never see control bytes, and any bytes can be told apart while short."""
    text = shown(raw.decode("utf-8", "surrogateescape"))
    assert text.isascii() and (text.isprintable() or not text)
    assert len(text) <= MAX_SHOWN


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_shown_names_do_not_collide(one: bytes, other: bytes) -> None:
    """Escapes cannot be imitated: a backslash is escaped as well."""
    names = [raw.decode("utf-8", "surrogateescape") for raw in (one, other)]
    assert (shown(names[0]) == shown(names[1])) is (one == other)


@given(st.text(alphabet=st.characters(), max_size=50))
def test_shown_takes_any_text(text: str) -> None:
    """Even surrogates that stand for no byte."""
    assert shown(text).isascii()


@given(
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4).map(lambda p: "/" + "/".join(p)),
    st.frozensets(st.sampled_from(["/a", "/a/b", "/ab", "/b/a"]), max_size=3),
)
def test_both_ways_to_look_up_places_agree(path: str, places: frozenset[str]) -> None:
    """`below` is `within` for large sets."""
    assert below(path, places) is within(path, tuple(places))
