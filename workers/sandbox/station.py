"""What one worker process shares between its attempts: engine, event watch, prepared images, bundles."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from workers.errors import ImageMissingError
from workers.sandbox.bundles import BundleVolumes
from workers.sandbox.client import Engine
from workers.sandbox.container import Container
from workers.sandbox.disposer import Disposer
from workers.sandbox.image_probe import ImageProbe
from workers.sandbox.lookouts import Lookouts
from workers.sandbox.prepared import Prepared, PreparedImages
from workers.sandbox.priority import favour_this_process
from workers.sandbox.watch import EngineWatch


class Station:
    """One per worker process; every part is safe for many threads."""

    def __init__(self, host: str | None, watched_label: str, threads: int = 64) -> None:
        favour_this_process()  # first: every thread that is started from here on inherits it
        self.engine = Engine(host)
        self.watch = EngineWatch(self.engine, watched_label)
        self.disposer = Disposer()
        self.bundles = BundleVolumes(self.engine)
        self.prepared = PreparedImages(self.engine)
        self.probe = ImageProbe(self.engine)
        self.lookouts = Lookouts()
        self.pool = ThreadPoolExecutor(threads, "station")
        self._root: str | None = None

    def create(
        self,
        name: str,
        prepare: Callable[[], Prepared],
        body: Callable[[str], dict[str, object]],
    ) -> tuple[Container, Prepared]:
        """A container of a prepared image; an image that somebody removed in between is made once more."""
        if os.geteuid() == 0:  # for nobody else a layer can be read and a cgroup frozen
            self.lookouts.begin()
        prepared = prepare()
        try:
            return Container.create(self.engine, self.watch, name, body(prepared.id)), prepared
        except ImageMissingError:
            self.prepared.forget(prepared)
            prepared = prepare()
            return Container.create(self.engine, self.watch, name, body(prepared.id)), prepared

    def disk_root(self) -> str:
        """Where the engine keeps its files on this host (asked once)."""
        if self._root is None:
            self._root = str(self.engine.info().get("DockerRootDir") or "")
        return self._root

    def dispose(self, container: Container) -> None:
        """Remove a container beside the next work."""
        self.disposer.submit(container.remove)

    def close(self) -> list[str]:
        """Wait for removals and end the streams; returns what could not be removed."""
        self.pool.shutdown()
        failed = self.disposer.close()
        self.lookouts.close()
        self.watch.close()
        self.engine.close()
        return failed
