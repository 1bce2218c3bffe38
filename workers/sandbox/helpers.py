"""Containers that are never started: to copy files in and out of an image or a volume."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from workers.errors import EngineCallError
from workers.sandbox.client import Engine, translated


@contextlib.contextmanager
def unstarted(
    engine: Engine, image_id: str, purpose: str, mounts: Sequence[dict[str, Any]] = ()
) -> Iterator[str]:
    """The id of such a container, removed afterwards; it carries the labels of its process for the reaper."""
    body = {
        "Image": image_id,
        "Entrypoint": ["true"],
        "NetworkDisabled": True,
        "Labels": dict(engine.owner_labels),
        "HostConfig": {"NetworkMode": "none", "Mounts": list(mounts)},
    }
    with translated("create"):
        made = engine.api.create_container_from_config(  # type: ignore[no-untyped-call]
            body, f"assize-{purpose}-{time.monotonic_ns()}"
        )
    try:
        yield str(made["Id"])
    finally:
        with contextlib.suppress(EngineCallError), translated("remove"):
            engine.api.remove_container(made["Id"], force=True)
