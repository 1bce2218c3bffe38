"""pack.toml, pack.lock.json, identity, implicit packs, limits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.pack_details import details
from orchestrator.packs.errors import PackError
from orchestrator.packs.freeze import freeze, load_manifest, role_in_task
from orchestrator.packs.manifest import PassRule
from orchestrator.packs.pack import Pack, implicit_pack, load_pack, open_pack, sanitise
from orchestrator.planning.conditions import DiskCondition
from orchestrator.screenings.orders import effective_disk

ASSETS = Path(__file__).parents[2] / "assets" / "packs" / "pack_toml"
PACK = """
name = "demo/core"
version = "1"
title = "Demo"
state = "draft"
licenses = ["Apache-2.0", { spdx = "MIT", file = "LICENSE", scope = "tasks/one/**" }]
agent_user = "1000"
[pass_rule]
at_least = "0.5"
max = "1"
[caps]
agent_wall_s = 60
memory_mb = 512
cpus = "0.5"
[[tasks]]
id = "two"
path = "tasks/two"
use_cases = ["bug-fixing"]
difficulty = "easy"
reference_minutes = 10
[[tasks]]
id = "one"
path = "tasks/one"
"""


@pytest.fixture
def root(make_task: Callable[..., Path], tmp_path: Path) -> Path:
    """A frozen pack of two tasks."""
    make_task(name="demo/tasks/one")
    make_task(name="demo/tasks/two", files={"notes.md": "the trap is in line 3\n", "LICENSE": "MIT\n"})
    (tmp_path / "demo" / "LICENSE").write_text("MIT\n")
    (tmp_path / "demo" / "pack.toml").write_text(PACK)
    freeze(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.mark.parametrize("path", sorted(ASSETS.glob("bad-*.toml")), ids=lambda path: path.stem)
def test_a_bad_manifest_is_refused_with_key_and_value(path: Path, tmp_path: Path) -> None:
    """Strict: unknown keys, floats, booleans as numbers and unpinned sources never pass."""
    (tmp_path / "pack.toml").write_text(path.read_text("utf-8"))
    with pytest.raises(PackError) as caught:
        load_manifest(tmp_path)
    assert path.read_text("utf-8").splitlines()[0].removeprefix("# expect: ") in caught.value.message


def test_a_frozen_pack_loads_in_its_own_order(root: Path) -> None:
    """Ids, digests, tags and the pass rule arrive; the order is the manifest's."""
    pack = load_pack(root)
    assert (pack.label, pack.implicit, pack.manifest.tries_per_task) == ("demo/core@1", False, 3)
    assert [task.id for task in pack.tasks] == ["two", "one"]
    assert pack.tasks[0].entry.use_cases == ("bug-fixing",)
    assert [task.record_digest for task in pack.tasks] == [task.task.digest for task in pack.tasks]
    assert (pack.manifest.pass_rule.key, pack.manifest.pass_rule.at_least) == ("reward", "0.5")
    assert pack.check_runnable() == {}
    assert load_pack(root).digest == pack.digest


def test_every_file_has_a_role_and_unknown_ones_are_secret(root: Path) -> None:
    """What is not known to be harmless never reaches an agent."""
    roles = {item.path: str(item.role) for item in load_pack(root).lock.files}
    assert roles == {
        "LICENSE": "licence",
        "tasks/one/environment/Dockerfile": "environment",
        "tasks/one/instruction.md": "instruction",
        "tasks/one/solution/solve.sh": "solution",
        "tasks/one/task.toml": "manifest",
        "tasks/one/tests/test.sh": "grader",
        "tasks/two/LICENSE": "licence",
        "tasks/two/environment/Dockerfile": "environment",
        "tasks/two/instruction.md": "instruction",
        "tasks/two/notes.md": "secret",
        "tasks/two/solution/solve.sh": "solution",
        "tasks/two/task.toml": "manifest",
        "tasks/two/tests/test.sh": "grader",
    }
    assert str(role_in_task("steps/a/tests/x")) == "grader"
    assert str(role_in_task("environment/README.md")) == "environment"


def test_missing_extra_and_altered_files_are_all_listed(root: Path) -> None:
    """One error names every difference, and what to do."""
    (root / "tasks/one/tests/test.sh").unlink()
    (root / "tasks/two/tests/more.sh").write_text("x")
    (root / "tasks/two/instruction.md").write_text("Do it?\n")
    (root / "tasks/one/solution/solve.sh").chmod(0o755)
    with pytest.raises(PackError) as caught:
        load_pack(root)
    assert [problem.split(" (")[0] for problem in caught.value.problems] == [
        "tasks/one/solution/solve.sh: altered",
        "tasks/one/tests/test.sh: missing",
        "tasks/two/instruction.md: altered",
        "tasks/two/tests/more.sh: extra, not in the lock",
    ]
    assert caught.value.hint is not None and "assize packs freeze" in caught.value.hint


def test_an_edited_manifest_is_noticed_but_its_state_is_free(root: Path) -> None:
    """The pass rule is pinned with the files; retiring a pack does not make it another pack."""
    digest = load_pack(root).digest
    (root / "pack.toml").write_text(PACK.replace('"draft"', '"retired"'))
    assert load_pack(root).digest == digest
    (root / "pack.toml").write_text(PACK.replace('at_least = "0.5"', 'at_least = "0.1"'))
    with pytest.raises(PackError, match=r"pack\.toml: altered since it was pinned"):
        load_pack(root)


def test_an_edited_lock_never_hides_an_edited_file(root: Path) -> None:
    """Whoever edits both changes the identity."""
    digest = load_pack(root).digest
    (root / "tasks/two/notes.md").write_text("the trap is in line 4\n")
    freeze(root)
    assert load_pack(root).digest != digest


def test_a_lock_in_another_order_or_with_other_roles_is_refused(root: Path) -> None:
    """The lock has one form; a role cannot be talked down."""
    path = root / "pack.lock.json"
    good = json.loads(path.read_text())
    path.write_text(json.dumps({**good, "files": good["files"][::-1]}))
    with pytest.raises(PackError, match="not in the order"):
        load_pack(root)
    item = next(item for item in good["files"] if item["role"] == "secret")
    item["role"] = "instruction"
    path.write_text(json.dumps(good))
    with pytest.raises(PackError, match=r"notes\.md: altered \(role is secret, pinned as instruction\)"):
        load_pack(root)
    path.write_text("{")
    with pytest.raises(PackError, match="not valid JSON"):
        load_pack(root)
    path.unlink()
    with pytest.raises(PackError, match=r"pack\.lock\.json is missing") as caught:
        load_pack(root)
    assert caught.value.hint is not None and "freeze" in caught.value.hint


def test_tasks_added_or_dropped_are_named(root: Path) -> None:
    """The list of tasks is frozen too."""
    head, _, rest = PACK.partition("[[tasks]]")
    one = rest.partition("[[tasks]]")[2]
    (root / "pack.toml").write_text(head + "[[tasks]]" + one)
    with pytest.raises(PackError, match=r"task two: in the lock, but not in pack\.toml"):
        load_pack(root)


def test_other_content_under_a_published_version_is_refused(root: Path) -> None:
    """`name@version` is never reused once the pack has left the draft state."""
    (root / "pack.toml").write_text(PACK.replace('"draft"', '"current"'))
    freeze(root)
    (root / "tasks/two/notes.md").write_text("changed\n")
    with pytest.raises(PackError, match="is current and its files changed") as caught:
        freeze(root)
    assert caught.value.hint is not None and "raise the version" in caught.value.hint
    (root / "pack.toml").write_text(
        PACK.replace('"draft"', '"current"').replace('version = "1"', 'version = "2"')
    )
    freeze(root)
    assert load_pack(root).label == "demo/core@2"


def test_the_same_pack_elsewhere_has_the_same_identity(root: Path, tmp_path: Path) -> None:
    """No path, time or owner is in it; freezing again writes the same bytes."""
    shutil.copytree(root, tmp_path / "copy")
    before = (root / "pack.lock.json").read_bytes()
    assert freeze(tmp_path / "copy").encode() == before
    assert load_pack(tmp_path / "copy").digest == load_pack(root).digest
    assert load_pack(root).digest != implicit_pack(root / "tasks").digest


def _caps(pack: Pack, task_id: str) -> tuple[int, int, int, int]:
    caps = pack.caps(pack.task(task_id))
    return caps.agent_wall_ms, caps.grade_wall_ms, caps.memory_bytes, caps.cpus_milli


def test_the_packs_caps_fill_in_and_limit(make_task: Callable[..., Path], root: Path) -> None:
    """The cap where a task declares nothing, the ceiling where it declares more, never a raise."""
    environment = '[environment]\nnetwork_mode = "no-network"\n'
    small = f"[agent]\ntimeout_sec = 9.5\n{environment}cpus = 0.25\nmemory_mb = 64\n"
    large = f"[agent]\ntimeout_sec = 99\n{environment}cpus = 4\nmemory_mb = 4096\n"
    make_task(small, name="demo/tasks/one")
    make_task(large, name="demo/tasks/two")
    freeze(root)
    pack = load_pack(root)
    assert _caps(pack, "one") == (9500, 600_000, 64 << 20, 250)
    assert _caps(pack, "two") == (60_000, 600_000, 512 << 20, 500)
    assert [item.code for item in pack.deviations(pack.task("one"))] == ["grading"]
    assert [(item.code, item.message) for item in pack.deviations(pack.task("two"))][:3] == [
        ("agent-wall", "agent.timeout_sec = 99.0, 60 applied"),
        ("memory", "environment.memory_mb = 4096, 512 applied"),
        ("cpus", "environment.cpus = 4.0, 0.5 applied"),
    ]


def test_undeclared_limits_are_stated(make_task: Callable[..., Path]) -> None:
    """Harbor would run without limits; what is applied instead is said."""
    pack = implicit_pack(make_task())
    assert _caps(pack, "demo") == (3_600_000, 600_000, 2048 << 20, 1000)
    assert [(item.code, item.message) for item in pack.deviations(pack.tasks[0])][:3] == [
        ("agent-wall", "agent.timeout_sec undeclared, 3600 applied"),
        ("memory", "environment.memory_mb undeclared, 2048 applied"),
        ("cpus", "environment.cpus undeclared, 1 applied"),
    ]


@pytest.mark.parametrize(
    ("storage_mb", "asked", "applied"),
    [
        (None, 64 << 20, 64 << 20),
        (8, 64 << 20, 8 << 20),
        (64, 8 << 20, 8 << 20),
        (20_480, 10 << 30, 10 << 30),
    ],
)
def test_a_task_states_its_own_disk(
    make_task: Callable[..., Path], storage_mb: int | None, asked: int, applied: int
) -> None:
    """`storage_mb` is the limit of every try unless the screening's is lower; more than there is, is said."""
    declared = "" if storage_mb is None else f"[environment]\nstorage_mb = {storage_mb}\n"
    pack = implicit_pack(make_task(declared))
    (task,) = pack.tasks
    disk = effective_disk(pack, task, DiskCondition(mode="loop", bytes=asked, files=7))
    assert (disk.mode, disk.bytes, disk.files) == ("loop", applied, 7)
    said = [item.message for item in pack.deviations(task) if item.code == "storage"]
    too_much = ["environment.storage_mb = 20480, at most 10240 applied"]
    assert said == (too_much if storage_mb == 20_480 else [])
    shown = details(pack)["tasks"][0]["disk_bytes"]
    assert shown == (None if storage_mb is None else storage_mb << 20)


def test_grading_and_user_per_task(make_task: Callable[..., Path], root: Path) -> None:
    """A separate verifier is always graded fresh; the task's own user wins over the pack's."""
    separate = '[agent]\nuser = "dev"\n[verifier]\nenvironment_mode = "separate"\n'
    make_task(separate, name="demo/tasks/one")
    (root / "pack.toml").write_text(
        PACK.replace('agent_user = "1000"', 'agent_user = "1000"\ngrading = "in_place"')
    )
    freeze(root)
    pack = load_pack(root)
    one, two = pack.task("one"), pack.task("two")
    assert (pack.grading(one), pack.grading(two)) == ("fresh", "in_place")
    assert (pack.agent_user(one), pack.agent_user(two)) == ("dev", "1000")
    with pytest.raises(PackError, match="has no task three"):
        pack.task("three")


def test_the_packs_waiver_reaches_the_refusals(make_task: Callable[..., Path], root: Path) -> None:
    """Without it the task is refused by id; with it, the deviation carries the reason."""
    make_task("[environment]\nallow_internet = true\n", name="demo/tasks/one")
    freeze(root)
    assert [(name, len(found)) for name, found in load_pack(root).check_runnable().items()] == [("one", 2)]
    waiver = '[deviations]\nnetwork = { value = "none", reason = "all is vendored" }\n[[tasks]]'
    (root / "pack.toml").write_text(PACK.replace("[[tasks]]", waiver, 1))
    freeze(root)
    pack = load_pack(root)
    assert pack.check_runnable() == {}
    assert "all is vendored" in pack.deviations(pack.task("one"))[0].message


def test_a_bare_folder_is_a_pack(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """Nested task folders become tasks in sorted order; files beside them are not part of it."""
    make_task(name="My Tasks/B/second")
    make_task(name="My Tasks/a")
    (tmp_path / "My Tasks" / ".hidden").mkdir()
    (tmp_path / "My Tasks" / ".hidden" / "task.toml").write_text("")
    (tmp_path / "My Tasks" / "README.md").write_text("x")
    (tmp_path / "My Tasks" / "outside").symlink_to("/etc/passwd")
    (tmp_path / "My Tasks" / "a" / "environment" / "task.yaml").write_text("not a task")
    pack = open_pack(tmp_path / "My Tasks")
    assert (pack.implicit, pack.manifest.name, pack.manifest.tries_per_task) == (True, "my-tasks", 3)
    assert (pack.manifest.agent_user, pack.manifest.pass_rule) == (None, PassRule())
    assert [(task.id, task.entry.path) for task in pack.tasks] == [("b/second", "B/second"), ("a", "a")]
    assert all(item.path.startswith(("B/second/", "a/")) for item in pack.lock.files)
    assert pack.manifest.version.startswith("0+") and len(pack.manifest.version) == 14
    again = implicit_pack(tmp_path / "My Tasks")
    assert (again.digest, again.label) == (pack.digest, pack.label)
    (tmp_path / "My Tasks" / "a" / "instruction.md").write_text("Other.\n")
    assert implicit_pack(tmp_path / "My Tasks").label != pack.label


def test_a_single_task_folder_is_a_pack(make_task: Callable[..., Path]) -> None:
    """Its only task has the folder's name."""
    pack = implicit_pack(make_task(name="Solo_Task"), pass_rule=PassRule(at_least="0.9"))
    assert [(task.id, task.entry.path) for task in pack.tasks] == [("solo_task", ".")]
    assert pack.manifest.pass_rule.at_least == "0.9"
    assert {item.path for item in pack.lock.files} >= {"task.toml", "tests/test.sh"}


def test_bare_folders_that_cannot_be_packs(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """Legacy tasks, empty folders and ids that collide are named."""
    make_task(name="bare/ok")
    for name in ("old1", "old2"):
        (tmp_path / "bare" / name).mkdir()
        (tmp_path / "bare" / name / "task.yaml").write_text("x")
    with pytest.raises(PackError) as caught:
        implicit_pack(tmp_path / "bare")
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["old1", "old2"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(PackError, match=r"no pack\.toml, and no task\.toml"):
        implicit_pack(tmp_path / "empty")
    make_task(name="twins/a b")
    make_task(name="twins/a-b")
    with pytest.raises(PackError, match="would both be the task a-b"):
        implicit_pack(tmp_path / "twins")


def test_every_broken_task_of_a_pack_is_named(make_task: Callable[..., Path], tmp_path: Path) -> None:
    """One bad task does not hide the next."""
    make_task("[agent]\ntimeout_sec = 'x'\n", name="bare/one")
    make_task("[agent\n", name="bare/two")
    with pytest.raises(PackError) as caught:
        implicit_pack(tmp_path / "bare")
    assert len(caught.value.problems) == 2
    assert "task one" in caught.value.message and "task two" in caught.value.message


@pytest.mark.parametrize(
    ("text", "name"), [("Coding Core", "coding-core"), ("..x", "x"), ("Ünïcode", "n-code"), ("___", "pack")]
)
def test_names_of_folders_become_ids(text: str, name: str) -> None:
    """Only the charset of ids remains."""
    assert sanitise(text) == name
