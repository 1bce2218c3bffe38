"""From the list of changes to what is fetched: carriable places, roots, replaced folders, bounded plans."""

from __future__ import annotations

import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.capture import changes as module
from workers.capture.changes import (
    ADDED,
    CHANGED,
    DELETED,
    MAX_REFUSED,
    MAX_ROOTS,
    Change,
    carriable,
    changed_roots,
    fetch_plan,
    program_places,
)
from workers.capture.members import SYSTEM, Drop, within
from workers.errors import CarryOverflowError

PROGRAMS = (*SYSTEM, "/opt/tools")
A, C, D = ADDED, CHANGED, DELETED


def roots(*changes: tuple[int, str], workdir: str = "/workspace") -> list[str]:
    return changed_roots(changes, workdir, PROGRAMS).roots


@pytest.mark.parametrize(
    ("environment", "workdir", "found"),
    [
        (["PATH=/usr/bin:/bin"], "/workspace", {"/usr", "/usr/bin", "/"} & set()),
        (["PATH=/opt/venv/bin:/usr/bin"], "/workspace", {"/opt/venv"}),
        (["PATH=/opt/venv/bin/:/opt/x//bin"], "/workspace", {"/opt/venv", "/opt/x"}),
        (["PATH=/workspace/.venv/bin"], "/workspace", {"/workspace/.venv"}),
        (["PATH=/app/bin"], "/app/src", set()),
        (["PATH=:.:bin:/bin"], "/workspace", set()),
        (["PATH=/bin:/"], "/workspace", set()),
        (["PYTHONPATH=/opt/lib", "NODE_PATH=/opt/node"], "/workspace", {"/opt/lib", "/opt/node"}),
        (["LD_LIBRARY_PATH=/opt/so:/workspace"], "/workspace", {"/opt/so"}),
        (["MYPATH=/opt/lib", "PATHS=/x"], "/workspace", set()),
        (["PATH"], "/workspace", set()),
    ],
)
def test_places_of_programs(environment: list[str], workdir: str, found: set[str]) -> None:
    """Folders that the verifier's own tools search are not the agent's to change, but the workspace is."""
    places = program_places({"Env": environment}, workdir)
    assert set(places) - set(SYSTEM) - {"/usr"} == found
    assert set(SYSTEM) <= set(places)


@pytest.mark.parametrize("config", [{}, {"Env": None}, {"Env": []}])
def test_an_image_without_environment(config: dict[str, Any]) -> None:
    """The engine writes null for an empty list."""
    assert program_places(config, "/workspace") == SYSTEM


@pytest.mark.parametrize(
    ("path", "ok"),
    [
        ("/workspace/x", True),
        ("/srv/x", True),
        ("/usr/bin/x", False),
        ("/etc/passwd", False),
        ("/opt/tools/bin/bash", False),
        ("/opt/data", True),
        ("/root/.bashrc", False),
        ("/root/.local/lib/x", False),
        ("/root/work", True),
        ("/home/u/.config", False),
        ("/home/u/.config/x/y", False),
        ("/home/u/work/.git", True),
        ("/home/u", True),
        ("/tests/test.sh", False),
        ("/logs/artifacts/x", False),
        ("/opt/agent", False),
    ],
)
def test_carriable_places(path: str, ok: bool) -> None:
    """Work crosses; programs, their configuration and places of ours do not."""
    assert carriable(path, "/workspace", PROGRAMS) is ok


def test_configuration_of_a_home_that_is_the_workspace() -> None:
    """A workspace at `/root` does not make its dot files work."""
    assert not carriable("/root/.profile", "/root", PROGRAMS)
    assert carriable("/root/x/.profile", "/root", PROGRAMS)


def test_a_workspace_among_the_programs_is_still_the_workspace() -> None:
    """`/usr/src/app` is where many images put their work."""
    assert carriable("/usr/src/app/x", "/usr/src/app", PROGRAMS)
    assert not carriable("/usr/src/other", "/usr/src/app", PROGRAMS)


def test_topmost_added_paths_and_changed_leaves() -> None:
    """A changed folder above is no change of its own; everything below an added folder comes with it."""
    assert roots((C, "/workspace"), (A, "/workspace/d"), (A, "/workspace/d/e"), (C, "/workspace/f")) == [
        "/workspace/d",
        "/workspace/f",
    ]


def test_siblings_that_sort_between_a_folder_and_its_content() -> None:
    """`a-b` and `a.b` sort before `a/x` as text; `a` must still swallow its own content."""
    found = [(A, path) for path in ("/w/a", "/w/a-b", "/w/a.b", "/w/a/x", "/w/a/y", "/w/a-b/z")]
    assert roots(*found, workdir="/w") == ["/w/a", "/w/a-b", "/w/a.b"]


def test_order_of_the_list_does_not_matter() -> None:
    """Engine and layer list in different orders."""
    found = [(A, "/workspace/b/c"), (A, "/workspace/b"), (C, "/workspace"), (D, "/workspace/a")]
    assert changed_roots(found, "/workspace", PROGRAMS) == changed_roots(found[::-1], "/workspace", PROGRAMS)


def test_deletions_are_a_list_of_their_own() -> None:
    """They are applied in the verifier's container, except where programs lie."""
    found = changed_roots([(D, "/workspace/x"), (D, "/usr/bin/gcc")], "/workspace", PROGRAMS)
    assert (found.roots, found.deleted) == ([], ["/workspace/x"])
    assert [item.why for item in found.refused] == [Drop.PROGRAMS]


def test_refusals_have_reasons_and_an_end() -> None:
    """Bad paths and programs are named, places of ours are passed over, the list is bounded."""
    found = changed_roots([(A, "/etc/x"), (A, "/tests/x"), (A, "/w/" + "n" * 2_000)], "/workspace", PROGRAMS)
    assert sorted(item.why.value for item in found.refused) == ["path_form", "programs_or_configuration"]
    many = [(A, f"/etc/{n}") for n in range(MAX_REFUSED + 50)]
    assert len(changed_roots(many, "/workspace", PROGRAMS).refused) == MAX_REFUSED


def test_a_folder_in_the_place_of_something_else_is_fetched_whole() -> None:
    """Its content alone could not be unpacked: the verifier's image has a file or link in its place."""
    found = [(C, "/srv"), (C, "/srv/link"), (A, "/srv/link/x"), (A, "/srv/link/y")]
    change = changed_roots(found, "/workspace", PROGRAMS, was_folder=lambda path: path != "/srv/link")
    assert (change.roots, change.leaves) == (["/srv/link"], set())


def test_only_folders_with_nothing_but_new_content_are_looked_up() -> None:
    """Anything changed or deleted inside proves that it was a folder, so that few look-ups are needed."""
    asked: list[str] = []

    def was_folder(path: str) -> bool:
        asked.append(path)
        return True

    found = [
        (C, "/w"),
        (C, "/w/old"),
        (C, "/w/old/f"),
        (C, "/w/gone"),
        (D, "/w/gone/f"),
        (C, "/w/new"),
        (A, "/w/new/f"),
        (C, "/usr"),
        (C, "/usr/lib"),
        (A, "/usr/lib/f"),
    ]
    changed_roots(found, "/w", PROGRAMS, was_folder)
    assert asked == ["/w/new"]


def test_very_many_such_folders_are_taken_as_they_are() -> None:
    """The agent chooses how many there are, so that their number must not cost look-ups."""
    found = [(C, "/w")]
    for number in range(MAX_ROOTS + 1):
        found += [(C, f"/w/{number}"), (A, f"/w/{number}/x")]

    def never(path: str) -> bool:
        raise AssertionError("looked up")

    change = changed_roots(found, "/w", PROGRAMS, never)
    assert len(change.roots) == MAX_ROOTS + 1 and "/w/0" in change.roots


def test_a_changed_leaf_is_marked() -> None:
    """A folder of which only mode or owner changed: the collector decides by its kind."""
    change = changed_roots([(C, "/workspace/f"), (A, "/workspace/g")], "/workspace", PROGRAMS)
    assert change.leaves == {"/workspace/f"}


def test_what_a_change_covers() -> None:
    """Everything at and below a root, but only the leaf itself; bytes that are no text compare as lost."""
    change = Change(["/w/d", "/w/f", "/w/caf\ufffd"], [], [], {"/w/f"})
    assert change.covers("/w/d") and change.covers("/w/d/e/f") and change.covers("/w/f")
    assert not change.covers("/w/f/x") and not change.covers("/w") and not change.covers("/w/dx")
    assert change.covers("/w/caf\udce9") and change.covers("/w/caf\udce9/in")


def test_few_roots_are_fetched_one_by_one() -> None:
    """The usual case: no folder is read for more than what changed in it."""
    assert fetch_plan(["/w/b", "/w/a", "/srv/x"], "/w") == ["/srv/x", "/w/a", "/w/b"]


def test_a_name_that_the_list_has_lost_is_found_through_its_folder() -> None:
    """The engine's JSON cannot say which bytes the name has."""
    assert fetch_plan(["/srv/caf\ufffd", "/srv/x"], "/w") == ["/srv"]


def test_many_roots_in_the_workspace_are_fetched_as_the_workspace() -> None:
    """One stream instead of hundreds of processes of the engine."""
    many = [f"/w/{n}" for n in range(MAX_ROOTS + 1)]
    assert fetch_plan([*many, "/srv/x"], "/w") == ["/srv/x", "/w"]


@pytest.mark.parametrize("workdir", ["/", "/w"])
def test_many_roots_elsewhere_are_fetched_through_the_fullest_folders(workdir: str) -> None:
    """A workspace at `/` bounds nothing; neither do files that an agent strews beside it."""
    many = [f"/var/tmp/{n}" for n in range(5_000)] + ["/srv/a/x", "/srv/b/y"]
    assert fetch_plan(many, workdir) == ["/srv/a/x", "/srv/b/y", "/var/tmp"]


def test_scattered_roots_climb_until_they_are_few() -> None:
    """One change in each of many folders: the common folder in the end."""
    assert fetch_plan([f"/srv/{n}/a/b/c" for n in range(1_000)], "/w") == ["/srv"]


def test_too_many_places_at_the_top_cannot_be_fetched() -> None:
    """The whole file system is never read."""
    with pytest.raises(CarryOverflowError):
        fetch_plan([f"/{n}" for n in range(MAX_ROOTS + 1)], "/w")


paths = st.lists(st.sampled_from(["a", "a-", "a.", "b", "\ufffd"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(st.lists(paths, max_size=40), st.sampled_from(["/", "/a", "/b/a"]))
def test_a_plan_holds_every_root_and_no_path_twice(found: list[str], workdir: str) -> None:
    """Whatever is collapsed: nothing is lost, nothing overlaps, and the number is bounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_ROOTS", 3)
        try:
            plan = fetch_plan(found, workdir)
        except CarryOverflowError:
            assert len({path.split("/")[1] for path in found}) > 3
            return
    assert len(plan) <= 3
    for root in found:
        if posixpath.dirname(root) != "/" or "\ufffd" not in root:
            assert within(root, tuple(plan))
    for one in plan:
        assert not any(within(one, (other,)) for other in plan if other != one)


@given(st.lists(st.tuples(st.sampled_from([A, C, D]), paths), max_size=30))
def test_roots_are_never_nested(found: list[tuple[int, str]]) -> None:
    """Nothing is fetched twice, whatever the engine lists."""
    change = changed_roots(found, "/a", PROGRAMS)
    tops = [root for root in change.roots if root not in change.leaves]
    for root in tops:
        assert not any(within(root, (other,)) for other in tops if other != root)
