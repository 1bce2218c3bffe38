"""Compose v2, which not every distribution has beside its engine: ours is taken out of a package and kept.

The program of a newer release runs on an older one (it is linked against the C library alone). It is fetched
by apt, with a state of its own, so that its signature is checked and nothing of the host changes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..debian import host_apt_options
from ..errors import HostSetupError
from ..host import AptSource, Distribution, Say, read_apt_sources, read_distribution
from ..lock import file_lock
from ..programs import last_words, run_program

OLDEST: Final = (2, 20)
"""The first release that waits for a service which has to end (`service_completed_successfully`)."""
PROGRAM: Final = "docker-compose"
DEBIAN: Final = ("trixie", "docker-compose")
UBUNTU: Final = "docker-compose-v2"
_WITHIN: Final = Path("usr/libexec/docker/cli-plugins") / PROGRAM
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_TIMEOUT_S: Final = 300


def compose_command(folder: Path) -> list[str] | None:
    """How Compose v2 is called here: the host's own, else ours below `folder`; None where there is none."""
    for command in (["docker", "compose"], [str(folder / PROGRAM)]):
        if new_enough(_answer([*command, "version", "--short"])):
            return command
    return None


def ensure_compose(say: Say, folder: Path) -> list[str]:
    """As `compose_command`, and ours is fetched where there is none. HostSetupError where that fails."""
    with file_lock(folder / "lock"):
        found = compose_command(folder)
        if found is not None:
            return found
        distribution = read_distribution()
        source, package = origin(distribution, read_apt_sources(distribution.codename))
        say(f"fetching {package} of {source.suite}: no Compose v2 on this machine")
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            _fetch(Path(scratch), source, package).replace(folder / PROGRAM)
    found = compose_command(folder)
    if found is None:
        raise HostSetupError(f"the {PROGRAM} of {source.suite} does not run here", hint=_hint(package))
    return found


def new_enough(version: str) -> bool:
    """Whether an answer to `version --short` names a release that docker-compose.yml can be used with."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def origin(distribution: Distribution, sources: Sequence[AptSource]) -> tuple[AptSource, str]:
    """The source and the name of the package, by the host's own mirror and key; HostSetupError without."""
    own = next((one for one in sources if one.suite == distribution.codename), None)
    if own is None or distribution.id not in ("debian", "ubuntu"):
        raise HostSetupError(f"{distribution.name} has no package of Compose", hint=_hint(UBUNTU))
    suite, package = DEBIAN if distribution.id == "debian" else (distribution.codename, UBUNTU)
    return AptSource(own.uri, suite, own.components, own.signed_by), package


def _hint(package: str) -> str:
    return f"install Compose v2 of your distribution ({package}) or of Docker (docker-compose-plugin)"


def _answer(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _fetch(scratch: Path, source: AptSource, package: str) -> Path:
    """The program, taken out of the package; apt has its lists and files in `scratch`."""
    for name in ("state/lists/partial", "cache/archives/partial", "sources.d"):
        (scratch / name).mkdir(parents=True)
    (scratch / "sources.list").write_text(source.line() + "\n", encoding="utf-8")
    settings = {
        "Dir::State": scratch / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": scratch / "sources.d",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    options += [f"-o{line.replace(' ', '=', 1)}" for line in host_apt_options()]
    _run(["apt-get", "--quiet", *options, "update"], scratch)
    _run(["apt-get", "--quiet", *options, "download", package], scratch)
    found = list(scratch.glob("*.deb"))
    if len(found) != 1:
        raise HostSetupError(f"apt did not download {package}", hint=_hint(package))
    _run(["dpkg-deb", "--extract", str(found[0]), str(scratch / "files")], scratch)
    program = scratch / "files" / _WITHIN
    if not program.is_file():
        raise HostSetupError(f"{package} holds no {_WITHIN}", hint=_hint(package))
    return program


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise HostSetupError(f"{command[0]} is missing", hint=_hint(UBUNTU))
    try:
        done = run_program(command, within_s=_TIMEOUT_S, folder=folder)
    except subprocess.TimeoutExpired as error:
        raise HostSetupError(f"{command[0]} did not end within {_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise HostSetupError(f"{command[0]} failed: {last_words(done)}", hint=_hint(UBUNTU))
