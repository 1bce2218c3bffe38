"""Prepare all images a screening needs, each distinct build once, and list what this product keeps."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from .base import BaseImage, ensure_base
from .build import BuildRequest, BuiltImage, build_image
from .store import ImageStore
from .verify import remove_leftovers


@dataclass(frozen=True)
class ListedImage:
    """One image of the lock: `present` says whether the engine still has that very Id."""

    name: str
    id: str
    source: str
    detail: str
    created: str
    present: bool
    size_bytes: int


def prepare_for(store: ImageStore, wanted: Iterable[BuildRequest | str]) -> list[BuiltImage | BaseImage]:
    """Images for build requests and for plain names (a task's `docker_image`), in the order asked.

    One after the other: builds that share their first steps then share the engine's layer cache. The first
    error ends it; what was built before stays and is reused by the next call.
    """
    remove_leftovers(store, time.time())
    prepared: list[BuiltImage | BaseImage] = []
    for number, request in enumerate(requests := list(wanted), start=1):
        if isinstance(request, str):
            prepared.append(ensure_base(store, request))
            continue
        image = build_image(store, request)
        if not image.reused:
            store.say(f"image {number} of {len(requests)} ready: {image.name}")
        prepared.append(image)
    return prepared


def list_images(store: ImageStore) -> list[ListedImage]:
    """Every image in the lock, by name."""
    listed = []
    for name, entry in sorted(store.lock.entries().items()):
        found = store.inspect(entry.id)
        size = int((found or {}).get("Size") or 0)
        listed.append(
            ListedImage(name, entry.id, entry.source, entry.detail, entry.created, found is not None, size)
        )
    return listed
