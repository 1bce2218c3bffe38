"""Reach the Docker engine; bring one up where none runs. An engine that answers is never touched."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import docker
import docker.errors
import docker.utils
import requests.exceptions

from . import daemon
from .errors import EngineStartError, EngineUnreachableError
from .host import Say, apt_install, debian_like, has_systemd, is_root

ANSWER_WITHIN_S = 60
_LOCAL_SOCKET = "unix:///var/run/docker.sock"
_INSTALL = "install a Docker engine (Debian, Ubuntu: apt-get install docker.io) and start it"


def connect(timeout_s: int = 60, *, pool_size: int = 16) -> docker.APIClient:
    """A low-level API client of the engine named by the environment (DOCKER_HOST) or the local socket.

    `timeout_s` bounds each wait for bytes, not a whole call. Raises EngineUnreachableError when nothing
    answers, with the reason and what to do next.
    """
    _knock()
    try:
        return docker.APIClient(
            version="auto",
            timeout=timeout_s,
            num_pools=pool_size,
            max_pool_size=pool_size,
            **docker.utils.kwargs_from_env(),
        )
    except docker.errors.APIError as error:
        raise EngineUnreachableError(
            f"the Docker engine answers, but with an error: {error.explanation or error}",
            hint="look at the log of the engine",
        ) from error
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise EngineUnreachableError(
            f"no Docker engine answers at {_address()} ({type(error).__name__})", hint=_INSTALL
        ) from error


def _knock() -> None:
    """Open and close a local socket first: the SDK hides the reason of a failure and leaks the socket."""
    address = _address()
    if not address.startswith("unix://"):
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(address.removeprefix("unix://"))
    except PermissionError as error:
        raise EngineUnreachableError(
            f"this user may not open the socket of the Docker engine ({address})",
            hint="add the user to the docker group, or run as root",
        ) from error
    except OSError as error:
        raise EngineUnreachableError(
            f"no Docker engine listens at {address}: {error.strerror}", hint=_INSTALL
        ) from error


def answers(timeout_s: int = 10) -> bool:
    """Whether an engine answers now. An error answer counts: something is there, leave it alone."""
    try:
        connect(timeout_s).close()
    except EngineUnreachableError as error:
        return isinstance(error.__cause__, docker.errors.APIError)
    return True


def ensure_engine(say: Say, log_folder: Path) -> None:
    """Return when an engine answers; otherwise install and start the distribution's own, or say what to do.

    Only as root, on a Debian-like system, for the local default socket. Errors: EngineUnreachableError
    (nothing may be done here), EngineStartError (tried and failed, with the last log lines),
    HostSetupError (apt failed).
    """
    try:
        connect(10).close()
        return
    except EngineUnreachableError as error:
        if not _may_start(error):
            raise
    if shutil.which("dockerd") is None:
        apt_install(["docker.io"], say, why="no Docker engine on this machine")
    if has_systemd():
        say("starting the Docker engine (systemctl start docker)")
        daemon.start(
            ["systemctl", "start", "docker"], log_folder, answers, within_s=ANSWER_WITHIN_S, forks=True
        )
        return
    for path, expected in daemon.PID_FILES:
        if daemon.judge_pid_file(path, expected, daemon.read_process) is daemon.PidFile.STALE:
            say(f"removing {path}, left by an engine that no longer runs")
            path.unlink(missing_ok=True)
    owner = daemon.owner(daemon.PID_FILES[0][0], daemon.read_process)
    if owner is not None:
        raise EngineStartError(
            f"a Docker engine runs here (process {owner.pid}) but does not answer at {_address()}",
            hint="look at its log; Assize never restarts a running engine",
        )
    say(f"starting the Docker engine (dockerd, log in {log_folder})")
    daemon.start(["dockerd"], log_folder, answers, within_s=ANSWER_WITHIN_S)


def _may_start(error: EngineUnreachableError) -> bool:
    """Only where nothing at all listens: an engine that is slow or forbidden is still an engine."""
    remote = os.environ.get("DOCKER_HOST", "")
    if remote:
        error.hint = f"DOCKER_HOST is set to {remote}: start that engine or unset the variable"
        return False
    nobody = isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError)
    return nobody and is_root() and debian_like()


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or _LOCAL_SOCKET
