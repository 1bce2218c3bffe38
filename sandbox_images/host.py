"""What the host offers to build images from: its distribution, its own package sources, its installer.

Only the distribution's own suites are used (requirement of issue 2: "from the host's own package
sources"); third-party sources that happen to sit beside them never reach an image.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .errors import HostSetupError

Say = Callable[[str], None]

_DISTRIBUTION_KEYRINGS = ("debian-archive", "ubuntu-archive")
_COMPONENTS = ("main", "universe")
_INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True)
class Distribution:
    """Facts of `/etc/os-release`: `id` (debian, ubuntu, ...), `codename`, human `name`."""

    id: str
    like: tuple[str, ...]
    codename: str
    name: str

    @property
    def debian_like(self) -> bool:
        """Whether apt and the Debian archive layout can be expected."""
        return bool({self.id, *self.like} & {"debian", "ubuntu"})


@dataclass(frozen=True, order=True)
class AptSource:
    """One binary package source; suites and components are already narrowed to what images may use."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str

    def line(self) -> str:
        """The source in apt's one-line format."""
        option = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {option}{self.uri} {self.suite} {' '.join(self.components)}"


def read_distribution(path: Path = Path("/etc/os-release")) -> Distribution:
    """Read os-release; a host without one is an unknown, not Debian-like distribution."""
    facts: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            key, found, value = line.partition("=")
            if found and not key.startswith("#"):
                facts[key.strip()] = value.strip().strip("\"'")
    return Distribution(
        id=facts.get("ID", "unknown"),
        like=tuple(facts.get("ID_LIKE", "").split()),
        codename=facts.get("VERSION_CODENAME", ""),
        name=facts.get("PRETTY_NAME", facts.get("ID", "an unknown system")),
    )


def read_apt_sources(codename: str, folder: Path = Path("/etc/apt")) -> list[AptSource]:
    """The host's sources of exactly `<codename>`, `-updates` and `-security`, signed by the distribution.

    A source with another suite name, another keyring (third party) or a scheme that a container
    cannot use (cdrom, file, mirror+file) is left out. Sorted; empty when nothing fits.
    """
    suites = {codename, f"{codename}-updates", f"{codename}-security"}
    found: set[AptSource] = set()
    for kind, uri, suite, components, signed_by in _all_sources(folder):
        ours = not signed_by or any(name in signed_by for name in _DISTRIBUTION_KEYRINGS)
        wanted = tuple(c for c in _COMPONENTS if c in components)
        if kind == "deb" and suite in suites and ours and wanted and uri.startswith(("http://", "https://")):
            found.add(AptSource(uri.rstrip("/"), suite, wanted, signed_by))
    return sorted(found)


def of_release(sources: Sequence[AptSource], codename: str, suite: str) -> list[AptSource]:
    """The same mirrors with the release `suite` in place of the host's own `codename`."""
    return sorted(replace(one, suite=suite + one.suite.removeprefix(codename)) for one in sources)


def _all_sources(folder: Path) -> Iterator[tuple[str, str, str, list[str], str]]:
    lists = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    for path in (p for p in lists if p.is_file()):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield from _one_line_source(line)
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            yield from _deb822_source(block)


def _one_line_source(line: str) -> Iterator[tuple[str, str, str, list[str], str]]:
    match = re.match(r"^\s*(deb)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
    if match:
        options = dict(o.split("=", 1) for o in (match[2] or "").split() if "=" in o)
        yield match[1], match[3], match[4], match[5].split(), options.get("signed-by", "")


def _deb822_source(block: str) -> Iterator[tuple[str, str, str, list[str], str]]:
    fields: dict[str, str] = {}
    last = ""
    for line in block.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and last:
            fields[last] += " " + line.strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            last = key.strip().lower()
            fields[last] = value.strip()
    if fields.get("enabled", "yes").lower() in ("no", "false"):
        return
    for kind in fields.get("types", "").split():
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield kind, uri, suite, fields.get("components", "").split(), fields.get("signed-by", "")


def is_root() -> bool:
    """Whether this process may install packages and start daemons."""
    return os.geteuid() == 0


def debian_like() -> bool:
    """Whether this host has apt and the Debian archive layout."""
    return read_distribution().debian_like


def has_systemd() -> bool:
    """Whether systemd runs this host (then it, not we, owns the daemons)."""
    return Path("/run/systemd/system").is_dir()


def apt_install(packages: Sequence[str], say: Say, *, why: str) -> None:
    """Install distribution packages on the host, saying so in one line; HostSetupError when not possible."""
    names = " ".join(packages)
    if not (is_root() and debian_like()):
        raise HostSetupError(f"{why} needs {names}", hint=f"install {names} and run the same command again")
    say(f"installing {names} from the distribution ({why})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    if _run(install, environment) == 0:
        return
    # A fresh machine has no package lists yet, or stale ones that name versions no longer served.
    if _run(["apt-get", "update", "-q"], environment) != 0 or _run(install, environment) != 0:
        raise HostSetupError(f"apt-get could not install {names}", hint=f"run: apt-get install {names}")


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 1
    return done.returncode
