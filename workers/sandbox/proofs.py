"""What the host itself shows of a running sandbox: its limits are set, and its runtime is the one asked for.

The engine may repeat what it was told and the runtime may still not do it: a runtime that ignores cgroups, or
one name registered for another program. Both are looked at before the agent has control, where no agent can
forge anything: in the host's cgroup file system and in `/proc`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from workers.errors import SandboxMismatchError
from workers.sandbox.counters import set_limits
from workers.sandbox.forwarder.facts import namespace_facts
from workers.sandbox.options import OWN_KERNEL

RUNTIME_NAME: Final = "runc"
"""How the names of the runtime's own processes begin, until they become the command."""

_PROC: Final = Path("/proc")
_SANDBOX_WORD: Final = "runsc"
_BEGIN_S: Final = 5.0
_AGAIN_S: Final = 0.002
_FILE_SIZE: Final = "Max file size"
_FILTER: Final = "2"
"""How the kernel tells that a process has a filter (1 is the strict mode of old)."""


def program_of(pid: int, proc: Path = _PROC) -> str | None:
    """The first word of a process's command line, or of its name; None where it cannot be read."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        return words[0].decode("utf-8", "replace")[:200] or None
    except OSError:
        return None


def name_of(pid: int) -> str:
    """The kernel's name of a process, which it may change itself; empty when it is gone."""
    try:
        return (_PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def require_runtime(runtime: str, program: str | None) -> None:
    """A sandbox kernel's process is the host's view of its container; under runc it is the container's own.

    Raises `SandboxMismatchError`. A name that we know nothing of is only recorded.
    """
    if program is None:
        return
    is_sandbox = _SANDBOX_WORD in Path(program).name
    if (runtime in OWN_KERNEL) is not is_sandbox and (runtime in OWN_KERNEL or runtime == "runc"):
        raise SandboxMismatchError("runtime", runtime, program)


def require_limits(container_id: str, body: Mapping[str, Any]) -> dict[str, int | None]:
    """The limits as the kernel has them, by the host's cgroup files; None where there is no such file.

    Raises `SandboxMismatchError` when the kernel has another one than was asked for.
    """
    found = set_limits(container_id)
    for name, field in (("memoryBytes", "Memory"), ("pids", "PidsLimit")):
        asked = body["HostConfig"][field]
        if found[name] is not None and found[name] != asked:
            raise SandboxMismatchError(f"cgroup {field}", asked, found[name])
    return found


def filtered(pid: int) -> bool | None:
    """Whether a filter of system calls is set for a process; None where it cannot be read."""
    try:
        lines = (_PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    modes = [line.split()[1] for line in lines if line.startswith("Seccomp:")]
    return modes == [_FILTER] if modes else None


def require_filter(pid: int, body: Mapping[str, Any]) -> bool | None:
    """Raises `SandboxMismatchError` where PID 1 has no filter; a kernel of its own has none outside."""
    found = None if body["HostConfig"]["Runtime"] in OWN_KERNEL else filtered(pid)
    if found is False:
        raise SandboxMismatchError("seccomp", "filter", "none")
    return found


def file_limit_of(pid: int) -> int | None:
    """The largest file that a process may write, in bytes; None where it cannot be read or has no limit."""
    try:
        lines = (_PROC / str(pid) / "limits").read_text().splitlines()
    except OSError:
        return None
    (hard,) = (line.split()[4] for line in lines if line.startswith(_FILE_SIZE))
    return int(hard) if hard.isdigit() else None


def require_file_limit(pid: int, body: Mapping[str, Any]) -> int | None:
    """The limit as the kernel has it for PID 1, which every command inherits by the engine's word.

    Raises `SandboxMismatchError` for another one than was asked for. A kernel of its own keeps it inside.
    """
    host = body["HostConfig"]
    if host["Runtime"] in OWN_KERNEL or not (_PROC / str(pid)).is_dir():
        return None
    (asked,) = (one["Hard"] for one in host["Ulimits"] if one["Name"] == "fsize")
    found = file_limit_of(pid)
    if found != asked:
        raise SandboxMismatchError("file size", asked, found)
    return found


def require_own_network(pid: int, body: Mapping[str, Any]) -> bool | None:
    """Whether a container without a network has a namespace of its own; None where nobody can see.

    The engine may leave it to the runtime. Raises `SandboxMismatchError` for this process's own namespace,
    and for any route but the loopback's.
    """
    if body["HostConfig"]["NetworkMode"] != "none":
        return None
    try:
        theirs, ours = (os.readlink(_PROC / name / "ns" / "net") for name in (str(pid), "self"))
        routes = namespace_facts(str(_PROC / str(pid) / "net"))["routes"]
    except (OSError, ValueError, IndexError):
        return None
    if theirs == ours or routes:
        raise SandboxMismatchError("network", "none", "the host's" if theirs == ours else routes)
    return True


def await_command(pid: int) -> None:
    """Wait until the runtime's own process has become PID 1: it sets the filter at the very last.

    The engine's answer to a start may come a moment before (seen on a busy machine). Bounded: what is still
    the runtime's then is looked at as it is.
    """
    until = time.monotonic() + _BEGIN_S
    while name_of(pid).startswith(RUNTIME_NAME) and time.monotonic() < until:
        time.sleep(_AGAIN_S)


def prove(container_id: str, pid: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """All of this of a started container whose PID 1 is `pid` on the host (0: not told); for the evidence."""
    if pid:
        await_command(pid)
    program = program_of(pid) if pid else None
    require_runtime(str(body["HostConfig"]["Runtime"]), program)
    found: dict[str, Any] = {"program": program, "limits": require_limits(container_id, body)}
    if pid:
        found["limits"]["fileBytes"] = require_file_limit(pid, body)
        found["filtered"] = require_filter(pid, body)
        found["ownNetwork"] = require_own_network(pid, body)
    return found
