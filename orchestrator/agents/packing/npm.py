"""Packages of the npm registry as plain files: the tarball, checked against the registry's integrity.

`npm pack` of a named version asks for no engine, resolves nothing and runs no script. `npm install` would
choose an older release where this host's node does not fit (measured), and leaves platform packages out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import shutil
import tarfile
from pathlib import Path
from typing import Any, Final

from orchestrator.agents.packing.client import PackingError, client
from orchestrator.agents.profile import NpmPackage, Source
from orchestrator.agents.templates import filled

_ARCH: Final = {"x86_64": "x64", "aarch64": "arm64"}


def arch() -> str:
    """npm's name of this host's processor; `PackingError` for one that agents are not packed for."""
    machine = platform.machine()
    if machine not in _ARCH:
        raise PackingError(f"no agent is packed for a {machine} host")
    return _ARCH[machine]


def name_here(package: NpmPackage) -> str:
    """The package's name for this host's processor."""
    return filled(package.name, {"arch": arch()})


def fetch(package: NpmPackage, version: str, app: Path, scratch: Path) -> Source:
    """Put the wanted part of a package below `app`; `version` is the agent's own.

    Raises `PackingError` if the registry has no such version or the bytes are not what it states.
    """
    name = name_here(package)
    exact = (package.version or version) + filled(package.version_suffix, {"arch": arch()})
    stated = _json(client(["npm", "view", f"{name}@{exact}", "dist.integrity", "--json"]))
    if not isinstance(stated, str) or not stated.startswith("sha512-"):
        raise PackingError(f"the registry states no SHA-512 of {name}@{exact}")
    said = client(
        ["npm", "pack", f"{name}@{exact}", "--json", "--ignore-scripts", "--pack-destination", str(scratch)]
    )
    tarball = scratch / _file_name(_json(said), name)
    with tarball.open("rb") as stream:
        found = "sha512-" + base64.b64encode(hashlib.file_digest(stream, "sha512").digest()).decode()
    if found != stated:
        raise PackingError(f"{name}@{exact} is not what the registry states ({found} is not {stated})")
    _unpack(tarball, package, app, scratch / "unpacked")
    tarball.unlink()
    return Source(registry="npm", name=name, version=exact, integrity=stated)


def _json(said: str) -> Any:
    """What the client printed; None for nothing, or for what is no JSON."""
    try:
        return json.loads(said)
    except ValueError:
        return None


def _file_name(said: Any, name: str) -> str:
    """The tarball's name; newer clients name the packages, older ones list them."""
    entries = list(said.values()) if isinstance(said, dict) else said
    if not isinstance(entries, list) or len(entries) != 1:
        raise PackingError(f"npm packed something else than {name}")
    return Path(str(entries[0]["filename"])).name


def _unpack(tarball: Path, package: NpmPackage, app: Path, scratch: Path) -> None:
    scratch.mkdir()
    try:
        with tarfile.open(tarball, "r:gz") as tar:
            tar.extractall(scratch, filter="data")
    except tarfile.TarError as error:
        raise PackingError(f"{tarball.name} cannot be unpacked: {error}") from None
    tops = list(scratch.iterdir())
    if len(tops) != 1:
        raise PackingError(f"{tarball.name} does not hold one folder")
    found = [tops[0]] if package.root == "." else [one for one in tops[0].glob(package.root) if one.is_dir()]
    if len(found) != 1:
        raise PackingError(f"{tarball.name}: {package.root} fits {len(found)} folders, one is wanted")
    target = app / package.into
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(found[0], target, symlinks=True, dirs_exist_ok=True, copy_function=shutil.move)
    shutil.rmtree(scratch)
