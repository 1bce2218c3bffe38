"""Agent bundles as read-only volumes, one per bundle and home on a worker host, filled once.

No host folder is ever mounted into a sandbox. A volume is filled, and read back for its digest, through a
container that is never started; its MANIFEST goes in last, so that a volume with the right one is complete.
It stays when the process ends, and is reaped when its home has the bundle no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Final, cast

import docker.errors

from orchestrator.agents.bundle import MANIFEST_NAME, BundleManifest, manifest_of_tar, write_bundle_tar
from orchestrator.agents.errors import BundleError
from sandbox_images.lock import file_lock
from workers.errors import ContainerGoneError, EngineCallError, WorkerError
from workers.sandbox.client import Engine, translated
from workers.sandbox.helpers import unstarted
from workers.sandbox.reaper import ATTEMPT_LABEL, HOME_LABEL
from workers.sandbox.stream import ChunkReader
from workers.sandbox.tars import TarBuilder

LABEL: Final = "assize.bundle"
LIVE_KIND: Final = "bundle"
"""`bundle/<digest>` is what the reaper asks the home about."""
_MOUNT: Final = "/opt/agent"
_CAP_BYTES: Final = 8 << 30
_MANIFEST_CAP_BYTES: Final = 64 << 20


class BundleMismatchError(WorkerError):
    """The bundle folder is not what was registered, or the volume does not hold what was put in."""


class BundleVolumes:
    """Makes sure that a bundle's volume is there and holds exactly the registered files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._ready: set[str] = set()

    def ensure(self, bundle_dir: Path | None, digest: str | None, image_id: str) -> str | None:
        """The volume's name, None for an agent without a bundle; `image_id` lends the helper container.

        Processes of one home fill it one after the other. Raises `BundleMismatchError` when the content
        cannot be made right, `EngineCallError` otherwise.
        """
        if bundle_dir is None or digest is None:
            return None
        name = self.name_of(digest)
        with self._lock:
            # A volume that somebody removed is made again by the engine, empty and without our label.
            if name not in self._ready or not self._is_ours(name, digest):
                with file_lock(bundle_dir.with_name(f".{bundle_dir.name}.lock")):
                    if not self._is_complete(name, digest, image_id):
                        self._fill(name, bundle_dir, digest, image_id)
                self._ready.add(name)
        return name

    def holds(self, digest: str) -> bool:
        """Whether the bundle's volume is the one that was filled, and not one that the engine made again."""
        return self._is_ours(self.name_of(digest), digest)

    def discard(self, digest: str) -> None:
        """Remove a volume that the engine made again: it has no label, so that no reaper would find it."""
        with contextlib.suppress(EngineCallError), translated("volume"):
            self._engine.api.remove_volume(self.name_of(digest))

    def name_of(self, digest: str) -> str:
        """The volume of a bundle in the home that this process works for."""
        home = hashlib.sha256(self._home.encode()).hexdigest()
        return f"assize-agent-{digest[:32]}-{home[:8]}"

    @property
    def _home(self) -> str:
        return self._engine.owner_labels.get(HOME_LABEL, "")

    def _is_ours(self, name: str, digest: str) -> bool:
        try:
            with translated("volume"):
                found = self._engine.api.inspect_volume(name)
        except ContainerGoneError:
            return False
        return (found.get("Labels") or {}).get(LABEL) == digest

    def _is_complete(self, name: str, digest: str, image_id: str) -> bool:
        """Whether a volume is there that was filled and verified to its end: its MANIFEST is the digest's."""
        if not self._is_ours(name, digest):
            return False
        with unstarted(self._engine, image_id, "fill", [self._mount(name)]) as helper:
            try:
                with translated("get_archive"):
                    chunks, _stat = self._engine.api.get_archive(helper, f"{_MOUNT}/{MANIFEST_NAME}")
                source = cast(IO[bytes], ChunkReader(chunks, _MANIFEST_CAP_BYTES))
                with tarfile.open(fileobj=source, mode="r|") as tar:
                    member = tar.next()
                    stream = None if member is None else tar.extractfile(member)
                    text = b"" if stream is None else stream.read()
            except (ContainerGoneError, tarfile.TarError):
                return False
        return hashlib.sha256(text).hexdigest() == digest

    def _fill(self, name: str, bundle_dir: Path, digest: str, image_id: str) -> None:
        with tempfile.TemporaryFile() as tar:
            manifest = self._written(bundle_dir, digest, cast(IO[bytes], tar))
            labels = {HOME_LABEL: self._home, ATTEMPT_LABEL: f"{LIVE_KIND}/{digest}", LABEL: digest}
            with translated("volume"):
                with contextlib.suppress(docker.errors.NotFound):
                    self._engine.api.remove_volume(name)
                self._engine.api.create_volume(name, labels=labels)
            self._put(name, image_id, tar)
        held = self._content(name, image_id)
        if held != digest:
            # Whatever it is, it is not left for anybody to use.
            with contextlib.suppress(EngineCallError), translated("volume"):
                self._engine.api.remove_volume(name, force=True)
            raise BundleMismatchError(f"volume {name} holds {held} after it was filled")
        seal = TarBuilder()
        seal.file(MANIFEST_NAME, manifest.text.encode(), 0o444)
        self._put(name, image_id, seal.bytes())

    def _written(self, bundle_dir: Path, digest: str, tar: IO[bytes]) -> BundleManifest:
        try:
            manifest = write_bundle_tar(bundle_dir, tar, with_manifest=False)
        except BundleError as error:
            raise BundleMismatchError(error.message) from None
        if manifest.digest != digest:
            raise BundleMismatchError(
                f"{bundle_dir} has the digest {manifest.digest}, registered is {digest}"
            )
        tar.seek(0)
        return manifest

    def _put(self, name: str, image_id: str, tar: Any) -> None:
        with (
            unstarted(self._engine, image_id, "fill", [self._mount(name)]) as helper,
            translated("put_archive"),
        ):
            self._engine.api.put_archive(helper, _MOUNT, tar)

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
