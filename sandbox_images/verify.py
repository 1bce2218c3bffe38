"""Read files back from a built image and compare them with the context they were built from.

Covers the COPY steps of the final stage that no RUN follows (a later step may change a file rightfully)
and whose sources and destination are written out plainly. What it covers must match byte for byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

import docker.errors

from .context import BuildContext
from .dockerfile import Dockerfile, Instruction
from .errors import ImageContentError
from .store import ImageStore

_PLAIN = frozenset("*?[]$\"'{}\\")


def verify_contents(store: ImageStore, image_id: str, context: BuildContext, parsed: Dockerfile) -> int:
    """Compare; returns the number of files compared. ImageContentError on the first difference."""
    expected = expected_files(context, parsed)
    if not expected:
        return 0
    compared = 0
    container = store.client.create_container(image_id, command=["true"], labels={"assize.purpose": "verify"})
    try:
        for top in sorted({_top(path, expected) for path in expected}):
            found = _hashes(store, str(container["Id"]), top)
            for path in (p for p in expected if p == top or p.startswith(f"{top}/")):
                if found.get(path) != expected[path]:
                    raise ImageContentError(
                        f"{context.root.name}: {path} in the built image is not the file of its build context"
                    )
                compared += 1
    finally:
        with contextlib.suppress(docker.errors.NotFound):
            store.client.remove_container(container["Id"], force=True)
    return compared


def expected_files(context: BuildContext, parsed: Dockerfile) -> dict[str, str]:
    """sha256 by absolute path in the image, for the COPY steps this module covers."""
    stage = parsed.final_stage()
    files = context.files()
    expected: dict[str, str] = {}
    workdir: PurePosixPath | None = None
    for number, step in enumerate(stage):
        if step.keyword == "WORKDIR":
            workdir = _join(workdir, step.text)
        covered = step.keyword == "COPY" and "from" not in step.flags and step.words[:1] != []
        if covered and not any(later.keyword in ("RUN", "ADD") for later in stage[number + 1 :]):
            for path, digest in _copied(step, files, workdir):
                expected[path] = digest
        elif step.keyword == "COPY":
            # What an uncovered COPY writes is not known here: forget what it may have replaced.
            destination = _join(workdir, step.words[-1]) if step.words else None
            expected = {} if destination is None else _outside(expected, destination)
    return expected


def _copied(
    step: Instruction, files: Mapping[str, str], workdir: PurePosixPath | None
) -> Iterator[tuple[str, str]]:
    *sources, written = step.words
    destination = _join(workdir, written)
    if destination is None or set("".join(step.words)) & _PLAIN:
        return
    for source in sources:
        name = str(PurePosixPath("/") / source).lstrip("/")
        name = "" if name == "." else name
        if name in files:
            if written.endswith("/") or len(sources) > 1:
                yield str(destination / PurePosixPath(name).name), files[name]
            # Otherwise the destination may be a file name or an existing folder: not plain.
            continue
        prefix = f"{name}/" if name else ""
        for path, digest in files.items():
            if path.startswith(prefix) and path != ".dockerignore":
                yield str(destination / path[len(prefix) :]), digest


def _join(workdir: PurePosixPath | None, written: str) -> PurePosixPath | None:
    """An absolute path, or None when it cannot be known without the base image or a shell."""
    if set(written) & _PLAIN:
        return None
    if written.startswith("/"):
        return PurePosixPath(written)
    return None if workdir is None else workdir / written


def _outside(expected: dict[str, str], folder: PurePosixPath) -> dict[str, str]:
    return {
        path: digest for path, digest in expected.items() if not PurePosixPath(path).is_relative_to(folder)
    }


def _top(path: str, expected: dict[str, str]) -> str:
    """The first two steps of a path: read in one piece, so as not to fetch `/usr` for one file in it."""
    parts = PurePosixPath(path).parts
    top = str(PurePosixPath(*parts[:3]))
    return top if len(parts) >= 3 else path


def _hashes(store: ImageStore, container: str, path: str) -> dict[str, str]:
    try:
        stream, _ = store.engine.get_archive(container, path)
    except docker.errors.NotFound:
        return {}
    found: dict[str, str] = {}
    parent = PurePosixPath(path).parent
    with tempfile.SpooledTemporaryFile(max_size=16 * 1024 * 1024) as whole:
        for chunk in stream:
            whole.write(chunk)
        whole.seek(0)
        with tarfile.open(fileobj=whole, mode="r:") as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isfile() else None
                if data is not None:
                    found[str(parent / member.name)] = hashlib.sha256(data.read()).hexdigest()
    return found
