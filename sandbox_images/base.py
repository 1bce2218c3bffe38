"""Find or make the image behind a name, and lock it by Id (issue 2, base image).

Order: the lock, an image the engine already has under that name, the registry, our recipe (built from
the host's own packages), and then ImageUnavailableError. A name a recipe only stands in for is recorded
as `standin`, so that a pack can show the deviation.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import debian, registry, wheel
from .archive import load_layer
from .errors import HostSetupError, ImageUnavailableError
from .layered import build_on_registry_image
from .lock import LockedImage, file_lock
from .recipes import Recipe, canonical_name, find_recipe, load_recipes
from .store import ImageStore

BASE_IMAGE = "assize/base:1"
OTHER_BASE = "assize/base-trixie:1"
"""For trying agents out: another Debian, glibc and Python than those of `BASE_IMAGE`."""
RECIPE_LABEL = "assize.recipe"
IMAGE_LABEL = "assize.image"
DETAIL_LABEL = "assize.detail"
SOURCE_LABEL = "assize.source"
_OWN_PREFIX = "assize/"


@dataclass(frozen=True)
class BaseImage:
    """An image name and the Id that stands behind it; `detail` says in words what it really holds."""

    name: str
    id: str
    source: str
    detail: str

    @property
    def standin(self) -> bool:
        """Whether this is not the named public image but our stand-in for it."""
        return self.source == "standin"


def ensure_base(store: ImageStore, name: str) -> BaseImage:
    """The image for `name`, made or pulled if need be, recorded in the lock.

    Safe for many threads and processes at once. ImageUnavailableError when there is no way to it.
    """
    full = canonical_name(name)
    recipe = find_recipe(full, load_recipes())
    if ready := _locked(store, full, recipe):
        return ready
    key = hashlib.sha256(full.encode()).hexdigest()[:16]
    with file_lock(store.cache / "locks" / f"base-{key}"):
        if ready := _locked(store, full, recipe):
            return ready
        entry = (
            _ours(store, full, recipe)
            or _present(store, full)
            or _pulled(store, full, recipe)
            or _made(store, full, recipe)
        )
        store.lock.record(full, entry)
        return BaseImage(full, entry.id, entry.source, entry.detail)


def _locked(store: ImageStore, name: str, recipe: Recipe | None) -> BaseImage | None:
    entry = store.lock.get(name)
    if entry is None:
        return None
    if entry.recipe and (recipe is None or entry.recipe != _recipe_digest(recipe, name)):
        return None
    if store.inspect(entry.id) is None:
        store.say(f"the locked image of {name} is gone from the engine")
        return None
    return BaseImage(name, entry.id, entry.source, entry.detail)


def _ours(store: ImageStore, name: str, recipe: Recipe | None) -> LockedImage | None:
    """Our own image, made from this very recipe before (by another installation on this engine)."""
    return None if recipe is None or recipe.standin else _remade(store, name, _recipe_digest(recipe, name))


def _remade(store: ImageStore, tag: str, digest: str) -> LockedImage | None:
    # By tag, not by label alone: images built on top of a base inherit its labels.
    made = store.inspect(tag)
    labels = store.labels(made) if made else {}
    if made is None or labels.get(RECIPE_LABEL) != digest or SOURCE_LABEL not in labels:
        return None
    return locked_image(made, labels[SOURCE_LABEL], digest, labels.get(DETAIL_LABEL, ""))


def _present(store: ImageStore, name: str) -> LockedImage | None:
    """An image the engine already has under the very name (pulled before, or loaded by the operator)."""
    description = None if name.startswith(_OWN_PREFIX) else store.inspect(name)
    if description is None:
        return None
    source = "registry" if description.get("RepoDigests") else "local"
    return locked_image(description, source, "", _digests(description) or "found in the engine")


def _pulled(store: ImageStore, name: str, recipe: Recipe | None) -> LockedImage | None:
    if not store.pull:
        return None
    if recipe and recipe.registry:
        return _on_registry_image(store, name, recipe)
    if name.startswith(_OWN_PREFIX) or registry.pull_image(store, name) is not None:
        return None
    description = store.inspect(name)
    return locked_image(description, "registry", "", _digests(description)) if description else None


def _on_registry_image(store: ImageStore, name: str, recipe: Recipe) -> LockedImage | None:
    start = canonical_name(recipe.registry)
    if store.inspect(start) is None and registry.pull_image(store, start) is not None:
        return None
    description = store.inspect(start)
    if description is None:
        return None
    digest = _recipe_digest(recipe, name)
    detail = f"packages added to {start} {_digests(description)}".strip()
    labels = {RECIPE_LABEL: digest, IMAGE_LABEL: name, SOURCE_LABEL: "registry", DETAIL_LABEL: detail}
    identifier = build_on_registry_image(store, str(description["Id"]), recipe, name, labels)
    built = store.inspect(identifier)
    return locked_image(built, "registry", digest, detail) if built else None


def _made(store: ImageStore, name: str, recipe: Recipe | None) -> LockedImage:
    if recipe is None:
        why = " and no stand-in is known" if store.pull else "; pulling is switched off"
        raise ImageUnavailableError(
            f"image {name} is not in the engine, cannot be pulled{why}",
            hint=f"load it into the engine: docker load, then docker tag ... {name}",
        )
    digest = _recipe_digest(recipe, name)
    source = "standin" if recipe.standin else "mmdebstrap"
    target = name if not recipe.standin else f"assize/standin:{digest[:16]}"
    if made := _remade(store, target, digest):
        return made
    what = "as a stand-in, " if recipe.standin else ""
    store.say(f"building {name} {what}from the host's own packages (about a minute)")
    store.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store.cache, prefix="image-") as scratch:
        layer = Path(scratch) / "layer.tar"
        if recipe.kind == "wheel":
            detail = wheel.build_wheel_layer(recipe, registry.split_name(name)[1], layer)
            command: list[str] = []
        else:
            detail = debian.build_rootfs(recipe, layer, store.say)
            command = ["/bin/bash"]
        labels = {RECIPE_LABEL: digest, IMAGE_LABEL: target, SOURCE_LABEL: source, DETAIL_LABEL: detail}
        identifier = load_layer(store, layer, target, labels, command)
    description = store.inspect(identifier)
    if description is None:
        raise ImageUnavailableError(f"the engine lost {target} right after loading it")
    return locked_image(description, source, digest, detail)


def _recipe_digest(recipe: Recipe, name: str) -> str:
    if recipe.kind == "wheel":
        return recipe.digest(registry.split_name(name)[1])
    try:
        distribution, sources = debian.host_origin(recipe.suite)
    except HostSetupError:
        # No package sources here: only the registry way is open, and it does not depend on them.
        return recipe.digest("registry")
    return recipe.digest(distribution.name, *(source.line() for source in sources))


def locked_image(description: dict[str, Any], source: str, recipe: str, detail: str) -> LockedImage:
    """A lock entry from the engine's description of an image."""
    return LockedImage(
        id=str(description["Id"]),
        source=source,
        recipe=recipe,
        created=str(description.get("Created") or ""),
        architecture=str(description.get("Architecture") or ""),
        detail=detail,
    )


def _digests(description: dict[str, Any] | None) -> str:
    return ", ".join(digest.partition("@")[2] for digest in (description or {}).get("RepoDigests") or [])
