"""Read files back from a built image and compare them with the context they were built from.

Covers the COPY steps of the final stage that no RUN follows (a later step may change a file rightfully)
and whose sources and destination are written out plainly. What it covers must match byte for byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import PurePosixPath

import docker.errors

from .context import IGNORE_FILE, BuildContext
from .dockerfile import Dockerfile, Instruction
from .errors import ImageContentError
from .store import ImageStore

PURPOSE = ("assize.purpose", "verify")
_LEFT_BEHIND_S = 600
_SPECIAL = frozenset("*?[]$\"'{}\\")


def verify_contents(store: ImageStore, image_id: str, context: BuildContext, parsed: Dockerfile) -> int:
    """Compare; returns the number of files compared. ImageContentError on the first difference."""
    expected = expected_files(context, parsed)
    if not expected:
        return 0
    compared = 0
    container = store.client.create_container(image_id, command=["true"], labels=dict([PURPOSE]))
    try:
        for top in sorted({_top(path) for path in expected}):
            found, links = _read(store, str(container["Id"]), top)
            for path in (p for p in expected if p == top or p.startswith(f"{top}/")):
                if links & {path, *map(str, PurePosixPath(path).parents)}:
                    continue  # lies behind a link, elsewhere in the image
                if found.get(path) != expected[path]:
                    raise ImageContentError(
                        f"{context.root.name}: {path} in the built image is not the file of its build context"
                    )
                compared += 1
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            store.client.remove_container(container["Id"], force=True)
    return compared


def remove_leftovers(store: ImageStore, now_s: float) -> int:
    """Remove containers of this check that a killed process left behind over ten minutes before `now_s`.

    They were never started. Younger ones may belong to another process that is reading from them.
    """
    removed = 0
    for found in store.client.containers(all=True, filters={"label": "=".join(PURPOSE)}):
        if found["Created"] < now_s - _LEFT_BEHIND_S:
            with contextlib.suppress(docker.errors.NotFound):
                store.client.remove_container(found["Id"], force=True)
                removed += 1
    return removed


def expected_files(context: BuildContext, parsed: Dockerfile) -> dict[str, str]:
    """sha256 by absolute path in the image, for the COPY steps this module covers."""
    stage = parsed.final_stage()
    files = context.files()
    expected: dict[str, str] = {}
    workdir: PurePosixPath | None = None
    for number, step in enumerate(stage):
        if step.keyword == "WORKDIR":
            workdir = _join(workdir, step.text)
        if step.keyword != "COPY" or any(later.keyword in ("RUN", "ADD") for later in stage[number + 1 :]):
            continue
        destination = _join(workdir, step.words[-1]) if step.words else None
        copied = _copied(step, files, destination)
        if copied is not None:
            expected |= copied
        else:
            # What this step writes is not known here: forget what it may have replaced.
            expected = {} if destination is None else _outside(expected, destination)
    return expected


def _copied(
    step: Instruction, files: Mapping[str, str], destination: PurePosixPath | None
) -> dict[str, str] | None:
    """sha256 by path for one COPY step, or None when its effect is not certain."""
    if destination is None or "from" in step.flags or set("".join(step.words)) & _SPECIAL:
        return None
    *sources, written = step.words
    copied: dict[str, str] = {}
    for source in sources:
        name = str(PurePosixPath("/") / source).lstrip("/")
        if name in files:
            if not written.endswith("/") and len(sources) == 1:
                return None  # the destination may be a file name or a folder that exists
            copied[str(destination / PurePosixPath(name).name)] = files[name]
            continue
        prefix = f"{name}/" if name else ""
        for path, digest in files.items():
            if path.startswith(prefix) and path != IGNORE_FILE:
                copied[str(destination / path[len(prefix) :])] = digest
    return copied


def _join(workdir: PurePosixPath | None, written: str) -> PurePosixPath | None:
    """An absolute path, or None when it cannot be known without the base image or a shell."""
    if set(written) & _SPECIAL:
        return None
    if written.startswith("/"):
        return PurePosixPath(written)
    return None if workdir is None else workdir / written


def _outside(expected: dict[str, str], folder: PurePosixPath) -> dict[str, str]:
    return {
        path: digest for path, digest in expected.items() if not PurePosixPath(path).is_relative_to(folder)
    }


def _top(path: str) -> str:
    """The first two steps of a path: read in one piece, so as not to fetch `/usr` for one file in it."""
    return str(PurePosixPath(*PurePosixPath(path).parts[:3]))


def _read(store: ImageStore, container: str, path: str) -> tuple[dict[str, str], set[str]]:
    """sha256 by path of the files at or below `path` in a container, and the links there."""
    found: dict[str, str] = {}
    links: set[str] = set()
    try:
        stream, _ = store.engine.get_archive(container, path)
    except docker.errors.NotFound:
        return found, links
    parent = PurePosixPath(path).parent
    with tempfile.SpooledTemporaryFile(max_size=16 * 1024 * 1024) as whole:
        for chunk in stream:
            whole.write(chunk)
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as tar:
            for member in tar:
                place = str(parent / member.name)
                data = tar.extractfile(member) if member.isreg() else None
                if data is not None:
                    found[place] = hashlib.sha256(data.read()).hexdigest()
                elif member.issym():
                    links.add(place)
    return found, links
