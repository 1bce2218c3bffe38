"""Build a root file system from the host's own package sources with mmdebstrap."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from .archive import EPOCH_S
from .errors import HostSetupError, ImageUnavailableError
from .host import (
    AptSource,
    Distribution,
    Say,
    apt_install,
    of_release,
    read_apt_sources,
    read_distribution,
)
from .programs import run_program
from .recipes import Recipe

_TIMEOUT_S = 1800
_TRIM = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")
_APT_CONF = "/etc/apt/apt.conf.d/99mmdebstrap"
_USER_ID = 1000


def host_origin(suite: str = "") -> tuple[Distribution, list[AptSource]]:
    """The distribution and sources images are built from; HostSetupError when this host has none.

    With `suite` the sources are those of that release of Debian, which only a Debian host has.
    """
    distribution = read_distribution()
    sources = read_apt_sources(distribution.codename) if distribution.codename else []
    if not (distribution.debian_like and sources):
        raise HostSetupError(
            f"{distribution.name} has no Debian or Ubuntu package sources to build an image from",
            hint="load the image into the engine under its own name, or allow the engine to pull it",
        )
    if not suite:
        return distribution, sources
    if distribution.id != "debian":
        raise HostSetupError(
            f"{distribution.name} has no package sources of Debian {suite}",
            hint="load the image into the engine under its own name, or allow the engine to pull it",
        )
    named = replace(distribution, codename=suite, name=f"Debian GNU/Linux ({suite})")
    return named, of_release(sources, distribution.codename, suite)


def build_rootfs(recipe: Recipe, out: Path, say: Say) -> str:
    """Write the root file system of `recipe` as a tar to `out`; returns what is in it, in words.

    Dates are clamped to one fixed day, so that the same package versions give the same bytes.
    """
    distribution, sources = host_origin(recipe.suite)
    if shutil.which("mmdebstrap") is None:
        apt_install(["mmdebstrap"], say, why="images are built from the distribution's own packages")
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        listing = Path(scratch) / "assize.list"
        listing.write_text("".join(f"{source.line()}\n" for source in sources), encoding="utf-8")
        command = mmdebstrap_command(recipe, distribution.codename, listing, out, host_apt_options())
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH_S), **_proxy()}
        try:
            done = run_program(command, within_s=_TIMEOUT_S, environment=environment)
        except subprocess.TimeoutExpired as error:
            raise ImageUnavailableError(f"mmdebstrap did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        told = [line for line in lines if line.startswith("E: ")] or lines
        raise ImageUnavailableError(f"mmdebstrap failed (code {done.returncode}): {' | '.join(told[:3])}")
    versions = installed_versions(out)
    named = ", ".join(f"{package} {versions[package]}" for package in recipe.report if package in versions)
    return f"{distribution.name}{': ' if named else ''}{named}"


def mmdebstrap_command(
    recipe: Recipe, codename: str, listing: Path, out: Path, apt_options: list[str]
) -> list[str]:
    """The command line; a pure function so that tests can read it."""
    command = ["mmdebstrap", "--variant=minbase", "--format=tar"]
    if recipe.packages:
        command.append(f"--include={','.join(recipe.packages)}")
    command += [f"--aptopt={option}" for option in ['APT::Install-Recommends "false"', *apt_options]]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _TRIM]
    command.append("--dpkgopt=path-include=/usr/share/doc/*/copyright")
    command += [f"--customize-hook={hook}" for hook in _hooks(recipe, apt_options)]
    return [*command, codename, str(out), str(listing)]


def _hooks(recipe: Recipe, apt_options: list[str]) -> list[str]:
    hooks = []
    if recipe.user:
        hooks.append(f'chroot "$1" groupadd --gid {_USER_ID} {recipe.user}')
        hooks.append(
            f'chroot "$1" useradd --uid {_USER_ID} --gid {_USER_ID} '
            f"--create-home --shell /bin/bash {recipe.user}"
        )
    if recipe.python_names:
        # The public python images answer to `python` and `pip` and let pip install; Debian's do neither.
        hooks.append(
            'ln -s /usr/bin/python3 "$1/usr/local/bin/python" && ln -s /usr/bin/pip3 "$1/usr/local/bin/pip"'
            ' && rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED'
        )
    # Leave apt as a stock image has it: `apt-get install` in a task's Dockerfile takes recommended packages.
    kept = "".join(f"{option};\\n" for option in apt_options)
    hooks.append(f"printf '{kept}' > \"$1{_APT_CONF}\"" if kept else f'rm -f "$1{_APT_CONF}"')
    return hooks


def host_apt_options() -> list[str]:
    """The host's settings without which its mirror cannot be used (a frozen mirror has old dates)."""
    kept = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")
    lines = _apt_config()
    return [line.rstrip(";") for line in lines if line.startswith(tuple(f"{name} " for name in kept))]


def _proxy() -> dict[str, str]:
    """The host's apt proxy as an environment variable: used for the build, not written into the image."""
    for line in _apt_config():
        if line.startswith("Acquire::http::Proxy "):
            return {"http_proxy": line.split('"')[1]}
    return {}


def _apt_config() -> list[str]:
    try:
        done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def installed_versions(layer: Path) -> dict[str, str]:
    """Package versions by name, read from the dpkg database inside a root file system tar."""
    with tarfile.open(layer, mode="r:") as tar:
        member = tar.extractfile("./var/lib/dpkg/status")
        text = member.read().decode() if member else ""
    versions: dict[str, str] = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != " ")
        if "Package" in fields and "Version" in fields:
            versions[fields["Package"]] = fields["Version"]
    return versions
