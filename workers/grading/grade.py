"""Run a task's tests in a container that the agent never touched and read its one verdict.

`fresh`: a new container of the pinned grader image; only the filtered carry crosses. `in_place`: a new
container on a snapshot of the dead agent's file system, for packs whose manifest demands it; tests and
verdict then live on volumes made after the agent's death, so that nothing planted there is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.attempts import AttemptOrder
from orchestrator.observations import Clock, Death
from workers.capture.carry import Carry
from workers.capture.folder import read_folder
from workers.errors import ContainerGoneError, EngineCallError, ImageMissingError, SandboxMismatchError
from workers.grading.verdict import PassRule, Verdict, read_verdict
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.execute import Command, ExecResult, StreamEnd, run_command
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.tars import Owner, TarBuilder
from workers.sandbox.users import UnknownUserError, resolve_owner
from workers.sandbox.watch import EngineWatch

VERDICT_FOLDER: Final = "/logs/verifier"
DELETED_LIST: Final = "/assize/deleted"
VERDICT_CAP_BYTES: Final = 32 * 1024 * 1024
_LIFETIME_GRACE_S: Final = 120
_GRADER_PIDS: Final = 512

_RUN_TESTS: Final = "exec bash /tests/test.sh"
_DELETE_THEN_RUN: Final = (
    f"while IFS= read -r -d '' gone; do rm -rf -- \"$gone\"; done < {DELETED_LIST}; {_RUN_TESTS}"
)


@dataclass
class Graded:
    """What the grade phase showed; the None fields of a failed start stay None."""

    image_missing: bool = False
    start_error: str | None = None
    engine_error: str | None = None
    started: bool = False
    clock: Clock | None = None
    clock_value: int | None = None
    exit_code: int | None = None
    death: Death | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(None, None, None))
    output: ExecResult | None = None
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class GradeInput:
    """What to grade: the carry, the image to run on, and where the tests come from."""

    order: AttemptOrder
    carry: Carry
    image: str
    test_files: tuple[str, ...]
    rule: PassRule
    labels: Mapping[str, str]
    name: str


def _body(task: GradeInput) -> dict[str, Any]:
    order = task.order
    limits = Limits(
        order.caps.memory_bytes,
        order.caps.cpus_milli,
        max(order.caps.pids, _GRADER_PIDS),
        order.caps.grade_wall_ms // 1000 + _LIFETIME_GRACE_S,
    )
    body = create_body(
        task.image,
        limits,
        runtime=order.runtime,
        grader=True,
        labels=task.labels,
        volumes={},
        workdir=order.workdir if not order.separate else None,
    )
    if order.grading == "in_place":
        body["HostConfig"]["Mounts"] = [
            {"Type": "volume", "Target": target, "VolumeOptions": {"NoCopy": True}}
            for target in ("/tests", VERDICT_FOLDER, "/assize")
        ]
    return body


def _content(task: GradeInput, owner: Owner) -> bytes:
    tar = TarBuilder()
    tar.folder("/logs", 0o755)
    tar.folder(VERDICT_FOLDER, 0o700, owner)
    tar.folder("/logs/artifacts", 0o755, owner)
    tar.members(task.carry.tar[: task.carry.tar_body_bytes])
    if not task.order.grader_has_tests:
        tar.tree(task.order.task_dir / "tests", task.test_files, "/tests", owner, private=True)
    if task.carry.deleted:
        deleted = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in task.carry.deleted)
        tar.folder("/assize", 0o755)
        tar.file(DELETED_LIST, deleted, 0o444)
    return tar.bytes()


def _run_tests(
    engine: Engine, container: Container, task: GradeInput, owner: Owner, cancelled: Callable[[], bool]
) -> ExecResult:
    order = task.order
    script = _DELETE_THEN_RUN if task.carry.deleted and order.grading == "fresh" else _RUN_TESTS
    command = Command(
        ["bash", "-c", script],
        f"{owner.uid}:{owner.gid}",
        order.grader_environment,
        order.workdir if not order.separate else None,
    )
    return run_command(
        engine,
        container.id,
        command,
        deadline=time.monotonic() + order.caps.grade_wall_ms / 1000,
        cap_bytes=order.caps.output_bytes,
        still_running=container.is_running,
        cancelled=cancelled,
    )


def _note_end(graded: Graded, result: ExecResult, order: AttemptOrder) -> None:
    graded.output, graded.exit_code = result, result.exit_code
    if result.end is StreamEnd.DEADLINE:
        graded.clock, graded.clock_value = Clock.WALL, order.caps.grade_wall_ms
    elif result.end is StreamEnd.OUTPUT_CAP:
        graded.clock, graded.clock_value = Clock.OUTPUT, order.caps.output_bytes


def grade(
    engine: Engine,
    watch: EngineWatch,
    task: GradeInput,
    *,
    cancelled: Callable[[], bool],
    dispose: Callable[[Container], None],
) -> Graded:
    """Grade and tell what was seen; engine failures are observations, not exceptions."""
    graded = Graded()
    container: Container | None = None
    try:
        container = Container.create(engine, watch, task.name, _body(task))
        # A snapshot carries the sandbox's own PID 1 user; the image's user is the pinned image's.
        config = engine.image_config(task.order.grader_image)
        owner = resolve_owner(container, task.order.grader_user, str(config.get("User") or ""))
        container.put(_content(task, owner))
        container.start()
        graded.started = True
        _note_end(graded, _run_tests(engine, container, task, owner, cancelled), task.order)
        state = container.kill()
        graded.death = container.death(state)
        if graded.death is None:
            graded.files, foreign = read_folder(container, VERDICT_FOLDER, VERDICT_CAP_BYTES)
            if graded.clock is None:
                graded.verdict = read_verdict(graded.files, foreign, task.rule)
    except ImageMissingError:
        graded.image_missing = True
    except SandboxMismatchError as error:
        graded.start_error = f"SandboxMismatch:{error.field}"
    except UnknownUserError:
        graded.start_error = "UnknownUser"
    except ContainerGoneError:
        graded.death = Death.REMOVED
    except EngineCallError as error:
        if graded.started:
            graded.engine_error = f"{error.call}:{error.kind}"
        else:
            graded.start_error = f"{error.call}:{error.kind}"
    finally:
        if container is not None:
            dispose(container)
    return graded
