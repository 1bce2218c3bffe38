"""The servers that tests and benches start for themselves, installed as programs and not as services.

Debian starts a server when its package is installed, and at every boot after that. Here only the programs
are wanted: `make test` starts its own servers in temporary folders. A screening needs neither.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .host import Say, apt_install

POLICY: Final = Path("/usr/sbin/policy-rc.d")
_REFUSE: Final = (
    "#!/bin/sh\n# Written by the set-up of Assize's tests while it installs packages.\nexit 101\n"
)


@dataclass(frozen=True)
class Service:
    """A server of the distribution: its package, its systemd unit, and whether its program is there."""

    package: str
    unit: str
    present: Callable[[], bool]


def _has_postgres() -> bool:
    """Debian keeps the server's programs by version and off the path; other systems have them on it."""
    return any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb") is not None


SERVICES: Final = (
    Service("postgresql", "postgresql.service", _has_postgres),
    Service("redis-server", "redis-server.service", lambda: shutil.which("redis-server") is not None),
)


@contextmanager
def nothing_starts(policy: Path = POLICY) -> Iterator[None]:
    """Keep the package manager from starting services, by the file that Debian has for it.

    A policy that is there already is the host's own: it is left as it is, whatever it decides.
    """
    ours = _place(policy)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


def _place(policy: Path) -> bool:
    """Write the policy; False where one is, or where this user may not write it (nor install anything)."""
    try:
        with open(policy, "x", encoding="ascii") as handle:
            handle.write(_REFUSE)
    except (FileExistsError, PermissionError):
        return False
    policy.chmod(0o755)
    return True


def ensure_services(
    say: Say, services: Sequence[Service] = SERVICES, install: Callable[..., None] = apt_install
) -> None:
    """Install what is missing of `services`; HostSetupError when that is not possible here."""
    missing = [service for service in services if not service.present()]
    if not missing:
        return
    with nothing_starts():
        install(
            [service.package for service in missing], say, why="own servers of the tests; none is started"
        )
    _not_at_boot([service.unit for service in missing])


def _not_at_boot(units: Sequence[str]) -> None:
    """A server that only tests use is not started with the machine either."""
    helper = shutil.which("deb-systemd-helper")
    if helper is not None:
        subprocess.run([helper, "disable", *units], capture_output=True, check=False)
