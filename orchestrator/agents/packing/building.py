"""Packages that exist as source only: built by their own code in a container without network.

Nothing is built on the host, and nothing that a profile does not name with its SHA-256. What was built from
what is written into the bundle (`Source`).
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import docker
import requests

from orchestrator.agents.packing.client import PackingError
from orchestrator.agents.packing.interpreter import Interpreter
from orchestrator.agents.profile import Source, SourcePackage
from sandbox_images.errors import ImageError
from sandbox_images.index import PackageIndex, read_pip_settings

BUILDER: Final = (
    "setuptools",
    "setuptools-80.9.0-py3-none-any.whl",
    "062d34222ad13e0cc312a4c02d73f059e86a4acbfbdea8f8f76b28c99f306922",
)
"""Project, file and SHA-256 of what builds: the only back end that is offered."""
_INSIDE: Final = Path(__file__).with_name("inside_build.py")
_PLACE: Final = "tmp/assize-build"
_USER: Final = "65534:65534"
_LIMIT_S: Final = 600
_WHEEL: Final = re.compile(r"[A-Za-z0-9_.+]+(-[A-Za-z0-9_.+]+){4}\.whl")
_WHEEL_BYTES: Final = 256 << 20
_EPOCH_S: Final = 1_735_689_600
"""One date in every archive, so that the same source gives the same wheel."""

Fetch = Callable[[str, str, str], bytes]
"""The bytes of a file of the package index by project, file name (empty: any) and SHA-256."""


def fetch_listed(cache: Path) -> Fetch:
    """From the package index that this host's pip uses; checked, and kept in `cache`."""
    cache.mkdir(parents=True, exist_ok=True)

    def fetch(project: str, filename: str, sha256: str) -> bytes:
        try:
            index = PackageIndex(read_pip_settings(), cache)
            listed = [one for one in index.project(project) or () if one.sha256 == sha256]
            found = index.file(sha256, listed[0].filename) if listed else None
        except ImageError as error:
            raise PackingError(error.message) from None
        if found is None or (filename and listed[0].filename != filename):
            raise PackingError(f"the package index lists no file of {project} with SHA-256 {sha256}")
        return found.read_bytes()

    return fetch


def build(package: SourcePackage, within: Interpreter, fetch: Fetch, out: Path) -> Source:
    """Leave the wheel of one source package in the folder `out`; `PackingError` if it cannot be made."""
    source = fetch(package.name, "", package.sha256)
    builder = fetch(*BUILDER)
    name, wheel = _built(package, within, source, builder)
    (out / name).write_bytes(wheel)
    return Source(
        registry="pypi",
        name=package.name,
        version=package.version,
        integrity=f"sha256-{package.sha256}",
        built=f"sha256-{hashlib.sha256(wheel).hexdigest()}",
    )


def _built(package: SourcePackage, within: Interpreter, source: bytes, builder: bytes) -> tuple[str, bytes]:
    what = f"{package.name} {package.version}"
    api = within.api
    with _container(within) as made:
        try:
            api.put_archive(made, "/", _put({"source.tar.gz": source, "builder.whl": builder}))
            api.start(made)
            ended = api.wait(made, timeout=_LIMIT_S)["StatusCode"]
            if ended != 0:
                said = api.logs(made, stdout=False, tail=20).decode("utf-8", "replace").strip().splitlines()
                raise PackingError(f"{what} cannot be built: {' '.join(said[-1:])[:300]}")
            chunks, _ = api.get_archive(made, f"/{_PLACE}/out")
            return _wheel(what, (normal_name(package.name), package.version), chunks)
        except requests.RequestException:
            raise PackingError(f"{what} was not built within {_LIMIT_S} s") from None
        except docker.errors.APIError as error:
            raise PackingError(f"{what} cannot be built: {error.explanation}") from None


@contextmanager
def _container(within: Interpreter) -> Iterator[Any]:
    """Without network, capabilities and privileges; it ends with the block, whatever happened."""
    api = within.api
    limits = api.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        mem_limit=1 << 30,
        pids_limit=256,
        log_config={"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    )
    made = api.create_container(
        within.image,
        ["python3", "-c", _INSIDE.read_text("utf-8")],
        user=_USER,
        environment={"SOURCE_DATE_EPOCH": str(_EPOCH_S), "HOME": f"/{_PLACE}", "PYTHONHASHSEED": "0"},
        host_config=limits,
    )
    try:
        yield made
    finally:
        api.remove_container(made, force=True)


def _put(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folder = tarfile.TarInfo(_PLACE)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        for name, data in files.items():
            info = tarfile.TarInfo(f"{_PLACE}/{name}")
            info.size, info.mode = len(data), 0o444
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def normal_name(name: str) -> str:
    """A project's name as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _wheel(what: str, wanted: tuple[str, str], chunks: Iterator[bytes]) -> tuple[str, bytes]:
    """The one wheel that lies in the folder. The package's own code put it there; it is not believed.

    It has to be of the project and version `wanted`.
    """
    with tempfile.TemporaryFile() as spool:
        for chunk in chunks:
            spool.write(chunk)
            if spool.tell() > _WHEEL_BYTES:
                raise PackingError(f"{what}: what was built is larger than {_WHEEL_BYTES >> 20} MiB")
        spool.seek(0)
        try:
            with tarfile.open(fileobj=spool) as tar:
                files = [member for member in tar if not member.isdir()]
                stream = tar.extractfile(files[0]) if len(files) == 1 and files[0].isreg() else None
                name = files[0].name.removeprefix("out/") if files else ""
                if stream is None or not _WHEEL.fullmatch(name):
                    raise PackingError(f"{what}: building it gave no wheel")
                if wanted != (normal_name(name.split("-")[0]), name.split("-")[1]):
                    raise PackingError(f"{what}: building it gave the wheel of something else, {name}")
                return name, stream.read()
        except tarfile.TarError as error:
            raise PackingError(f"{what}: what was built cannot be read ({error})") from None
