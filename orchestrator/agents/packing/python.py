"""A Python agent with all it needs, as files for the Python of the task's image.

Wheels only, for the image and not for this host. Byte code is made beforehand, for a bundle is read-only,
and with unchecked hashes, so that it holds no time.
"""

from __future__ import annotations

import compileall
import json
import py_compile
import re
import shutil
import sys
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

import docker

from orchestrator.agents.packing.client import PackingError, client
from orchestrator.agents.profile import Source
from orchestrator.agents.revision import MOUNT

_OLDEST_GLIBC_MINOR: Final = 5
_NOTHING: Final = re.compile(r"No matching distribution found for ([A-Za-z0-9._\[\]-]+)")
_ASK: Final = (
    "import json, platform, sys; "
    "print(json.dumps([*sys.version_info[:2], platform.machine(), platform.libc_ver()[1]]))"
)


@dataclass(frozen=True)
class ImagePython:
    """What decides which wheels run in an image: its Python, machine and glibc (minor version)."""

    python: tuple[int, int]
    machine: str
    glibc_minor: int

    @property
    def version(self) -> str:
        """`X.Y` of the Python."""
        return ".".join(map(str, self.python))

    def pip_options(self) -> list[str]:
        """The options that make pip choose wheels for the image and not for this host."""
        abis = (f"cp{self.version.replace('.', '')}", "abi3", "none")
        old = ("manylinux2014", "manylinux2010", "manylinux1")
        new = [f"manylinux_2_{minor}" for minor in range(self.glibc_minor, _OLDEST_GLIBC_MINOR - 1, -1)]
        return [
            *("--implementation", "cp", "--python-version", self.version),
            *(option for abi in abis for option in ("--abi", abi)),
            *(option for name in (*new, *old) for option in ("--platform", f"{name}_{self.machine}")),
        ]


def ask_image(api: docker.APIClient, image: str) -> ImagePython:
    """Asked in a container without network; `PackingError` if the image has no Python or no glibc."""
    made = api.create_container(image, ["python3", "-c", _ASK], network_disabled=True)
    try:
        api.start(made)
        ended = api.wait(made)["StatusCode"]
        said = api.logs(made, stderr=False)
    except docker.errors.APIError as error:
        raise PackingError(f"image {image} cannot run python3 ({error.explanation})") from None
    finally:
        api.remove_container(made, force=True)
    try:
        major, minor, machine, glibc = json.loads(said)
        return ImagePython((major, minor), machine, int(glibc.split(".")[1]))
    except (ValueError, IndexError):
        raise PackingError(f"image {image}: its Python (status {ended}) does not say what it is") from None


def fetch(
    name: str,
    version: str,
    image: ImagePython,
    app: Path,
    constraints: Path | None,
    wheels: Path | None = None,
) -> list[Source]:
    """Install `name` and its requirements into `app/site`; what was installed, by name.

    `constraints` is a pip constraints file, `wheels` a folder with wheels that were made here. Raises
    `PackingError`, also where only a source package exists.
    """
    site = app / "site"
    command = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--only-binary=:all:", "--no-compile"]
    command += ["--target", str(site), *image.pip_options()]
    command += ["--constraint", str(constraints)] if constraints else []
    command += ["--find-links", str(wheels)] if wheels else []
    try:
        client([*command, f"{name}=={version}"])
    except PackingError as error:
        raise _explained(error, f"{name} {version}", image) from None
    shutil.rmtree(site / "bin", ignore_errors=True)  # they name the Python of this host
    return _installed(site)


def _explained(error: PackingError, what: str, image: ImagePython) -> PackingError:
    """What pip says at length in one sentence, where it is that something exists as a source package only.

    Such a package would be built by its own code on this host, which is not done.
    """
    found = _NOTHING.search(error.message)
    if found is None:
        return error
    return PackingError(f"{what} needs {found[1]}, which has no wheel for Python {image.version}")


def _installed(site: Path) -> list[Source]:
    found = []
    for metadata in sorted(site.glob("*.dist-info/METADATA")):
        head = HeaderParser().parsestr(metadata.read_text("utf-8", "replace"), headersonly=True)
        found.append(Source(registry="pypi", name=str(head["Name"]), version=str(head["Version"])))
        # Where pip got it from and that it did is of this host, not of the agent.
        for record in ("direct_url.json", "RECORD", "INSTALLER", "REQUESTED"):
            (metadata.parent / record).unlink(missing_ok=True)
    return found


def compile_site(app: Path, image: ImagePython) -> bool:
    """Write byte code beside the sources; False where this host's Python writes another kind of it."""
    if sys.version_info[:2] != image.python or sys.implementation.name != "cpython":
        return False
    compileall.compile_dir(
        app / "site",
        quiet=2,
        workers=0,
        stripdir=app,
        prependdir=f"{MOUNT}/app",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    return True
