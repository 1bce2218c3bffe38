"""The locked Python packages as files, downloaded on the host: a container may know neither index nor CA."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, cast

from packaging.markers import Marker, default_environment

from ..errors import ImageUnavailableError
from ..index import pip_environment
from ..lock import file_lock
from ..programs import last_words, run_program
from ..store import ImageStore

_TIMEOUT_S: Final = 1200


def locked_wheels(store: ImageStore, lock: Path, python: str) -> Path:
    """A folder with the wheel of every package that `lock` has for Python `python` (as `3.11.2`), cached.

    pip checks every file against the hashes of the lock. ImageUnavailableError when it cannot have them all.
    """
    key = hashlib.sha256(f"{python}\n".encode() + lock.read_bytes()).hexdigest()[:16]
    folder = store.cache / "wheels" / key
    with file_lock(store.cache / "locks" / f"wheels-{key}"):
        if folder.is_dir():
            return folder
        store.say(f"downloading the locked Python packages for Python {python}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            wanted, made = Path(scratch) / "wanted.txt", Path(scratch) / key
            wanted.write_text(for_python(lock.read_text(encoding="utf-8"), python), encoding="utf-8")
            _download(download_command(wanted, python, made))
            shutil.move(made, folder)
    return folder


def for_python(lock: str, python: str) -> str:
    """The entries of a lock that hold for Python `python` on this system, without their conditions; pure.

    pip would judge the conditions by the Python that it runs on, which is the host's and not the image's.
    """
    release = ".".join(python.split(".")[:2])
    # The system and the kind of processor are the host's: the engine is this machine's.
    own = cast("dict[str, str]", default_environment())
    environment = {**own, "python_version": release, "python_full_version": python}
    kept = []
    for entry in re.split(r"\n(?=[A-Za-z0-9])", lock):
        head, newline, rest = entry.partition("\n")
        requirement, condition, marker = head.removesuffix("\\").partition(" ; ")
        if entry[:1].isalnum() and (not condition or Marker(marker.strip()).evaluate(environment)):
            kept.append(f"{requirement.strip()} \\{newline}{rest}" if rest else requirement)
    return "\n".join(kept) + "\n"


def download_command(lock: Path, python: str, folder: Path) -> list[str]:
    """The command line of pip; the packages of another Python than this one are named to it."""
    own, release = sys.version_info[:2], tuple(map(int, python.split(".")[:2]))
    other = [] if release == own else ["--python-version", python]
    return [
        *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--only-binary", ":all:", "--require-hashes", *other, "--dest", str(folder)),
        *("--requirement", str(lock)),
    ]


def _download(command: list[str]) -> None:
    try:
        done = run_program(command, within_s=_TIMEOUT_S, environment=pip_environment())
    except subprocess.TimeoutExpired as error:
        raise ImageUnavailableError(f"pip did not download the packages within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise ImageUnavailableError(
            f"pip could not download the locked packages on the host: {last_words(done)}"
        )
