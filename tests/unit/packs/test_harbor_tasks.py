"""Harbor task directories: loading, refusals by name, what declarations mean to the runner."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.packs import semantics
from orchestrator.packs.errors import PackError
from orchestrator.packs.refusals import deviations, refusals
from orchestrator.packs.task import load_task, strip_canary

MakeTask = Callable[..., Path]

SHARED = Path(os.environ.get("ASSIZE_SHARED") or Path(__file__).parents[4] / "shared")
RECIPES = SHARED / "upstream" / "terminal-bench" / "harbor_cookbook" / "recipes"

# The stored recipes hold task.toml and instructions only, hence `no-environment` and `no-tests`.
BARE = ["no-environment", "no-tests"]
EXPECTED = {
    "computer-use-ubuntu": ["mcp-servers", *BARE],
    "computer-use-windows": ["mcp-servers", "host-env", "network", "network", *BARE],
    "dns-blacklisting": BARE,
    "mcp-tools": ["mcp-servers", *BARE],
    "multi-container": BARE,
    "multi-reward": BARE,
    "multi-step": ["steps", "network", "network"],
    "simple-task": BARE,
    "simulated-user": ["mcp-servers", *BARE],
    "skills": ["skills", *BARE],
}


@pytest.mark.skipif(not RECIPES.is_dir(), reason="the upstream task shapes (ASSIZE_SHARED) are not here")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_upstream_shapes_parse_or_are_refused_with_the_reason(name: str) -> None:
    """Issue 2: the 10 task.toml shapes, each with its exact list of refusals."""
    task = load_task(RECIPES / name)
    assert [str(item.code) for item in refusals(task)] == EXPECTED[name]
    assert task.config.unknown_keys == ()


@pytest.mark.skipif(not RECIPES.is_dir(), reason="the upstream task shapes (ASSIZE_SHARED) are not here")
def test_upstream_shapes_run_once_their_files_are_there(make_task: MakeTask) -> None:
    """The shapes that were refused only for absent files have no other obstacle."""
    for name, expected in EXPECTED.items():
        if expected == BARE:
            toml = (RECIPES / name / "task.toml").read_text("utf-8")
            task = load_task(make_task(toml, name=name))
            assert refusals(task) == []
            assert [item.code for item in deviations(task)] == ["network"]


def test_a_complete_task_loads(make_task: MakeTask) -> None:
    """A plain task has no refusal and no deviation."""
    task = load_task(make_task())
    assert (refusals(task), deviations(task)) == ([], [])
    assert (task.name, task.instruction, task.has_solution) == ("demo", "Do it.\n", True)
    assert task.test_files == ("test.sh",) and task.solution_files == ("solve.sh",)


@pytest.mark.parametrize(
    ("files", "codes"),
    [
        ({"environment/docker-compose.yaml": "services: {}\n"}, []),
        ({"environment/docker-compose.yaml": "services: {api: {}}\n"}, ["compose"]),
        ({"tests/docker-compose.yaml": "services: {}\n"}, ["compose"]),
        ({"environment/Dockerfile": None, "environment/docker-compose.yaml": "x"}, ["compose"]),
        ({"trajectory.json": "{}"}, ["trajectory"]),
        ({"steps/a/trajectory.json": "{}"}, ["trajectory"]),
        ({"tests/trajectory.json": "{}", "steps/a/tests/trajectory.json": "{}"}, []),
        ({"environment/Dockerfile": None}, ["no-environment"]),
        ({"tests/test.sh": None}, ["no-tests"]),
        ({"tests/.harborignore": "*.sh\n"}, ["no-tests"]),
    ],
)
def test_files_that_stop_a_task(make_task: MakeTask, files: dict[str, str | None], codes: list[str]) -> None:
    """Compose files, histories and missing parts are refused by name."""
    assert [str(item.code) for item in refusals(load_task(make_task(files=files)))] == codes


def test_the_network_waiver_turns_the_refusal_into_a_deviation(make_task: MakeTask) -> None:
    """Never a silent downgrade: refused without the waiver, stated with it (harbor.md section 11, row 16)."""
    task = load_task(make_task('[environment]\nnetwork_mode = "public"\n'))
    assert [str(item.code) for item in refusals(task)] == ["network", "network"]
    waivers = {"network": "the wheel is in the image"}
    assert refusals(task, waivers) == []
    assert [item.code for item in deviations(task, waivers)] == ["network", "network"]
    assert all("the wheel is in the image" in item.message for item in deviations(task, waivers))


def test_undeclared_network_is_a_deviation_not_a_refusal(make_task: MakeTask) -> None:
    """Harbor's default is public; nothing was asked for, so it is run without and said so."""
    verifier = '[verifier]\nenvironment_mode = "separate"\n[verifier.environment]\nstorage_mb = 6\n'
    task = load_task(make_task(f"[environment]\nstorage_mb = 5\n{verifier}"))
    assert refusals(task) == []
    assert [(item.code, item.message) for item in deviations(task)] == [
        ("network", "undeclared, run without network"),
        (
            "storage",
            "verifier.environment.storage_mb = 6 is not enforced: a verifier has the largest disk",
        ),
    ]


def test_a_phase_can_give_up_the_network_of_its_environment(make_task: MakeTask) -> None:
    """Only the network that holds in a phase matters."""
    text = (
        '[environment]\nnetwork_mode = "public"\n[agent]\nnetwork_mode = "no-network"\n'
        '[verifier]\nnetwork_mode = "no-network"\n'
    )
    assert refusals(load_task(make_task(text))) == []


def test_legacy_tasks_are_refused_by_name(tmp_path: Path) -> None:
    """Terminal-Bench 1 folders are named, with the way to convert them."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "task.yaml").write_text("instruction: x\n")
    with pytest.raises(PackError, match=r"task old: a legacy Terminal-Bench 1 task") as caught:
        load_task(tmp_path / "old")
    assert caught.value.hint is not None and "harbor task migrate" in caught.value.hint


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"task.toml": None}, r"task\.toml is missing"),
        ({"instruction.md": None}, r"instruction\.md is missing"),
        ({"instruction.md": "\n"}, r"instruction\.md is empty"),
    ],
)
def test_incomplete_folders(make_task: MakeTask, files: dict[str, str | None], match: str) -> None:
    """A missing part is named."""
    with pytest.raises(PackError, match=match):
        load_task(make_task(files=files))


def test_instruction_must_be_text(make_task: MakeTask) -> None:
    """Bytes that are not UTF-8 are refused, not replaced."""
    folder = make_task()
    (folder / "instruction.md").write_bytes(b"\xff\xfe")
    with pytest.raises(PackError, match="not UTF-8"):
        load_task(folder)


def test_canary_lines_are_hidden_from_the_agent() -> None:
    """Leading canary comments and the blank lines after them go; everything else stays."""
    text = "<!-- harbor-canary GUID 1 -->\n# CANARY 2\n\n# Title\ncanary\n"
    assert strip_canary(text) == "# Title\ncanary\n"
    assert strip_canary("# Title\n# canary\n") == "# Title\n# canary\n"


def test_harborignore_keeps_files_out_of_uploads(make_task: MakeTask) -> None:
    """Gitignore syntax; deeper rules override; ignored folders stay ignored; other places are untouched."""
    task = load_task(
        make_task(
            files={
                "tests/.harborignore": "*.log\n/cache/\n",
                "tests/a.log": "",
                "tests/deep/.harborignore": "!keep.log\n",
                "tests/deep/keep.log": "",
                "tests/deep/drop.log": "",
                "tests/cache/.harborignore": "!*\n",
                "tests/cache/x": "",
                "tests/deep/cache/y": "",
                "solution/a.log": "",
                "environment/.harborignore": "*\n",
                "environment/data": "",
                ".harborignore": "*\n",
                "steps/one/tests/.harborignore": "*.tmp\n",
                "steps/one/tests/z.tmp": "",
            }
        )
    )
    assert task.test_files == ("deep/cache/y", "deep/keep.log", "test.sh")
    assert task.solution_files == ("a.log", "solve.sh")
    assert "steps/one/tests/z.tmp" in task.ignored
    # An image build sees everything, so everything counts in the digest.
    assert len(task.context_files("tests")) == 9
    assert len(task.context_files("environment")) == 3


SEPARATE = '[environment]\nnetwork_mode = "no-network"\n[verifier]\nenvironment_mode = "separate"\n'


def test_verifier_mode_and_images(make_task: MakeTask) -> None:
    """Image lookup of reference/harbor.md section 1, case by case."""
    shared = load_task(make_task(files={"tests/Dockerfile": "FROM x\n"}, name="a"))
    assert semantics.verifier_mode(shared) == "shared"
    assert semantics.grader_context(shared) == semantics.agent_context(shared)

    copy = load_task(make_task(SEPARATE, name="b"))
    assert semantics.verifier_mode(copy) == "separate"
    assert semantics.grader_context(copy) == semantics.agent_context(copy)
    assert not semantics.grader_context(copy).has_tests

    own = load_task(
        make_task(SEPARATE, name="c", files={"tests/Dockerfile": "FROM x\n", "tests/test.sh": None})
    )
    context = semantics.grader_context(own)
    assert (context.folder, context.dockerfile, context.has_tests) == ("tests", "Dockerfile", True)
    assert context.digest != semantics.agent_context(own).digest
    assert refusals(own) == []

    named = '[environment]\ndocker_image = "a:1"\nnetwork_mode = "no-network"\n[verifier.environment]\n'
    image = load_task(
        make_task(
            named + 'docker_image = "g:1"\nbuild_timeout_sec = 7\nnetwork_mode = "no-network"\n',
            name="d",
            files={"environment/Dockerfile": None},
        )
    )
    assert semantics.verifier_mode(image) == "separate"
    assert semantics.agent_context(image).docker_image == "a:1"
    grader = semantics.grader_context(image)
    assert (grader.docker_image, grader.has_tests, grader.build_timeout_ms) == ("g:1", True, 7000)
    assert refusals(image) == []


def test_artifacts_are_normalised(make_task: MakeTask) -> None:
    """Strings and tables give the same form; duplicates go; the default destination mirrors the source."""
    task = load_task(
        make_task(
            'artifacts = ["/app/out/", "/app/out", '
            '{ source = "/app//x", destination = "x/", exclude = ["*.o"] }]\n'
        )
    )
    assert [item.as_data() for item in semantics.artifacts(task)] == [
        {"source": "/app/out", "destination": "app/out", "exclude": []},
        {"source": "/app/x", "destination": "x", "exclude": ["*.o"]},
    ]


def test_environment_comes_from_the_task_alone(make_task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """`${VAR:-default}` gives the default whatever the host says; only whole values are templates."""
    monkeypatch.setenv("WORD", "from the host")
    task = load_task(
        make_task(
            '[environment.env]\nWORD = "${WORD:-hello}"\nTEXT = "a ${WORD} b"\n'
            'EMPTY = "${X:-}"\nMODE = "agent"\n'
            '[verifier.env]\nMODE = "check"\n[solution.env]\nS = "1"\n'
        )
    )
    agent = {"WORD": "hello", "TEXT": "a ${WORD} b", "EMPTY": "", "MODE": "agent"}
    assert semantics.agent_environment(task) == agent
    assert semantics.grader_environment(task) == {**agent, "MODE": "check"}
    assert semantics.oracle_environment(task) == {"DEBIAN_FRONTEND": "noninteractive", "S": "1"}
    assert [item.code for item in deviations(task)] == ["network", "host-env"]
    with pytest.raises(PackError, match="KEY must come from the host"):
        semantics.resolve_env({"KEY": "${WORD}"})


@pytest.mark.parametrize(
    ("seconds", "ms"), [(0.0001, 1), (1.0005, 1001), (90.5, 90500), (600.0, 600000), (0.1, 100)]
)
def test_seconds_become_milliseconds_rounded_up(seconds: float, ms: int) -> None:
    """A limit is never shortened by rounding."""
    assert semantics.milliseconds(seconds) == ms
