"""The bundled pack coding-core: every task is complete and agrees with pack.toml and the pack's rules."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from orchestrator.packs.freeze import compute_lock, differences, load_lock, load_manifest, load_tasks

PACK = Path(__file__).parents[3] / "orchestrator" / "packs" / "bundled" / "coding-core"
TASKS = sorted(path for path in (PACK / "tasks").iterdir() if path.is_dir())
WRONG = sorted((Path(__file__).parent / "wrong").glob("*/*.patch"))
USE_CASES = {
    "bug-fixing",
    "building-features",
    "refactoring",
    "testing",
    "security-fixes",
    "reliability-performance",
    "apis-data",
}
NETWORK = re.compile(r"\b(curl|wget|pip3? install|npm|npx|apt|apt-get|git clone|urlopen|ftp)\b")

each_task = pytest.mark.parametrize("task", TASKS, ids=lambda path: path.name)


def toml(task: Path) -> dict[str, Any]:
    return tomllib.loads((task / "task.toml").read_text("utf-8"))


def registered(task: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the checks that a task registers; loading them runs none."""
    tests = task / "tests"
    spec = importlib.util.spec_from_file_location("harness", tests / "harness.py")
    assert spec is not None and spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "harness", harness)
    spec.loader.exec_module(harness)
    exec(compile((tests / "checks.py").read_bytes(), "checks.py", "exec"), {"__name__": "checks"})
    return [name for name, _ in harness._checks]


def test_lock_is_current() -> None:
    """Rule: the pack's lock pins exactly the files on disk."""
    manifest = load_manifest(PACK)
    assert differences(load_lock(PACK), compute_lock(PACK, manifest, load_tasks(PACK, manifest))) == []


def test_at_least_eight_tasks_of_every_kind_and_language() -> None:
    """Rule (issue 2): at least 8 tasks; Python, JavaScript, C, shell and SQL; every use case occurs."""
    manifest = load_manifest(PACK)
    assert len(manifest.tasks) >= 8
    assert {use for entry in manifest.tasks for use in entry.use_cases} == USE_CASES
    languages = {toml(task)["metadata"]["language"] for task in TASKS}
    assert {"python", "javascript", "c", "shell", "shell-sql"} <= languages


def test_manifest_lists_every_task_folder_with_its_own_tags() -> None:
    """Rule: pack.toml and task.toml say the same about a task, and no folder is forgotten."""
    manifest = load_manifest(PACK)
    assert sorted(entry.path for entry in manifest.tasks) == [f"tasks/{task.name}" for task in TASKS]
    for entry in manifest.tasks:
        metadata = toml(PACK / entry.path)["metadata"]
        assert list(entry.use_cases) == metadata["use_cases"]
        assert (entry.difficulty, entry.reference_minutes) == (
            metadata["difficulty"],
            metadata["reference_minutes"],
        )


@each_task
def test_metadata(task: Path) -> None:
    """Rule: one or two known use cases; difficulty follows from the reference's minutes; no network."""
    config = toml(task)
    metadata = config["metadata"]
    assert config["task"]["name"] == f"assize/{task.name}"
    assert config["environment"]["network_mode"] == "no-network"
    assert 1 <= len(metadata["use_cases"]) <= 2
    assert set(metadata["use_cases"]) <= USE_CASES
    minutes = metadata["reference_minutes"]
    assert metadata["difficulty"] == ("easy" if minutes < 15 else "medium" if minutes <= 60 else "hard")


@each_task
def test_files(task: Path) -> None:
    """Rule: instruction, image, tests and solution exist; the repository is realistic, not a single file."""
    for name in (
        "instruction.md",
        "environment/Dockerfile",
        "tests/test.sh",
        "tests/harness.py",
        "tests/drivers.py",
        "tests/checks.py",
        "solution/solve.sh",
        "solution/fix.patch",
    ):
        assert (task / name).stat().st_size > 0, name
    repository = [path for path in (task / "environment" / "repo").rglob("*") if path.is_file()]
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in repository)
    assert len(repository) >= 5
    assert lines >= 100
    assert (task / "environment" / "repo" / "README.md").is_file()


@each_task
def test_image_holds_neither_tests_nor_solution(task: Path) -> None:
    """Rule: the image is the base and the repository, nothing else."""
    lines = (task / "environment" / "Dockerfile").read_text("utf-8").splitlines()
    assert lines == [
        "FROM assize/base:1",
        "COPY --chown=1000:1000 repo/ /workspace/",
        "RUN chown 1000:1000 /workspace",
        "WORKDIR /workspace",
    ]
    hidden = (task / "tests" / "checks.py").read_bytes()
    assert all(path.read_bytes() != hidden for path in (task / "environment").rglob("*") if path.is_file())


@each_task
def test_harness_copies_are_identical(task: Path) -> None:
    """Rule: one shared harness; a task's own part is checks.py only."""
    for name in ("harness.py", "drivers.py"):
        assert (task / "tests" / name).read_bytes() == (TASKS[0] / "tests" / name).read_bytes()
    assert (task / "tests" / "test.sh").read_bytes() == (TASKS[0] / "tests" / "test.sh").read_bytes()


@each_task
def test_nothing_needs_the_network(task: Path) -> None:
    """Rule: tests, solution and image work without network."""
    for folder in ("tests", "solution"):
        for path in (task / folder).rglob("*"):
            if path.suffix in (".sh", ".py"):
                assert NETWORK.findall(path.read_text("utf-8")) == [], path.name


@each_task
def test_checks_are_plain_and_many(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: 10 or more checks, and only the standard library and the harness in the root process."""
    tree = ast.parse((task / "tests" / "checks.py").read_text("utf-8"))
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    allowed = {
        "ast", "base64", "csv", "datetime", "hashlib", "html", "itertools", "json", "os", "random", "re",
        "shlex", "shutil", "struct", "urllib.parse", "harness",
    }  # fmt: skip
    assert imported <= allowed
    assert len(registered(task, monkeypatch)) >= 10


@each_task
def test_names_of_checks_are_unique(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: a check can be named in a report."""
    names = registered(task, monkeypatch)
    assert len(names) == len(set(names))


@each_task
def test_at_least_two_wrong_solutions_are_kept(task: Path) -> None:
    """Rule: for every task at least two plausible wrong solutions are known to fail."""
    assert sum(path.parent.name == task.name for path in WRONG) >= 2


@pytest.mark.parametrize(
    "patch",
    [*(task / "solution" / "fix.patch" for task in TASKS), *WRONG],
    ids=lambda path: f"{path.parent.name}-{path.stem}" if path.stem != "fix" else path.parent.parent.name,
)
def test_patches_apply(patch: Path, tmp_path: Path) -> None:
    """Rule: the reference solution and every wrong one fit the repository as it is."""
    if shutil.which("patch") is None:
        pytest.skip("the command patch is not installed")
    name = patch.parent.parent.name if patch.stem == "fix" else patch.parent.name
    shutil.copytree(PACK / "tasks" / name / "environment" / "repo", tmp_path / "w")
    done = subprocess.run(
        ["patch", "-p1", "-s", "--fuzz=0", "-i", str(patch)],
        cwd=tmp_path / "w",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
