"""The Python of an image as a part of a bundle: an agent then runs in images with another Python, or none.

Started through the system's own loader with a path of libraries, nothing of it is changed, and no variable
of it reaches the programs that the agent starts (reference/agents.md section 4, the loader form).
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker

from orchestrator.agents.packing.client import PackingError
from orchestrator.agents.packing.elf import linked
from orchestrator.agents.revision import MOUNT

START: Final = "bin/python3"
"""Below `app`: what a profile's command names."""
PROGRAM: Final = "lib/interpreter/python"
LEAST_GLIBC: Final = (2, 33)
"""The first whose loader can be told a name for the program (`--argv0`)."""
_INSIDE: Final = Path(__file__).with_name("inside.py")
_TOP: Final = "assize-python"
_PLACE: Final = f"{MOUNT.lstrip('/')}/app"
_COMPILE: Final = (
    "import compileall, py_compile; "
    "compileall.compile_dir('/{place}', quiet=2, workers=0, "
    "invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
)
_SCRIPT: Final = """#!/bin/sh
here={mount}/app/lib/interpreter
exec {loader} --argv0 "$0" --library-path "$here" "$here/python" "$@"
"""


@dataclass(frozen=True)
class Interpreter:
    """The Python of `image` (an Id) in the engine behind `api`."""

    api: Any
    image: str

    def put_into(self, app: Path) -> None:
        """Copy it below `app`; `PackingError` if the image's Python cannot be taken along."""
        api, image = self.api, self.image
        command = ["python3", "-I", "-c", _INSIDE.read_text("utf-8")]
        made = api.create_container(image, command, network_disabled=True, user="0:0")
        try:
            api.start(made)
            ended = api.wait(made)["StatusCode"]
            if ended != 0:
                said = api.logs(made, stdout=False).decode("utf-8", "replace").strip().splitlines()
                raise PackingError(f"the Python of image {image} cannot be copied: {' '.join(said[-1:])}")
            chunks, _ = api.get_archive(made, f"/tmp/{_TOP}")
            with tempfile.TemporaryFile() as spool:
                spool.writelines(chunks)
                spool.seek(0)
                with tarfile.open(fileobj=spool) as tar:
                    tar.extractall(app, members=list(_below(tar, _TOP)), filter="data")
        except (docker.errors.APIError, tarfile.TarError) as error:
            raise PackingError(f"the Python of image {image} cannot be copied: {error}") from None
        finally:
            api.remove_container(made, force=True)
        self._make_start(app)

    def compile(self, app: Path) -> None:
        """Write byte code beside the sources below `app`, by the image's own Python, under their final path.

        With unchecked hashes: a bundle is read-only, and holds no time. What does not compile stays source.
        """
        api = self.api
        made = api.create_container(
            self.image,
            ["python3", "-I", "-c", _COMPILE.format(place=_PLACE)],
            network_disabled=True,
            user="0:0",
            environment={"PYTHONHASHSEED": "0"},
        )
        try:
            with tempfile.TemporaryFile() as spool:
                with tarfile.open(fileobj=spool, mode="w") as tar:
                    tar.add(app, _PLACE)
                spool.seek(0)
                api.put_archive(made, "/", spool)
            api.start(made)
            if api.wait(made)["StatusCode"] != 0:
                raise PackingError(f"the Python of image {self.image} makes no byte code")
            self._take_code(made, app)
        except (docker.errors.APIError, tarfile.TarError) as error:
            raise PackingError(f"image {self.image}: byte code cannot be made: {error}") from None
        finally:
            api.remove_container(made, force=True)

    def _take_code(self, made: Any, app: Path) -> None:
        chunks, _ = self.api.get_archive(made, f"/{_PLACE}")
        with tempfile.TemporaryFile() as spool:
            spool.writelines(chunks)
            spool.seek(0)
            with tarfile.open(fileobj=spool) as tar:
                code = [one for one in _below(tar, "app") if one.isreg() and one.name.endswith(".pyc")]
                tar.extractall(app, members=code, filter="data")

    def _make_start(self, app: Path) -> None:
        found = linked(app / PROGRAM)
        if found is None or found.loader is None:
            raise PackingError(f"the Python of image {self.image} is no program of glibc")
        start = app / START
        start.parent.mkdir(exist_ok=True)
        start.write_text(_SCRIPT.format(mount=MOUNT, loader=found.loader), "utf-8")
        start.chmod(0o755)


def _below(tar: tarfile.TarFile, top: str) -> Iterator[tarfile.TarInfo]:
    """The engine's archive names everything by the folder that was asked for."""
    for member in tar:
        yield member.replace(name=member.name.removeprefix(top).lstrip("/") or ".", deep=False)
