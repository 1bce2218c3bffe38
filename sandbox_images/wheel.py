"""An image that holds nothing but the programs of one Python wheel, downloaded on the host by pip.

pip checks the file against the sha256 its index gives; the digest is recorded with the image.
"""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from .archive import EPOCH_S
from .errors import ImageUnavailableError
from .index import pip_environment
from .programs import last_words, run_program
from .recipes import Recipe

_TIMEOUT_S = 600
_VERSION = re.compile(r"\d+(\.\d+)*")


def wheel_requirement(recipe: Recipe, tag: str) -> str:
    """The requirement an image tag stands for: `0.8.15` exactly, `0.8` any of it, `latest` any.

    ImageUnavailableError for every other tag (they name images that hold more than the programs).
    """
    if tag == "latest":
        return recipe.wheel
    if not _VERSION.fullmatch(tag):
        raise ImageUnavailableError(f"tag {tag!r} of {recipe.wheel} is not a version: no stand-in for it")
    return f"{recipe.wheel}=={tag}" if tag.count(".") >= 2 else f"{recipe.wheel}=={tag}.*"


def build_wheel_layer(recipe: Recipe, tag: str, out: Path) -> str:
    """Write the layer tar with the programs at `/` to `out`; returns file name and sha256 of the wheel."""
    wheel = _download(wheel_requirement(recipe, tag), out.parent)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with zipfile.ZipFile(wheel) as archive, tarfile.open(out, mode="w") as tar:
        names = {name.rsplit("/", 1)[-1]: name for name in archive.namelist() if ".data/scripts/" in name}
        for program in sorted(recipe.programs):
            if program not in names:
                raise ImageUnavailableError(f"{wheel.name} has no program {program}")
            data = archive.read(names[program])
            entry = tarfile.TarInfo(program)
            entry.size, entry.mode, entry.mtime = len(data), 0o755, EPOCH_S
            tar.addfile(entry, io.BytesIO(data))
    return f"{wheel.name} sha256:{digest}"


def _download(requirement: str, folder: Path) -> Path:
    target = folder / "wheel"
    target.mkdir()
    command = [
        sys.executable,
        "-P",  # not what lies in the current folder
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(target),
        requirement,
    ]
    try:
        done = run_program(command, within_s=_TIMEOUT_S, environment=pip_environment())
    except subprocess.TimeoutExpired as error:
        raise ImageUnavailableError(f"pip did not download {requirement} within {_TIMEOUT_S} s") from error
    found = list(target.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        raise ImageUnavailableError(f"pip could not download {requirement} on the host: {last_words(done)}")
    return found[0]
