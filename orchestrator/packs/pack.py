"""A pack that was verified file by file and can be planned: `load_pack`, `implicit_pack`, `open_pack`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from orchestrator import canonical
from orchestrator.attempts import Caps, DiskTerms
from orchestrator.packs import refusals, semantics
from orchestrator.packs.errors import PackError, join_problems
from orchestrator.packs.freeze import compute_lock, differences, load_lock, load_manifest, load_tasks, lock_of
from orchestrator.packs.manifest import (
    MANIFEST_FILE,
    License,
    PackLock,
    PackManifest,
    PackTaskEntry,
    PassRule,
    identity,
)
from orchestrator.packs.refusals import Deviation, Refusal
from orchestrator.packs.task import CONFIG_FILE, MIGRATE_HINT, HarborTask, is_legacy_task

MB: Final = 2**20
DEFAULT_AGENT_WALL_S: Final = 3600
DEFAULT_MEMORY_MB: Final = 2048
DEFAULT_CPUS: Final = "1"
DEFAULT_PIDS: Final = 512
DEFAULT_OUTPUT_MB: Final = 64
DEFAULT_ARTIFACT_MB: Final = 256


@dataclass(frozen=True)
class PackTask:
    """One task of a pack: its entry in the manifest, its pinned digest and what is on disk."""

    entry: PackTaskEntry
    record_digest: str
    task: HarborTask

    @property
    def id(self) -> str:
        """The id under which it is planned and scored."""
        return self.entry.id


def _limit(declared: int | None, cap: int | None, default: int) -> int:
    """The task's own limit, never above the pack's; the pack's, else ours, where the task declares none."""
    if declared is None:
        return default if cap is None else cap
    return declared if cap is None else min(declared, cap)


@dataclass(frozen=True)
class Pack:
    """A verified pack. `digest` is its identity; `implicit` marks a bare folder of Harbor tasks."""

    root: Path
    manifest: PackManifest
    lock: PackLock
    digest: str
    tasks: tuple[PackTask, ...]
    implicit: bool = False

    @property
    def label(self) -> str:
        """`name@version`."""
        return f"{self.manifest.name}@{self.manifest.version}"

    def task(self, task_id: str) -> PackTask:
        """The task with this id; `PackError` if the pack has none."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise PackError(f"pack {self.label} has no task {task_id}")

    def refusals(self, task: PackTask) -> list[Refusal]:
        """Why `task` cannot be run faithfully now, the pack's waivers applied."""
        return refusals.refusals(task.task, self.manifest.deviations.waivers())

    def check_runnable(self) -> dict[str, list[Refusal]]:
        """Refusals per task id, only for tasks that have some; empty when the whole pack can run."""
        found = {task.id: self.refusals(task) for task in self.tasks}
        return {task_id: reasons for task_id, reasons in found.items() if reasons}

    def caps(self, task: PackTask) -> Caps:
        """Limits of one try of `task`, in the units of `Caps`."""
        config, caps = task.task.config, self.manifest.caps
        agent_s, cpus = config.agent.timeout_sec, config.environment.cpus
        agent_cap = None if caps.agent_wall_s is None else caps.agent_wall_s * 1000
        grade_cap = None if caps.grade_wall_s is None else caps.grade_wall_s * 1000
        cpus_cap = None if caps.cpus is None else int(Decimal(caps.cpus) * 1000)
        memory_mb = _limit(config.environment.memory_mb, caps.memory_mb, DEFAULT_MEMORY_MB)
        return Caps(
            agent_wall_ms=_limit(
                None if agent_s is None else semantics.milliseconds(agent_s),
                agent_cap,
                DEFAULT_AGENT_WALL_S * 1000,
            ),
            grade_wall_ms=_limit(semantics.milliseconds(config.verifier.timeout_sec), grade_cap, 0),
            memory_bytes=memory_mb * MB,
            cpus_milli=_limit(
                None if cpus is None else semantics.cpus_milli(cpus),
                cpus_cap,
                int(Decimal(DEFAULT_CPUS) * 1000),
            ),
            pids=caps.pids or DEFAULT_PIDS,
            output_bytes=(caps.output_mb or DEFAULT_OUTPUT_MB) * MB,
            artifact_bytes=(caps.artifact_mb or DEFAULT_ARTIFACT_MB) * MB,
        )

    def disk_bytes(self, task: PackTask) -> int | None:
        """How much a try of `task` may write at most by the task's own words; None where it says nothing."""
        declared = task.task.config.environment.storage_mb
        return None if declared is None else declared * MB

    def grading(self, task: PackTask) -> str:
        """`in_place` only where the pack says so and the task's verifier is shared; else `fresh`."""
        shared = semantics.verifier_mode(task.task) == "shared"
        return self.manifest.grading if shared else "fresh"

    def agent_user(self, task: PackTask) -> str | None:
        """Whom the agent runs as: the task's `agent.user`, else the pack's, else the image's user (None)."""
        own = semantics.user_of(task.task.config.agent.user)
        return self.manifest.agent_user if own is None else own

    def deviations(self, task: PackTask) -> list[Deviation]:
        """Everything in which a try of `task` differs from what the task states or Harbor does by default."""
        out = refusals.deviations(task.task, self.manifest.deviations.waivers())
        out += self._limit_deviations(task)
        if semantics.verifier_mode(task.task) == "shared" and self.grading(task) == "fresh":
            out.append(
                Deviation("grading", "shared verifier, graded in a fresh container on what the agent left")
            )
        return out

    def _limit_deviations(self, task: PackTask) -> Iterator[Deviation]:
        config, caps = task.task.config, self.caps(task)
        stated = (
            ("agent-wall", "agent.timeout_sec", config.agent.timeout_sec, caps.agent_wall_ms, 1000),
            ("grade-wall", "verifier.timeout_sec", config.verifier.timeout_sec, caps.grade_wall_ms, 1000),
            ("memory", "environment.memory_mb", config.environment.memory_mb, caps.memory_bytes, MB),
            ("cpus", "environment.cpus", config.environment.cpus, caps.cpus_milli, 1000),
        )
        if (storage := config.environment.storage_mb) is not None and storage * MB > DiskTerms.bytes:
            most = DiskTerms.bytes // MB
            yield Deviation("storage", f"environment.storage_mb = {storage}, at most {most} applied")
        for code, key, declared, applied, unit in stated:
            shown = f"{Decimal(applied) / unit:f}"
            if declared is None:
                yield Deviation(code, f"{key} undeclared, {shown} applied")
            elif semantics.milliseconds(declared) * unit > applied * 1000:
                yield Deviation(code, f"{key} = {declared}, {shown} applied")


def _assemble(root: Path, manifest: PackManifest, lock: PackLock, tasks: dict[str, HarborTask]) -> Pack:
    listed = tuple(PackTask(entry, tasks[entry.id].digest, tasks[entry.id]) for entry in manifest.tasks)
    return Pack(root, manifest, lock, identity(lock), listed)


def load_pack(root: Path) -> Pack:
    """The pack in `root`, verified file by file; `PackError` lists all that is missing, extra or altered."""
    root = root.absolute()
    manifest = load_manifest(root)
    pinned = load_lock(root)
    tasks = load_tasks(root, manifest)
    problems = differences(pinned, compute_lock(root, manifest, tasks))
    if problems:
        raise join_problems(
            f"pack {manifest.name}@{manifest.version}",
            problems,
            hint=f"restore the files, or pin them as a new version with `assize packs freeze {root}`",
        )
    return _assemble(root, manifest, pinned, tasks)


def find_task_dirs(root: Path) -> list[Path]:
    """Task folders at or below `root`, sorted; hidden folders and the inside of tasks are not searched.

    `PackError` names every legacy Terminal-Bench 1 folder met on the way.
    """
    found: list[Path] = []
    legacy: list[str] = []
    for folder, names, files in os.walk(root):
        path = Path(folder)
        if CONFIG_FILE in files:
            found.append(path)
            names.clear()
        elif is_legacy_task(path):
            legacy.append(f"{path.relative_to(root)}: a legacy Terminal-Bench 1 task (task.yaml)")
            names.clear()
        names[:] = [name for name in names if not name.startswith(".")]
    if legacy:
        raise join_problems(f"pack {root.name}", sorted(legacy), hint=MIGRATE_HINT)
    return sorted(found)


def sanitise(text: str) -> str:
    """`text` in the charset of ids: lower case, everything else a dash, starting with a letter or digit."""
    return re.sub(r"[^a-z0-9._/+-]", "-", text.lower()).lstrip("._/+-") or "pack"


def _implicit_entries(root: Path, folders: list[Path]) -> tuple[PackTaskEntry, ...]:
    entries: list[PackTaskEntry] = []
    ids: dict[str, str] = {}
    for folder in folders:
        path = folder.relative_to(root).as_posix()
        task_id = sanitise(root.name if path == "." else path)
        if task_id in ids:
            raise PackError(f"pack {root.name}: {path} and {ids[task_id]} would both be the task {task_id}")
        ids[task_id] = path
        entries.append(PackTaskEntry(id=task_id, path=path))
    return tuple(entries)


def implicit_pack(root: Path, *, pass_rule: PassRule | None = None) -> Pack:
    """A bare folder of Harbor tasks (or one task folder) as a pack, pinned in memory.

    Its name is the folder's, its version `0+<first 12 hex digits of the digest of its tasks>`; three tries,
    the image's own user, graded fresh. Files outside the task folders are not part of it.
    """
    root = root.resolve()
    folders = find_task_dirs(root)
    if not folders:
        raise PackError(f"{root}: no {MANIFEST_FILE}, and no {CONFIG_FILE} at or below it")
    entries = _implicit_entries(root, folders)
    draft = PackManifest(
        name=sanitise(root.name),
        version="0",
        title=root.name or "pack",
        licenses=(License(spdx="NOASSERTION"),),
        pass_rule=pass_rule or PassRule(),
        tasks=entries,
    )
    tasks = load_tasks(root, draft)
    content = canonical.digest([[name, task.digest] for name, task in tasks.items()])
    manifest = draft.model_copy(update={"version": f"0+{content[:12]}"})
    files = [
        replace(item, path=item.path if entry.path == "." else f"{entry.path}/{item.path}")
        for entry in entries
        for item in tasks[entry.id].entries
    ]
    pack = _assemble(root, manifest, lock_of(manifest, tasks, files), tasks)
    return replace(pack, implicit=True)


def open_pack(root: Path) -> Pack:
    """The pack in `root`: by its manifest if it has one, else as a bare folder of tasks."""
    return load_pack(root) if (root / MANIFEST_FILE).is_file() else implicit_pack(root)
