"""Reference solutions of coding-core get 1, wrong but plausible ones 0, in a real grading container."""

from __future__ import annotations

import io
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

docker = pytest.importorskip("docker")

PACK = Path(__file__).parents[3] / "orchestrator" / "packs" / "bundled" / "coding-core"
WRONG = sorted((Path(__file__).parent / "wrong").glob("*/*.patch"))
RIGHT = sorted((PACK / "tasks").glob("*/solution/fix.patch"))
BASE = "assize/base:1"
LABELS = {"assize.test": "coding-core"}

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    engine = docker.from_env()
    try:
        engine.images.get(BASE)
    except (docker.errors.DockerException, OSError) as error:
        engine.close()
        pytest.skip(f"no engine with {BASE}: {type(error).__name__}")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def images(client: Any) -> Iterator[dict[str, str]]:
    """Image Ids by task, built once each from the task's own folder and removed at the end."""
    built: dict[str, str] = {}
    yield built
    for image in built.values():
        client.images.remove(image, noprune=True, force=True)


def pack_up(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (data, mode) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def tree(folder: Path, prefix: str) -> dict[str, tuple[bytes, int]]:
    return {
        f"{prefix}{path.relative_to(folder)}": (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def build(client: Any, task: str) -> str:
    context = io.BytesIO(pack_up(tree(PACK / "tasks" / task / "environment", "")))
    tag = f"assize-test/{uuid.uuid4().hex}"
    image, _ = client.images.build(fileobj=context, custom_context=True, tag=tag, labels=LABELS, rm=True)
    return str(image.id)


def reward_in(container: Any, said: bytes) -> tuple[str, str]:
    """The one line of the reward's file, as the engine hands it out, and what the harness said on the way."""
    try:
        parts, _ = container.get_archive("/logs/verifier/reward.txt")
    except docker.errors.NotFound:
        raise AssertionError(said) from None
    with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
        file = archive.extractfile("reward.txt")
        assert file is not None
        reward = file.read().decode().strip()
    assert reward, said
    return reward, said.decode("utf-8", "replace")


def grade(client: Any, image: str, task: str, patch: Path) -> tuple[str, str]:
    """The reward of a workspace with `patch` applied, and the checks.

    The container has the grader's three capabilities.
    """
    container = client.containers.create(
        image, ["sleep", "900"], user="0:0", network_mode="none", init=True, labels=LABELS,
        cap_drop=["ALL"], cap_add=["SETUID", "SETGID", "KILL"], security_opt=["no-new-privileges"],
        mem_limit="1g", pids_limit=512,
    )  # fmt: skip
    try:
        container.start()
        container.put_archive("/", pack_up({"tmp/wrong.patch": (patch.read_bytes(), 0o644)}))
        command = ["patch", "-p1", "-s", "-i", "/tmp/wrong.patch"]
        code, said = container.exec_run(command, user="1000:1000", workdir="/workspace")
        assert code == 0, said
        assert container.exec_run(["mkdir", "-p", "-m", "0700", "/tests", "/logs/verifier"])[0] == 0
        container.put_archive("/", pack_up(tree(PACK / "tasks" / task / "tests", "tests/")))
        said = container.exec_run(["bash", "/tests/test.sh"])[1]
        return reward_in(container, said)
    finally:
        container.remove(force=True, v=True)


def reward_of(client: Any, images: dict[str, str], task: str, patch: Path) -> tuple[str, str]:
    if task not in images:
        images[task] = build(client, task)
    return grade(client, images[task], task, patch)


@pytest.mark.parametrize("patch", RIGHT, ids=lambda path: path.parent.parent.name)
def test_reference_solution_passes(client: Any, images: dict[str, str], patch: Path) -> None:
    """Rule: the reference solution passes through the same way, so that a 0 below means something."""
    reward, said = reward_of(client, images, patch.parent.parent.name, patch)
    assert reward == "1", said


@pytest.mark.parametrize("patch", WRONG, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_wrong_solution_fails(client: Any, images: dict[str, str], patch: Path) -> None:
    """Rule: hidden tests are broad enough to refuse a plausible but wrong solution."""
    reward, said = reward_of(client, images, patch.parent.name, patch)
    assert reward == "0", said
