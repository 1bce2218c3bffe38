"""Turn one root file system tar into an image the engine can load, with the same Id every time.

`docker import` stamps the hour of the import into the image and so into its Id. Here the config is
written by us with a fixed date, so that the same files give the same Id on a classic image store.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ImageError
from .store import ImageStore

EPOCH_S = 1_735_689_600
"""2025-01-01T00:00:00Z: upper bound of every file date in a base image, and its creation date."""
CREATED = "2025-01-01T00:00:00Z"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_config(
    layer_sha256: str, architecture: str, labels: Mapping[str, str], command: list[str]
) -> bytes:
    """The image config (JSON bytes) of a one-layer image."""
    config: dict[str, Any] = {
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": {"Env": [f"PATH={PATH}", "LANG=C.UTF-8"], "Labels": dict(sorted(labels.items()))},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_sha256}"]},
        "history": [{"created": CREATED, "created_by": "assize sandbox_images"}],
    }
    if command:
        config["config"]["Cmd"] = command
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def load_layer(
    store: ImageStore, layer: Path, tag: str, labels: Mapping[str, str], command: list[str]
) -> str:
    """Load `layer` (an uncompressed tar) as image `tag`; returns the image Id. ImageError if refused."""
    with layer.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    config = image_config(digest, engine_architecture(store), labels, command)
    name = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{name}.json", "RepoTags": [tag], "Layers": [f"{digest}.tar"]}]
    with tempfile.TemporaryFile(dir=layer.parent) as whole:
        with tarfile.open(fileobj=whole, mode="w") as tar:
            _add(tar, "manifest.json", json.dumps(manifest).encode())
            _add(tar, f"{name}.json", config)
            with layer.open("rb") as source:
                entry = tarfile.TarInfo(f"{digest}.tar")
                entry.size = layer.stat().st_size
                tar.addfile(entry, source)
        whole.seek(0)
        for event in store.engine.load_image(whole):
            if "error" in event:
                raise ImageError(f"the engine refused to load {tag}: {event['error']}")
    description = store.inspect(tag)
    if description is None:
        raise ImageError(f"the engine loaded {tag} but does not list it")
    return str(description["Id"])


def engine_architecture(store: ImageStore) -> str:
    """The engine's architecture in Go's words (amd64, arm64)."""
    return str(store.client.version()["Arch"])


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
