"""Reach the Docker engine; bring one up where none runs. An engine that answers is never touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import docker
import docker.errors
import docker.utils
import requests.exceptions

from . import daemon
from .errors import EngineStartError, EngineUnreachableError
from .host import Say, apt_install, is_root, read_distribution

ANSWER_WITHIN_S = 60


def connect(timeout_s: int = 60, *, pool_size: int = 16) -> docker.APIClient:
    """A low-level API client of the engine named by the environment (DOCKER_HOST) or the local socket.

    `timeout_s` bounds each wait for bytes, not a whole call. Raises EngineUnreachableError when nothing
    answers, with the reason and what to do next.
    """
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
            f"no Docker engine answers at {_address()}: {_reason(error)}", hint=_hint(error)
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
        if isinstance(error.__cause__, docker.errors.APIError) or not _may_start(error):
            raise
    if shutil.which("dockerd") is None:
        apt_install(["docker.io"], say, why="no Docker engine on this machine")
    if Path("/run/systemd/system").is_dir():
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
    remote = os.environ.get("DOCKER_HOST", "")
    if remote:
        error.hint = f"DOCKER_HOST is set to {remote}: start that engine or unset the variable"
        return False
    return is_root() and read_distribution().debian_like


def _address() -> str:
    return os.environ.get("DOCKER_HOST") or "the local socket"


def _reason(error: Exception) -> str:
    for name, sentence in _REASONS:
        if name in str(error):
            return sentence
    return type(error).__name__


_REASONS: tuple[tuple[str, str], ...] = (
    ("PermissionError", "this user may not open the socket"),
    ("FileNotFoundError", "there is no socket"),
    ("ConnectionRefusedError", "the socket has no listener"),
    ("timed out", "no answer in time"),
)


def _hint(error: Exception) -> str:
    if "PermissionError" in str(error):
        return "add this user to the docker group, or run as root"
    return "install a Docker engine (Debian, Ubuntu: apt-get install docker.io) and start it"
