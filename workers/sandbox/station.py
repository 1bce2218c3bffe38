"""What one worker process shares between its attempts: engine, event watch, prepared images, bundles."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from workers.capture.source import source_of
from workers.errors import CarryOverflowError, ImageMissingError, WorkerError
from workers.sandbox import disk
from workers.sandbox.bundles import BundleVolumes
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.disk import DiskWatch, free_on
from workers.sandbox.disposer import Disposer
from workers.sandbox.prepared import Prepared, PreparedImages
from workers.sandbox.watch import EngineWatch


class Station:
    """One per worker process; every part is safe for many threads."""

    def __init__(self, host: str | None, watched_label: str, threads: int = 64) -> None:
        self.engine = Engine(host)
        self.watch = EngineWatch(self.engine, watched_label)
        self.disposer = Disposer()
        self.bundles = BundleVolumes(self.engine)
        self.prepared = PreparedImages(self.engine)
        self.pool = ThreadPoolExecutor(threads, "station")
        self._root: str | None = None

    def create(
        self,
        name: str,
        prepare: Callable[[], Prepared],
        body: Callable[[str], dict[str, object]],
    ) -> tuple[Container, Prepared]:
        """A container of a prepared image; an image that somebody removed in between is made once more."""
        prepared = prepare()
        try:
            return Container.create(self.engine, self.watch, name, body(prepared.id)), prepared
        except ImageMissingError:
            self.prepared.forget(prepared)
            prepared = prepare()
            return Container.create(self.engine, self.watch, name, body(prepared.id)), prepared

    def disk_watch(self, container: Container) -> DiskWatch:
        """Watches what a running container of ours writes."""
        root = self._disk_root()
        source = source_of(container, lambda paths: {})

        def too_many_files() -> bool:
            try:
                source.changes()
            except CarryOverflowError:
                return True
            except WorkerError:  # cannot be told while it runs; it will be when it is dead
                return False
            return False

        return DiskWatch(
            lambda: free_on(root), container.written_bytes, too_many_files, limit_bytes=disk.LIMIT_BYTES
        )

    def _disk_root(self) -> str:
        if self._root is None:
            self._root = str(self.engine.info().get("DockerRootDir") or "")
        return self._root

    def dispose(self, container: Container) -> None:
        """Remove a container beside the next work."""
        self.disposer.submit(container.remove)

    def close(self) -> list[str]:
        """Wait for removals and end the streams; returns what could not be removed."""
        self.pool.shutdown()
        failed = self.disposer.close() + self.bundles.close()
        self.watch.close()
        self.engine.close()
        return failed
