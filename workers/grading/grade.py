"""Run a task's tests in a container that the agent never touched and read its one verdict.

`fresh`: a new container of the pinned grader image; only the filtered carry crosses. `in_place`: a new
container on a snapshot of the dead agent's file system, for packs whose manifest demands it; tests and
verdict then live on volumes made after the agent's death, so that nothing planted there is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from orchestrator.attempts import AttemptOrder
from orchestrator.observations import Clock, Death, VerdictProblem
from workers.capture.carry import Carry
from workers.capture.folder import read_folder
from workers.capture.growth import disk_guard
from workers.capture.source import EngineSource, source_of
from workers.errors import (
    ContainerGoneError,
    EngineCallError,
    ImageMissingError,
    PathRefusedError,
    SandboxMismatchError,
    WorkerError,
)
from workers.grading.verdict import PassRule, Verdict, read_verdict
from workers.sandbox.container import Container
from workers.sandbox.execute import Command, ExecResult, StreamEnd, run_command
from workers.sandbox.kernel_log import host_oom
from workers.sandbox.prepared import Prepared
from workers.sandbox.profile import LOOPBACK_NAMES, Limits, create_body
from workers.sandbox.proofs import require_own_network
from workers.sandbox.station import Station
from workers.sandbox.tars import Owner, TarBuilder
from workers.sandbox.users import UnknownUserError

VERDICT_FOLDER: Final = "/logs/verifier"
DELETED_LIST: Final = "/assize/deleted"
VERDICT_CAP_BYTES: Final = 32 * 1024 * 1024
_LIFETIME_GRACE_S: Final = 120
_GRADER_PIDS: Final = 512
_KILLED: Final = 137
_PIECE_BYTES: Final = 1 << 20
_TOLD_BYTES: Final = 500
_PAUSES_S: Final = (0.0, 0.5, 1.5)
"""Before each start of a command that the runtime could not start: trouble of the host may be over then."""

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
    host_oom: bool | None = None
    verdict: Verdict = field(default_factory=lambda: Verdict(None, None, None))
    output: ExecResult | None = None
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class GradeInput:
    """What to grade with; `snapshot` is the image of the agent's file system for grading in place."""

    order: AttemptOrder
    snapshot: str | None
    test_files: tuple[str, ...]
    rule: PassRule
    labels: Mapping[str, str]
    name: str


def _body(task: GradeInput, image_id: str) -> dict[str, Any]:
    order = task.order
    limits = Limits(
        order.caps.memory_bytes,
        order.caps.cpus_milli,
        max(order.caps.pids, _GRADER_PIDS),
        order.caps.grade_wall_ms // 1000 + _LIFETIME_GRACE_S,
    )
    body = create_body(
        image_id,
        limits,
        runtime=order.runtime,
        grader=True,
        labels=task.labels,
        volumes={},
        workdir=order.workdir if not order.separate else None,
        engine_network=False,
    )
    if order.grading == "in_place":
        body["HostConfig"]["Mounts"] = [
            {"Type": "volume", "Target": target, "VolumeOptions": {"NoCopy": True}}
            for target in ("/tests", VERDICT_FOLDER, "/assize")
        ]
    return body


def _content(order: AttemptOrder, test_files: tuple[str, ...], owner: Owner) -> bytes:
    tar = TarBuilder()
    tar.folder("/logs", 0o755)
    tar.folder(VERDICT_FOLDER, 0o700, owner)
    tar.folder("/logs/artifacts", 0o755, owner)
    tar.folder("/assize", 0o755)
    if not order.grader_has_tests:
        tar.tree(order.task_dir / "tests", test_files, "/tests", owner, private=True)
    return tar.bytes()


def _carried(carry: Carry) -> Iterator[bytes]:
    """What is copied into the started container, in pieces."""
    with carry.tar.open("rb") as file:
        left = carry.tar_body_bytes
        while left > 0 and (data := file.read(min(left, _PIECE_BYTES))):
            left -= len(data)
            yield data
    tail = TarBuilder()
    if carry.deleted:
        deleted = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in carry.deleted)
        tail.file(DELETED_LIST, deleted, 0o444)
    tail.file("/etc/hosts", LOOPBACK_NAMES, 0o644)
    yield tail.bytes()


@dataclass(frozen=True)
class Started:
    """A verifier's container that is up, with nothing of the agent in it yet."""

    container: Container
    owner: Owner


def start_grader(station: Station, task: GradeInput) -> Started:
    """Create and start the verifier's container; raises `WorkerError`, and leaves nothing behind then."""
    order = task.order

    def prepared() -> Prepared:
        key = ("grader", order.task_digest, order.grader_has_tests)
        return station.prepared.ensure(
            order.grader_image, order.grader_user, key, lambda owner: _content(order, task.test_files, owner)
        )

    if task.snapshot is None:
        container, used = station.create(task.name, prepared, lambda image_id: _body(task, image_id))
    else:
        used = prepared()
        container = Container.create(station.engine, station.watch, task.name, _body(task, task.snapshot))
    try:
        if task.snapshot is not None:
            container.put(_content(order, task.test_files, used.owner))
        container.start()
        require_own_network(container.pid(), container.body)
    except BaseException:
        station.dispose(container)
        raise
    return Started(container, used.owner)


class NeverBeganError(EngineCallError):
    """The verifier's command does not begin for what the agent left: without it, it does."""


def _command(started: Started, task: GradeInput, text: str) -> Command:
    order, owner = task.order, started.owner
    workdir = order.workdir if not order.separate else None
    return Command(["bash", "-c", text], f"{owner.uid}:{owner.gid}", order.grader_environment, workdir)


def _run(
    station: Station,
    started: Started,
    task: GradeInput,
    text: str,
    cancelled: Callable[[], bool] = lambda: False,
) -> ExecResult:
    order = task.order
    deadline = time.monotonic() + order.caps.grade_wall_ms / 1000
    with disk_guard(station, started.container) as guard:
        return run_command(
            station.engine,
            started.container.id,
            _command(started, task, text),
            deadline=deadline,
            cap_bytes=order.caps.output_bytes,
            still_running=started.container.is_running,
            cancelled=cancelled,
            guard=guard,
        )


def _run_tests(
    station: Station, started: Started, task: GradeInput, carry: Carry, cancelled: Callable[[], bool]
) -> ExecResult:
    """A proven verifier's silence convicts the agent, but what never ran was not silent."""
    text = _DELETE_THEN_RUN if carry.deleted else _RUN_TESTS
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        result = _run(station, started, task, text, cancelled)
        if not result.never_began:
            return result
    kind: type[EngineCallError] = EngineCallError
    if (task.snapshot is not None or carry.tar_body_bytes) and _pinned_works(station, task, begins=True):
        # Once more, so that trouble of the host that is over by now convicts nobody.
        result = _run(station, started, task, text, cancelled)
        if not result.never_began:
            return result
        kind = NeverBeganError
    said = bytes(result.stdout[-_TOLD_BYTES:]).decode("utf-8", "replace")
    raise kind("exec_start", "NeverBegan", said)


def _note_end(graded: Graded, result: ExecResult, order: AttemptOrder) -> None:
    graded.output, graded.exit_code = result, result.exit_code
    if result.end is StreamEnd.DEADLINE:
        graded.clock, graded.clock_value = Clock.WALL, order.caps.grade_wall_ms
    elif result.end is StreamEnd.OUTPUT_CAP:
        graded.clock, graded.clock_value = Clock.OUTPUT, order.caps.output_bytes


def grade(
    station: Station,
    task: GradeInput,
    carry: Carry,
    start: Callable[[], Started],
    cancelled: Callable[[], bool],
) -> Graded:
    """Grade and tell what was seen; engine failures are observations, not exceptions."""
    graded = Graded()
    started: Started | None = None
    try:
        started = start()
        graded.started = True
        container = started.container
        container.put(_carried(carry))
        _note_end(graded, _run_tests(station, started, task, carry, cancelled), task.order)
        graded.death = container.death(container.kill())
        if graded.death is not None or graded.exit_code == _KILLED:
            graded.host_oom = host_oom(container.id)
        if graded.death is None:
            _read_verdict(graded, task, container)
    except ImageMissingError:
        graded.image_missing = True
    except (SandboxMismatchError, UnknownUserError) as error:
        graded.start_error = type(error).__name__
    except ContainerGoneError:
        graded.death = Death.REMOVED
    except EngineCallError as error:
        _note_refusal(graded, station, task, started, error)
    finally:
        if started is not None:
            station.dispose(started.container)
    return graded


def _note_refusal(
    graded: Graded, station: Station, task: GradeInput, started: Started | None, error: EngineCallError
) -> None:
    """A call failed. Ours, unless what the agent left is the only reason that is left.

    A verifier that had ended by itself refuses every call. A snapshot consists of the agent's files: when
    the pinned image starts in the same way and the snapshot does not, it is the agent's.
    """
    death = _own_end(started)
    if death is not None:
        graded.death = death
    elif _only_what_was_left(station, task, error):
        graded.verdict = Verdict(None, None, VerdictProblem.MISSING)
    elif graded.started:
        graded.engine_error = f"{error.call}:{error.kind}"
    else:
        graded.start_error = f"{error.call}:{error.kind}"


def _own_end(started: Started | None) -> Death | None:
    try:
        if started is None or started.container.is_running():
            return None
        death = started.container.death(started.container.kill())
    except EngineCallError:
        return None
    return death if death in (Death.SELF, Death.OOM) else None


def _only_what_was_left(station: Station, task: GradeInput, error: EngineCallError) -> bool:
    """Whether what the agent left is the only reason for a failed call that is left."""
    if isinstance(error, (PathRefusedError, NeverBeganError)):
        return True
    return task.snapshot is not None and error.status is not None and _pinned_works(station, task)


def _pinned_works(station: Station, task: GradeInput, *, begins: bool = False) -> bool:
    """Whether the same verifier comes up from the pinned image alone, and (`begins`) takes a command."""
    pinned = replace(task, snapshot=None, name=f"{task.name}-control")
    try:
        control = start_grader(station, pinned)
    except WorkerError:
        return False
    try:
        return not begins or not _run(station, control, pinned, "true").never_began
    except WorkerError:
        return False
    finally:
        station.dispose(control.container)


def _read_verdict(graded: Graded, task: GradeInput, container: Container) -> None:
    engine = EngineSource(container, lambda paths: {})
    source = engine if task.snapshot is not None else source_of(container, lambda paths: {})
    graded.files, foreign = read_folder(source, VERDICT_FOLDER, VERDICT_CAP_BYTES)
    whole = graded.output is not None and graded.output.end is StreamEnd.EOF
    if whole:
        graded.verdict = read_verdict(graded.files, foreign, task.rule)
