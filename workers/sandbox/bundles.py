"""Agent bundles as read-only volumes, filled once per worker process before any agent runs.

No host folder is ever mounted into a sandbox. A volume is filled, and read back for its digest, through a
container that is never started. It belongs to one process: named by owner and digest, removed when the
process ends, and reaped like a container when the process died.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Final, cast

import docker.errors

from orchestrator.agents.bundle import manifest_of_tar, write_bundle_tar
from orchestrator.agents.errors import BundleError
from workers.errors import ContainerGoneError, EngineCallError, WorkerError
from workers.sandbox.client import Engine, translated
from workers.sandbox.helpers import unstarted
from workers.sandbox.stream import ChunkReader

LABEL: Final = "assize.bundle"
_MOUNT: Final = "/opt/agent"
_CAP_BYTES: Final = 8 << 30


class BundleMismatchError(WorkerError):
    """The bundle folder is not what was registered, or the volume does not hold what was put in."""


class BundleVolumes:
    """Makes sure that a bundle's volume is there and holds exactly the registered files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._process = secrets.token_hex(8)
        self._ready: set[str] = set()

    def ensure(self, bundle_dir: Path | None, digest: str | None, image_id: str) -> str | None:
        """The volume's name, None for an agent without a bundle; `image_id` lends the helper container.

        Raises `BundleMismatchError` when the content cannot be made right, `EngineCallError` otherwise.
        """
        if bundle_dir is None or digest is None:
            return None
        name = self.name_of(digest)
        with self._lock:
            # A volume that somebody removed is made again by the engine, empty and without our label.
            if digest not in self._ready or not self._is_ours(name, digest):
                self._fill(name, bundle_dir, digest, image_id)
                self._ready.add(digest)
        return name

    def name_of(self, digest: str) -> str:
        """The volume of this process for a bundle."""
        return f"assize-bundle-{self._process}-{digest[:32]}"

    def close(self) -> list[str]:
        """Remove this process's volumes; returns what could not be removed."""
        failed = []
        with self._lock:
            for digest in self._ready:
                try:
                    with contextlib.suppress(ContainerGoneError), translated("volume"):
                        self._engine.api.remove_volume(self.name_of(digest))
                except EngineCallError as error:
                    failed.append(str(error))
            self._ready.clear()
        return failed

    def _is_ours(self, name: str, digest: str) -> bool:
        try:
            with translated("volume"):
                found = self._engine.api.inspect_volume(name)
        except ContainerGoneError:
            return False
        return (found.get("Labels") or {}).get(LABEL) == digest

    def _fill(self, name: str, bundle_dir: Path, digest: str, image_id: str) -> None:
        with tempfile.TemporaryFile() as tar:
            try:
                written = write_bundle_tar(bundle_dir, cast(IO[bytes], tar)).digest
            except BundleError as error:
                raise BundleMismatchError(error.message) from None
            if written != digest:
                raise BundleMismatchError(f"{bundle_dir} has the digest {written}, registered is {digest}")
            tar.seek(0)
            with translated("volume"):
                with contextlib.suppress(docker.errors.NotFound):
                    self._engine.api.remove_volume(name)
                self._engine.api.create_volume(name, labels={**self._engine.owner_labels, LABEL: digest})
            with (
                unstarted(self._engine, image_id, "fill", [self._mount(name)]) as helper,
                translated("put_archive"),
            ):
                self._engine.api.put_archive(helper, _MOUNT, tar)
        held = self._content(name, image_id)
        if held != digest:
            # Whatever it is, it is not left for anybody to use.
            with contextlib.suppress(EngineCallError), translated("volume"):
                self._engine.api.remove_volume(name, force=True)
            raise BundleMismatchError(f"volume {name} holds {held} after it was filled")

    def _content(self, name: str, image_id: str) -> str:
        """Digest of what the volume holds; an unreadable content has the empty digest."""
        with unstarted(self._engine, image_id, "fill", [self._mount(name)]) as helper:
            with translated("get_archive"):
                chunks, _stat = self._engine.api.get_archive(helper, _MOUNT)
            try:
                return manifest_of_tar(cast(IO[bytes], ChunkReader(chunks, _CAP_BYTES)), top="agent").digest
            except BundleError:
                return ""

    def _mount(self, name: str) -> dict[str, Any]:
        return {"Type": "volume", "Source": name, "Target": _MOUNT, "VolumeOptions": {"NoCopy": True}}
