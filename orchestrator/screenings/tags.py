"""What a pack says of its tasks, for screenings that ran on exactly this pack (S4-17, S4-22)."""

from __future__ import annotations

from pathlib import Path

from orchestrator.home import Home
from orchestrator.packs.catalog import list_packs
from orchestrator.packs.errors import PackError
from orchestrator.packs.freeze import load_lock, load_manifest
from orchestrator.packs.manifest import PackManifest, identity, manifest_digest
from scoring.facts import Difficulty, TaskTags


def task_tags(home: Home, pack_id: str, version: str, digest: str) -> dict[str, TaskTags] | None:
    """Use cases and difficulty by task id of the known pack with this very digest; None when there is none.

    The digest binds the lock, and the lock the manifest: tags that were changed after the run are not taken.
    """
    for ref in list_packs(home):
        if (ref.name, ref.version) == (pack_id, version) and ref.problem is None:
            manifest = _manifest(ref.path, digest)
            if manifest is not None:
                return _tags(manifest)
    return None


def _manifest(root: Path, digest: str) -> PackManifest | None:
    """The manifest in `root` if it is that of the pack with this digest."""
    try:
        lock, manifest = load_lock(root), load_manifest(root)
    except PackError:
        return None
    same = identity(lock) == digest and manifest_digest(manifest) == lock.manifest_digest
    return manifest if same else None


def _tags(manifest: PackManifest) -> dict[str, TaskTags]:
    return {
        task.id: TaskTags(task.use_cases, None if task.difficulty is None else Difficulty(task.difficulty))
        for task in manifest.tasks
        if task.use_cases or task.difficulty is not None
    }
