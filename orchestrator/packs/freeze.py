"""Pin a pack: compute what `pack.lock.json` must say, compare it with what it says, write it.

`freeze` is for authors; `differences` is for everybody who is about to run a pack.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.packs.errors import PackError, join_problems
from orchestrator.packs.manifest import (
    LOCK_FILE,
    MANIFEST_FILE,
    PackFile,
    PackLock,
    PackManifest,
    Role,
    TaskRecord,
    manifest_digest,
    plain,
    validated,
)
from orchestrator.packs.task import HarborTask, load_task, read_text
from orchestrator.packs.tree import TreeEntry, scan_tree

_FOLDER_ROLES: Final = {
    "environment": Role.ENVIRONMENT,
    "tests": Role.GRADER,
    "solution": Role.SOLUTION,
    "workdir": Role.ENVIRONMENT,
}
_LICENCE_STEMS: Final = ("license", "licence", "copying", "notice")
_DOCUMENTS: Final = frozenset({"readme.md", "readme", "changelog.md", "task.toml"})


def _role_by_name(name: str) -> Role:
    lower = name.lower()
    if lower.startswith(_LICENCE_STEMS):
        return Role.LICENCE
    return Role.MANIFEST if lower in _DOCUMENTS else Role.SECRET


def role_in_task(path: str) -> Role:
    """The role of a file of a task; what is not known to be harmless is `secret`."""
    first, *rest = path.split("/")
    if first == "steps" and len(rest) > 1:
        return role_in_task("/".join(rest[1:]))
    if rest:
        return _FOLDER_ROLES.get(first, Role.SECRET)
    if path in ("instruction.md", "trajectory.json"):
        return Role.INSTRUCTION
    return _role_by_name(first)


def _role(path: str, task_paths: tuple[str, ...]) -> Role:
    for task_path in task_paths:
        if task_path == ".":
            return role_in_task(path)
        if path.startswith(task_path + "/"):
            return role_in_task(path.removeprefix(task_path + "/"))
    return _role_by_name(path.rsplit("/", 1)[-1])


def _pinned(entry: TreeEntry, role: Role) -> PackFile:
    return PackFile(
        path=entry.path,
        kind=entry.kind,
        executable=entry.executable,
        bytes=entry.bytes,
        sha256=entry.sha256,
        role=role,
    )


def _nested(manifest: PackManifest) -> list[str]:
    """Tasks whose folder holds another task or the manifest itself: their digests would not be their own."""
    paths = sorted(entry.path for entry in manifest.tasks)
    out = ["tasks: the path '.' would make the manifest part of a task"] if "." in paths else []
    return out + [
        f"tasks: {inner} lies inside the task {outer}"
        for outer in paths
        for inner in paths
        if inner.startswith(outer + "/")
    ]


def load_manifest(root: Path) -> PackManifest:
    """Read and validate `pack.toml` of the folder `root`."""
    subject = f"pack {root.name}: {MANIFEST_FILE}"
    try:
        raw = tomllib.loads(read_text(root / MANIFEST_FILE, f"pack {root.name}"))
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{subject}: not valid TOML: {error}") from None
    manifest = validated(PackManifest, raw, subject)
    missing = [item.file for item in manifest.licenses if item.file and not (root / item.file).is_file()]
    problems = [f"licenses: the file {name} is missing" for name in missing] + _nested(manifest)
    if problems:
        raise join_problems(subject, problems)
    return manifest


def load_lock(root: Path) -> PackLock:
    """Read and validate `pack.lock.json` of the folder `root`."""
    subject = f"pack {root.name}: {LOCK_FILE}"
    if not (root / LOCK_FILE).is_file():
        raise PackError(f"{subject} is missing", hint=f"run `assize packs freeze {root}` to pin its files")
    try:
        raw = json.loads(read_text(root / LOCK_FILE, f"pack {root.name}"))
    except ValueError as error:
        raise PackError(f"{subject}: not valid JSON: {error}") from None
    return validated(PackLock, raw, subject)


def load_tasks(root: Path, manifest: PackManifest) -> dict[str, HarborTask]:
    """Every task of the pack by id; `PackError` lists all that cannot be loaded."""
    tasks: dict[str, HarborTask] = {}
    problems: list[str] = []
    for entry in manifest.tasks:
        try:
            tasks[entry.id] = load_task(root / entry.path)
        except PackError as error:
            problems.append(error.message)
    if problems:
        raise join_problems(f"pack {manifest.name}@{manifest.version}", problems)
    return tasks


def lock_of(
    manifest: PackManifest, tasks: Mapping[str, HarborTask], entries: Iterable[TreeEntry]
) -> PackLock:
    """The lock of a pack with these tasks and files (paths relative to the pack's folder)."""
    paths = tuple(entry.path for entry in manifest.tasks)
    return PackLock(
        name=manifest.name,
        version=manifest.version,
        manifest_digest=manifest_digest(manifest),
        tasks=tuple(TaskRecord(id=name, record_digest=task.digest) for name, task in tasks.items()),
        files=tuple(
            _pinned(entry, _role(entry.path, paths))
            for entry in entries
            if entry.path not in (MANIFEST_FILE, LOCK_FILE)
        ),
    )


def compute_lock(root: Path, manifest: PackManifest, tasks: Mapping[str, HarborTask]) -> PackLock:
    """What the lock of the pack in `root` must say, from all files on disk."""
    return lock_of(manifest, tasks, scan_tree(root, f"pack {manifest.name}@{manifest.version}"))


def _alteration(pinned: PackFile, found: PackFile) -> str:
    for key in ("kind", "bytes", "sha256", "executable", "role"):
        before, after = getattr(pinned, key), getattr(found, key)
        if before != after:
            return f"{pinned.path}: altered ({key} is {after}, pinned as {before})"
    raise AssertionError("called with equal files")


def differences(pinned: PackLock, found: PackLock) -> list[str]:
    """Every way in which the files on disk differ from the lock, one sentence each; empty when none."""
    out: list[str] = []
    if (pinned.name, pinned.version) != (found.name, found.version):
        out.append(f"{LOCK_FILE} belongs to {pinned.name}@{pinned.version}, not {found.name}@{found.version}")
    if pinned.manifest_digest != found.manifest_digest:
        out.append(f"{MANIFEST_FILE}: altered since it was pinned")
    before = {item.path: item for item in pinned.files}
    after = {item.path: item for item in found.files}
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            out.append(f"{path}: missing")
        elif path not in before:
            out.append(f"{path}: extra, not in the lock")
        elif before[path] != after[path]:
            out.append(_alteration(before[path], after[path]))
    records = {item.id: item.record_digest for item in pinned.tasks}
    for record in found.tasks:
        if record.id not in records:
            out.append(f"task {record.id}: not in the lock")
        elif records[record.id] != record.record_digest and not out:
            out.append(f"task {record.id}: its record digest is not the pinned one")
    out += [
        f"task {name}: in the lock, but not in {MANIFEST_FILE}"
        for name in sorted(records.keys() - {record.id for record in found.tasks})
    ]
    if not out and pinned != found:
        out.append(f"{LOCK_FILE}: files or tasks are not in the order of the pack")
    return out


def _lock_text(lock: PackLock) -> str:
    """One line per file and task: readable in a diff."""
    data = plain(lock)
    lines = ["{"]
    for key in ("schema", "name", "version", "manifest_digest"):
        lines.append(f" {json.dumps(key)}: {json.dumps(data[key])},")
    for key in ("tasks", "files"):
        items = [
            "  " + json.dumps(item, sort_keys=True, ensure_ascii=False, separators=(", ", ": "))
            for item in data[key]
        ]
        lines += [f' "{key}": [', ",\n".join(items), " ]" + ("," if key == "tasks" else "")]
    return "\n".join([*lines, "}"]) + "\n"


def freeze(root: Path) -> str:
    """Pin the pack in `root`: write `pack.lock.json` and return its text.

    Other content under the same `name@version` is only accepted while `state = "draft"`; afterwards the
    version must be raised first (`PackError`).
    """
    root = root.absolute()
    manifest = load_manifest(root)
    lock = compute_lock(root, manifest, load_tasks(root, manifest))
    if manifest.state != "draft" and (root / LOCK_FILE).is_file():
        previous = load_lock(root)
        if previous.version == lock.version and previous != lock:
            raise PackError(
                f"pack {manifest.name}@{manifest.version} is {manifest.state} and its files changed",
                hint='raise the version, or set state = "draft" while you are writing',
            )
    text = _lock_text(lock)
    validated(PackLock, json.loads(text), f"pack {root.name}: {LOCK_FILE}")
    temporary = root / f".{LOCK_FILE}.{os.getpid()}"
    temporary.write_text(text, "utf-8")
    temporary.replace(root / LOCK_FILE)
    return text
