"""What every image operation needs, in one value: engine client, lock, cache folder, and a voice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import docker
import docker.errors

from .lock import ImageLock


def quiet(_: str) -> None:
    """A voice that says nothing."""


@dataclass(frozen=True)
class ImageStore:
    """`pull=False` never asks a registry. `say` gets one line per long step."""

    client: docker.APIClient
    lock: ImageLock
    cache: Path
    say: Callable[[str], None] = quiet
    pull: bool = True

    @property
    def engine(self) -> Any:
        """The client for calls that the SDK's published types leave untyped."""
        return self.client

    def inspect(self, reference: str) -> dict[str, Any] | None:
        """The engine's description of an image by Id or name, or None when it is not there."""
        try:
            return cast("dict[str, Any]", self.engine.inspect_image(reference))
        except docker.errors.ImageNotFound:
            return None

    def labels(self, description: dict[str, Any]) -> dict[str, str]:
        """The labels of an inspected image."""
        return cast("dict[str, str]", (description.get("Config") or {}).get("Labels") or {})
