"""The hardened profile as a table: every option of a sandbox container, its value, and why it is so.

reference/sandbox.md 1.1 has what each was measured to do. `workers.sandbox.profile` builds the engine's
`HostConfig` from this table and from nothing else, and reads back what `read_back` marks. docs/hardening.md
shows the same table; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.sandbox import seccomp
from workers.sandbox.disk import LIMIT_BYTES

GRADER_CAPABILITIES: Final = ("SETUID", "SETGID", "KILL")
"""What a verifier needs to run agent code as another uid and to stop it; nothing else is added."""

OWN_KERNEL: Final = ("runsc",)
"""Runtimes with a kernel of their own: the pids limit counts threads of that kernel, not of the agent."""

OWN_KERNEL_THREADS: Final = 1024
"""Some 80 are idle, and at 64 the sandbox dies of a plain loop (measured)."""

_NO_NAMES: Final = ("127.0.0.1",)
_NOFILE: Final = 4096
_SHM_BYTES: Final = 64 << 20
_LOG_BYTES: Final = "1m"


@dataclass(frozen=True)
class Limits:
    """Resource limits of one container."""

    memory_bytes: int
    cpus_milli: int
    pids: int
    lifetime_s: int


@dataclass(frozen=True)
class Writable:
    """What can be written under a read-only root: `mounts` of the engine, `temporary` options by folder."""

    mounts: Sequence[Mapping[str, Any]]
    temporary: Mapping[str, str]


@dataclass(frozen=True)
class Ask:
    """What one container is asked for; `volumes` maps volume name -> mount point, always read-only.

    `network` is `none`, `container:<id>` to join a pod's namespace, or the id of a network. With `writable`
    the root file system is read-only and nothing else can be written. No file grows past `file_bytes`.
    """

    limits: Limits
    runtime: str
    grader: bool
    volumes: Mapping[str, str]
    network: str = "none"
    writable: Writable | None = None
    file_bytes: int = LIMIT_BYTES

    @property
    def bridged(self) -> bool:
        """Whether the engine would write a list of name servers for it."""
        return self.network != "none" and not self.network.startswith("container:")


@dataclass(frozen=True)
class Option:
    """One field of `HostConfig`, left out where its value is None.

    One that is not read back as it is written is compared in its own way, or is no matter of security.
    """

    name: str
    value: Callable[[Ask], Any]
    why: str
    read_back: bool = True


def pids_limit(ask: Ask) -> int:
    """Of the cgroup: with a kernel of its own, room for that kernel's threads on top."""
    return ask.limits.pids + (OWN_KERNEL_THREADS if ask.runtime in OWN_KERNEL else 0)


def _ulimits(ask: Ask) -> list[dict[str, Any]]:
    limits = {"nofile": _NOFILE, "core": 0, "fsize": ask.file_bytes}
    if ask.runtime in OWN_KERNEL:
        limits["nproc"] = ask.limits.pids
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in limits.items()]


def _mounts(ask: Ask) -> list[dict[str, Any]]:
    read_only = [
        {"Type": "volume", "Source": name, "Target": target, "ReadOnly": True}
        for name, target in sorted(ask.volumes.items())
    ]
    return [*read_only, *(dict(mount) for mount in (ask.writable.mounts if ask.writable else ()))]


OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "NetworkMode",
        lambda ask: ask.network,
        "loopback only, or a pod whose preflight proved that nothing but the relay is reached",
    ),
    Option("CapDrop", lambda ask: ["ALL"], "root inside cannot chown, mknod, mount, trace or change its uid"),
    Option(
        "CapAdd",
        lambda ask: list(GRADER_CAPABILITIES) if ask.grader else [],
        "a verifier starts agent code as another uid and stops it; an agent gets nothing",
        read_back=False,  # the engine keeps no order
    ),
    Option(
        "SecurityOpt",
        lambda ask: ["no-new-privileges:true", seccomp.option(sized=ask.writable is not None)],
        "set-id files give nothing; a filter of our own for system calls",
    ),
    Option("Memory", lambda ask: ask.limits.memory_bytes, "the cap of the try; pages of tmpfs count too"),
    Option("MemorySwap", lambda ask: ask.limits.memory_bytes, "equal to memory: no swap, the limit is exact"),
    Option(
        "NanoCpus", lambda ask: ask.limits.cpus_milli * 1_000_000, "a spinning neighbour costs nobody else"
    ),
    Option("PidsLimit", pids_limit, "a fork bomb ends at its own limit"),
    Option("Init", lambda ask: True, "orphans are reaped, else zombies fill the pids limit"),
    Option("IpcMode", lambda ask: "private", "no shared memory with any other container"),
    Option("ShmSize", lambda ask: _SHM_BYTES, "a bound of its own; its pages count against memory"),
    Option(
        "Ulimits",
        _ulimits,
        "open files; no core dumps; no file larger than the disk limit; processes where the pids limit"
        " counts a sandbox kernel's threads",
        read_back=False,  # the engine sorts them
    ),
    Option("OomScoreAdj", lambda ask: 500, "first victim when the host itself runs out of memory"),
    Option(
        "OomKillDisable",
        lambda ask: False,
        "true would turn running out of memory into an endless hang",
        read_back=False,  # null on cgroup v2, where there is no such thing
    ),
    Option(
        "RestartPolicy",
        lambda ask: {"Name": "no", "MaximumRetryCount": 0},
        "what died stays dead until it was looked at",
    ),
    Option("AutoRemove", lambda ask: False, "removal by the engine would destroy the evidence of the end"),
    Option("Privileged", lambda ask: False, "never"),
    Option(
        "ReadonlyRootfs",
        lambda ask: ask.writable is not None,
        "with a strict or loop disk only sized places can be written",
    ),
    Option(
        "Tmpfs",
        lambda ask: dict(ask.writable.temporary) if ask.writable else {},
        "small temporary folders beside a read-only root; nothing of them is collected",
        read_back=False,  # the engine writes none where there are none
    ),
    Option("Runtime", lambda ask: ask.runtime, "the one that was asked for; there is no fallback"),
    Option(
        "LogConfig",
        lambda ask: {"Type": "json-file", "Config": {"max-size": _LOG_BYTES, "max-file": "1"}},
        "PID 1 has nothing to say; whatever else it says cannot fill the disk",
    ),
    Option(
        "Mounts",
        _mounts,
        "the agent's bundle, read-only; sized places where the root is; never a folder of the host",
        read_back=False,  # compared by type, source, target and whether it can be written
    ),
    Option(
        "Dns",
        lambda ask: list(_NO_NAMES) if ask.bridged else None,
        "on a network the engine would ask the host's name servers for a container",
        read_back=False,  # null and nothing are the same
    ),
    Option(
        "DnsOptions",
        lambda ask: ["timeout:1", "attempts:1"] if ask.bridged else None,
        "a name that nobody resolves is refused in one second, not in ten (measured)",
        read_back=False,
    ),
)

NEVER: Final[Mapping[str, str]] = {
    "Binds": "no folder of the host, and never the engine's socket",
    "Devices": "no device",
    "DeviceRequests": "no device",
    "DeviceCgroupRules": "no device",
    "GroupAdd": "no further group",
    "Links": "no other container",
    "PidMode": "processes of its own only",
    "UTSMode": "a host name of its own",
    "UsernsMode": "`host` would switch the engine's remapping off",
    "VolumesFrom": "no other container's volumes",
}
"""What would open the sandbox to the host or to other containers; never asked for, read back as absent."""
