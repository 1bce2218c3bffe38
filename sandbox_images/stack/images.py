"""Build the images of docker-compose.yml, or find them built from the same bytes; pinned in the lock by Id.

All of them stand on `assize/services:1`, which is made as the base of the sandboxes is: from the registry
where there is one, else from the distribution's own packages.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import docker.errors

from ..base import ensure_base
from ..build import BuildRequest, build_image
from ..errors import ImageUnavailableError
from ..store import ImageStore
from .wheels import locked_wheels

SERVICES_BASE: Final = "assize/services:1"
APP: Final = "assize/app:1"
FLOWER: Final = "assize/flower:1"
REDIS: Final = "assize/redis:1"
POSTGRES: Final = "assize/postgres:1"

LOCK: Final = "requirements.run.lock"
FLOWER_LOCK: Final = "requirements.flower.lock"
_HERE: Final = Path(__file__).parent
_HOUSES: Final = ("orchestrator", "workers", "scoring", "sandbox_images")
_FILES: Final = ("pyproject.toml", "README.md")
_VERSION: Final = re.compile(rb"\d+(\.\d+){2}")
_ASK: Final = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_ANSWER_WITHIN_S: Final = 60


def ensure_stack_images(store: ImageStore, tree: Path) -> dict[str, str]:
    """The Ids of APP, FLOWER, REDIS and POSTGRES; `tree` is the checkout that APP is made from.

    Errors: those of `build_image` and `locked_wheels`, and ImageUnavailableError for a tree without a lock.
    """
    missing = [name for name in (LOCK, FLOWER_LOCK) if not (tree / name).is_file()]
    if missing:
        raise ImageUnavailableError(
            f"{tree} has no {missing[0]}", hint="the images are built from a checkout of the repository"
        )
    base = ensure_base(store, SERVICES_BASE)
    python = _python_of(store, base.id)
    wheels = locked_wheels(store, tree / LOCK, python)
    with _app_context(tree, wheels) as folder:
        app = _built(store, APP, BuildRequest(folder, network="none"))
    wheels = locked_wheels(store, tree / FLOWER_LOCK, python)
    with _context(_HERE / "flower", tree / FLOWER_LOCK, wheels) as folder:
        flower = _built(store, FLOWER, BuildRequest(folder, network="none"))
    return {
        APP: app,
        FLOWER: flower,
        REDIS: _built(store, REDIS, BuildRequest(_HERE / "redis")),
        POSTGRES: _built(store, POSTGRES, BuildRequest(_HERE / "postgres")),
    }


def _built(store: ImageStore, name: str, request: BuildRequest) -> str:
    """Build, tag by the name that people see, and record under it."""
    built = build_image(store, request)
    repository, _, tag = name.partition(":")
    store.engine.tag(built.id, repository, tag)
    entry = store.lock.get(built.name)
    if entry is not None:
        detail = f"on {SERVICES_BASE} {built.bases[0].detail}".strip()
        store.lock.record(name, replace(entry, detail=detail))
    return built.id


@contextlib.contextmanager
def _context(own: Path, lock: Path, wheels: Path) -> Iterator[Path]:
    """A build context: the files of `own`, a lock and its wheels."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / own.name
        shutil.copytree(own, folder)
        shutil.copy(lock, folder)
        shutil.copytree(wheels, folder / "wheels")
        yield folder


@contextlib.contextmanager
def _app_context(tree: Path, wheels: Path) -> Iterator[Path]:
    """The build context of APP: Dockerfile, wheels, lock, and the houses without what Python compiled."""
    with _context(_HERE / "app", tree / LOCK, wheels) as folder:
        for house in _HOUSES:
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
            shutil.copytree(tree / house, folder / "tree" / house, symlinks=True, ignore=ignored)
        for name in _FILES:
            shutil.copy(tree / name, folder / "tree")
        yield folder


def _python_of(store: ImageStore, image_id: str) -> str:
    """`3.11.2` or whatever the image has: asked of it, as it may come from a registry."""
    body = {"Image": image_id, "Cmd": ["python3", "-c", _ASK], "HostConfig": {"NetworkMode": "none"}}
    made = store.engine.create_container_from_config(body)
    try:
        store.engine.start(made["Id"])
        store.engine.wait(made["Id"], timeout=_ANSWER_WITHIN_S)
        answer = bytes(store.engine.logs(made["Id"], stdout=True, stderr=False)).strip()
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            store.engine.remove_container(made["Id"], force=True)
    if not _VERSION.fullmatch(answer):
        raise ImageUnavailableError(f"{SERVICES_BASE} has no working python3")
    return answer.decode()
