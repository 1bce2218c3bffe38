"""The hardened profile of every sandbox container, as one declaration (reference/sandbox.md 1.1).

Each option with its reason; `verify_created` reads the security-relevant ones back from the engine after
create, so that an engine that ignores one is noticed before the agent has control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.errors import SandboxMismatchError

PID1_UID: Final = 65533
"""PID 1 runs as this uid, which is never the agent's: without CAP_KILL the agent cannot end it."""

GRADER_PID1: Final = "0:0"
"""A verifier's PID 1 is root: under no-new-privileges a command run as root in a container that was started
by another uid gets none of the capabilities (measured), and could not drop agent code to another uid."""

GRADER_CAPABILITIES: Final = ("SETUID", "SETGID", "KILL")
"""What a verifier needs to run agent code as another uid and to stop it; nothing else is added."""

FORWARDER_UID: Final = 65532
"""The forwarder of a pod; the relay's folder and socket must be open to it."""

_NO_NAMES: Final = {"Dns": ["127.0.0.1"], "DnsOptions": ["timeout:1", "attempts:1"]}
"""On a network the engine would ask the host's name servers for a container. With a server that does not
exist a question ends in a second; without the options in ten (measured), and agents seem to hang."""

FORWARDER_MOUNT: Final = "/relay"
"""Where the relay's folder is inside the forwarder."""

_FORWARDER_MEMORY_BYTES: Final = 128 << 20
"""7 MiB are used, 46 with 200 connections that are stuffed and never read from (measured); where the system
counts socket buffers as well (cgroup v2), their fixed sizes make up to 75 MiB more."""

_NOFILE: Final = 4096
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


def host_config(
    limits: Limits,
    *,
    runtime: str,
    grader: bool,
    volumes: Mapping[str, str],
    network: str = "none",
    writable: Writable | None = None,
) -> dict[str, Any]:
    """Engine API `HostConfig`; `volumes` maps volume name -> mount point, always read-only.

    `network` is `none`, `container:<id>` to join a pod's namespace, or the id of a network. With `writable`
    the root file system is read-only and nothing else can be written.
    """
    own = network == "none" or network.startswith("container:")
    return {
        **({} if own else _NO_NAMES),
        "NetworkMode": network,
        "CapDrop": ["ALL"],
        "CapAdd": list(GRADER_CAPABILITIES) if grader else [],
        "SecurityOpt": ["no-new-privileges:true"],
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # equal: no swap, so the limit is the limit
        "NanoCpus": limits.cpus_milli * 1_000_000,
        "PidsLimit": limits.pids,
        "Init": True,  # orphans are reaped, else zombies fill the pids limit
        "IpcMode": "private",
        "ShmSize": 64 * 1024 * 1024,
        "Ulimits": [
            {"Name": "nofile", "Soft": _NOFILE, "Hard": _NOFILE},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "OomScoreAdj": 500,  # first victim when the host itself runs out
        "OomKillDisable": False,  # true would turn an OOM into an endless hang
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "AutoRemove": False,  # removal by the engine would destroy the evidence of the end
        "Privileged": False,
        "ReadonlyRootfs": writable is not None,
        "Tmpfs": dict(writable.temporary) if writable else {},
        "Runtime": runtime,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": _LOG_BYTES, "max-file": "1"}},
        "Mounts": [
            *(
                {"Type": "volume", "Source": name, "Target": target, "ReadOnly": True}
                for name, target in sorted(volumes.items())
            ),
            *(dict(mount) for mount in (writable.mounts if writable else ())),
        ],
    }


def create_body(
    image_id: str,
    limits: Limits,
    *,
    runtime: str,
    grader: bool,
    labels: Mapping[str, str],
    volumes: Mapping[str, str],
    workdir: str | None,
    network: str = "none",
    writable: Writable | None = None,
) -> dict[str, Any]:
    """Body of the create call: PID 1 sleeps for the container's lifetime, so that orphans die alone.

    `network` and `writable` as for `host_config`. The engine's switch `NetworkDisabled` would save a few
    hundredths of a second, but leaves /etc/hosts empty: then `localhost` has no address, and tasks with a
    server fail.
    """
    body: dict[str, Any] = {
        "Image": image_id,
        "Entrypoint": ["sleep"],
        "Cmd": [str(limits.lifetime_s)],
        "User": GRADER_PID1 if grader else f"{PID1_UID}:{PID1_UID}",
        "Labels": dict(labels),
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStdout": False,
        "AttachStderr": False,
        "HostConfig": host_config(
            limits, runtime=runtime, grader=grader, volumes=volumes, network=network, writable=writable
        ),
    }
    if workdir is not None:
        body["WorkingDir"] = workdir
    return body


def forwarder_body(
    image_id: str,
    command: Sequence[str],
    *,
    runtime: str,
    labels: Mapping[str, str],
    socket_dir: str,
    network: str = "none",
    note_names: bool = False,
) -> dict[str, Any]:
    """Body of the create call of a pod's forwarder: our own code, and the only one to see the socket.

    `socket_dir` is the relay's folder on the host, mounted read-only (connecting needs no more). There is
    no init: the one process starts no other. With `note_names` it is the pod's name server too.
    """
    limits = Limits(_FORWARDER_MEMORY_BYTES, 1000, 16, 0)
    host = host_config(limits, runtime=runtime, grader=False, volumes={}, network=network)
    host |= _NO_NAMES if note_names else {}
    mount = {"Type": "bind", "Source": socket_dir, "Target": FORWARDER_MOUNT, "ReadOnly": True}
    # The host's own shortage must not end it before the agent: that would be a fault of the platform.
    host |= {"ReadonlyRootfs": True, "Init": False, "OomScoreAdj": 0, "Mounts": [mount]}
    body: dict[str, Any] = {
        "Image": image_id,
        "Entrypoint": [command[0]],
        "Cmd": list(command[1:]),
        "User": f"{FORWARDER_UID}:{FORWARDER_UID}",
        "Hostname": "sandbox",  # of the whole pod
        "WorkingDir": "/",
        "Labels": dict(labels),
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStdout": False,
        "AttachStderr": False,
        "HostConfig": host,
    }
    return body


_READ_BACK: Final = (
    "NetworkMode",
    "CapDrop",
    "SecurityOpt",
    "Memory",
    "MemorySwap",
    "NanoCpus",
    "PidsLimit",
    "Init",
    "IpcMode",
    "Privileged",
    "ReadonlyRootfs",
    "Runtime",
    "AutoRemove",
)


_EMPTY: Final = (
    "Binds",
    "Devices",
    "DeviceRequests",
    "DeviceCgroupRules",
    "GroupAdd",
    "Links",
    "PidMode",
    "UTSMode",
    "UsernsMode",
    "VolumesFrom",
)
"""What would open the sandbox to the host or to other containers; never asked for."""


def _mounts(host: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("Type", "Source", "Target")
    return sorted(
        (*(str(item.get(key) or "") for key in keys), bool(item.get("ReadOnly")))
        for item in host.get("Mounts") or ()
    )


def verify_created(body: Mapping[str, Any], inspected: Mapping[str, Any]) -> None:
    """Compare what the engine created with what was asked; raises `SandboxMismatchError` by field."""
    wanted, got = body["HostConfig"], inspected["HostConfig"]
    pairs = [("Image", body["Image"], inspected["Image"])]
    pairs += [(field, wanted[field], got.get(field)) for field in _READ_BACK]
    pairs += [("CapAdd", sorted(wanted["CapAdd"]), sorted(got.get("CapAdd") or []))]
    pairs += [(field, None, got.get(field) or None) for field in _EMPTY]
    pairs += [("Dns", wanted.get("Dns", []), got.get("Dns") or [])]
    pairs += [("Tmpfs", wanted.get("Tmpfs") or {}, got.get("Tmpfs") or {})]
    pairs += [("Mounts", _mounts(wanted), _mounts(got))]
    pairs += [("User", body["User"], inspected["Config"]["User"])]
    for field, asked, found in pairs:
        if asked != found:
            raise SandboxMismatchError(field, asked, found)


def created_facts(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """The read-back options as plain data for the evidence: what the sandbox really was, by the engine."""
    host = inspected.get("HostConfig") or {}
    options = {field: host.get(field) for field in (*_READ_BACK, "CapAdd", "Tmpfs", "OomScoreAdj", "ShmSize")}
    mounts = [[*one[:3], "ro" if one[3] else "rw"] for one in _mounts(host)]
    limits = {str(one.get("Name")): one.get("Hard") for one in host.get("Ulimits") or ()}
    return {
        "image": inspected.get("Image"),
        "user": (inspected.get("Config") or {}).get("User"),
        "options": options,
        "mounts": mounts,
        "ulimits": limits,
    }
