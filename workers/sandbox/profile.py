"""From the table of the hardened profile to the bodies of create calls, and the read-back.

`workers.sandbox.options` declares every option with its reason. `verify_created` compares what the engine
says it created, so that an engine that ignores one is noticed before the agent has control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.sidecars import Sidecar
from workers.errors import SandboxMismatchError
from workers.sandbox.disk import LIMIT_BYTES
from workers.sandbox.options import (
    GRADER_CAPABILITIES,
    NEVER,
    OPTIONS,
    Ask,
    Limits,
    Writable,
)
from workers.sandbox.seccomp import shown

__all__ = [
    "FORWARDER_MOUNT",
    "FORWARDER_UID",
    "GRADER_CAPABILITIES",
    "GRADER_PID1",
    "LOOPBACK_NAMES",
    "PID1_UID",
    "Limits",
    "Place",
    "Writable",
    "create_body",
    "created_facts",
    "forwarder_body",
    "sidecar_body",
    "verify_created",
]


PID1_UID: Final = 65533
"""PID 1 runs as this uid, which is never the agent's: without CAP_KILL the agent cannot end it."""

GRADER_PID1: Final = "0:0"
"""A verifier's PID 1 is root: under no-new-privileges a command run as root in a container that was started
by another uid gets none of the capabilities (measured), and could not drop agent code to another uid."""

FORWARDER_UID: Final = 65532
"""The forwarder of a pod; the relay's folder and socket must be open to it."""

_NO_NAMES: Final = {"Dns": ["127.0.0.1"], "DnsOptions": ["timeout:1", "attempts:1"]}
"""On a network the engine would ask the host's name servers for a container. With a server that does not
exist a question ends in a second; without the options in ten (measured), and agents seem to hang."""

FORWARDER_MOUNT: Final = "/relay"
"""Where the relay's folder is inside the forwarder."""

LOOPBACK_NAMES: Final = b"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
"""`/etc/hosts` for a container that the engine writes none for."""

_FORWARDER_MEMORY_BYTES: Final = 128 << 20
"""7 MiB are used, 46 with 200 connections that are stuffed and never read from (measured); where the system
counts socket buffers as well (cgroup v2), their fixed sizes make up to 75 MiB more."""


def host_config(ask: Ask) -> dict[str, Any]:
    """Engine API `HostConfig`: every option of the table."""
    found = {option.name: option.value(ask) for option in OPTIONS}
    return {name: value for name, value in found.items() if value is not None}


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
    file_bytes: int = LIMIT_BYTES,
    engine_network: bool = True,
) -> dict[str, Any]:
    """Body of the create call: PID 1 sleeps for the container's lifetime, so that orphans die alone.

    `network`, `writable` and `file_bytes` as for `Ask`. Without `engine_network` the engine's network code is
    left out: the runtime makes the empty namespace and its loopback, in 0.11 s less of 0.26 s (measured), and
    `workers.sandbox.proofs` looks whether it did. The engine leaves /etc/hosts empty then, whatever the image
    has there: who runs code of a task inside puts `LOOPBACK_NAMES`, or `localhost` has no address. An agent's
    container gets all its files with its image, and keeps the engine's.
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
        "NetworkDisabled": not engine_network,
        "HostConfig": host_config(Ask(limits, runtime, grader, volumes, network, writable, file_bytes)),
    }
    if workdir is not None:
        body["WorkingDir"] = workdir
    return body


@dataclass(frozen=True)
class Place:
    """Where a container stands on a pod's network: its id, the address, the name, the others' addresses."""

    network: str
    address: str
    name: str
    hosts: Mapping[str, str]

    def put(self, body: dict[str, Any]) -> None:
        """Write it into a create call: names are in /etc/hosts, so that no name server is needed for them."""
        host = body["HostConfig"]
        host["ExtraHosts"] = sorted(f"{name}:{address}" for name, address in self.hosts.items())
        endpoint = {"IPAMConfig": {"IPv4Address": self.address}, "Aliases": [self.name]}
        body["NetworkingConfig"] = {"EndpointsConfig": {self.network: endpoint}}


def forwarder_body(
    image_id: str,
    command: Sequence[str],
    *,
    runtime: str,
    labels: Mapping[str, str],
    socket_dir: str | None,
    network: str = "none",
    note_names: bool = False,
    place: Place | None = None,
) -> dict[str, Any]:
    """Body of the create call of a pod's forwarder: our own code, and the only one to see the socket.

    `socket_dir` is the relay's folder on the host, mounted read-only (connecting needs no more); None for a
    process that only probes. There is no init: the one process starts no other. With `note_names` it is the
    pod's name server too. `place` is where it stands on the network of a pod with several containers.
    """
    limits = Limits(_FORWARDER_MEMORY_BYTES, 1000, 16, 0)
    host = host_config(Ask(limits, runtime, grader=False, volumes={}, network=network))
    host |= _NO_NAMES if note_names else {}
    mounts = []
    if socket_dir is not None:
        mounts = [{"Type": "bind", "Source": socket_dir, "Target": FORWARDER_MOUNT, "ReadOnly": True}]
    # The host's own shortage must not end it before the agent: that would be a fault of the platform.
    host |= {"ReadonlyRootfs": True, "Init": False, "OomScoreAdj": 0, "Mounts": mounts}
    body: dict[str, Any] = {
        "Image": image_id,
        "Entrypoint": [command[0]],
        "Cmd": list(command[1:]),
        "User": f"{FORWARDER_UID}:{FORWARDER_UID}",
        "WorkingDir": "/",
        "Labels": dict(labels),
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "AttachStdout": False,
        "AttachStderr": False,
        "HostConfig": host,
    }
    if not network.startswith("container:"):
        body["Hostname"] = "sandbox" if place is None else place.name  # of the whole namespace
    if place is not None:
        place.put(body)
    return body


def sidecar_body(
    image_id: str,
    sidecar: Sidecar,
    config: Mapping[str, Any],
    place: Place,
    *,
    runtime: str,
    labels: Mapping[str, str],
    lifetime_s: int,
) -> dict[str, Any]:
    """Body of the create call of a task's own service: the profile of an agent's container, and its program.

    `config` is the image's: what the service does not say itself comes from there. An entrypoint of its own
    leaves the image's command out, as compose files mean it.
    """
    limits = Limits(sidecar.memory_bytes, sidecar.cpus_milli, sidecar.pids, lifetime_s)
    entrypoint, command = sidecar.entrypoint, sidecar.command
    if entrypoint is None:
        entrypoint = tuple(config.get("Entrypoint") or ())
        command = tuple(config.get("Cmd") or ()) if command is None else command
    body: dict[str, Any] = {
        "Image": image_id,
        "Entrypoint": list(entrypoint),
        "Cmd": list(command or ()),
        "User": sidecar.user if sidecar.user is not None else str(config.get("User") or ""),
        "Env": [f"{name}={value}" for name, value in sidecar.environment],
        "Hostname": sidecar.hostname or sidecar.name,
        "Labels": dict(labels),
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},  # the worker asks by itself
        "AttachStdout": False,
        "AttachStderr": False,
        "HostConfig": host_config(Ask(limits, runtime, grader=False, volumes={}, network=place.network)),
    }
    if sidecar.workdir is not None:
        body["WorkingDir"] = sidecar.workdir
    place.put(body)
    return body


_READ_BACK: Final = tuple(option.name for option in OPTIONS if option.read_back)


def _mounts(host: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("Type", "Source", "Target")
    return sorted(
        (*(str(item.get(key) or "") for key in keys), bool(item.get("ReadOnly")))
        for item in host.get("Mounts") or ()
    )


def _ulimits(host: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return sorted((one.get("Name"), one.get("Soft"), one.get("Hard")) for one in host.get("Ulimits") or ())


def verify_created(body: Mapping[str, Any], inspected: Mapping[str, Any]) -> None:
    """Compare what the engine created with what was asked; raises `SandboxMismatchError` by field."""
    wanted, got = body["HostConfig"], inspected["HostConfig"]
    pairs = [("Image", body["Image"], inspected["Image"])]
    pairs += [(field, wanted[field], got.get(field)) for field in _READ_BACK]
    pairs += [("CapAdd", sorted(wanted["CapAdd"]), sorted(got.get("CapAdd") or []))]
    pairs += [(field, None, got.get(field) or None) for field in NEVER]
    pairs += [("Dns", wanted.get("Dns", []), got.get("Dns") or [])]
    pairs += [("ExtraHosts", wanted.get("ExtraHosts", []), sorted(got.get("ExtraHosts") or []))]
    pairs += [("OomKillDisable", False, bool(got.get("OomKillDisable")))]
    pairs += [("Ulimits", _ulimits(wanted), _ulimits(got))]
    pairs += [("Tmpfs", wanted.get("Tmpfs") or {}, got.get("Tmpfs") or {})]
    pairs += [("Mounts", _mounts(wanted), _mounts(got))]
    pairs += [("User", body["User"], inspected["Config"]["User"])]
    disabled = bool(inspected["Config"].get("NetworkDisabled"))
    pairs += [("NetworkDisabled", body.get("NetworkDisabled", False), disabled)]
    for field, asked, found in pairs:
        if asked != found:
            raise SandboxMismatchError(field, asked, found)


def created_facts(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """The read-back options as plain data for the evidence: what the sandbox really was, by the engine."""
    host = inspected.get("HostConfig") or {}
    options = {field: host.get(field) for field in (*_READ_BACK, "CapAdd", "Tmpfs")}
    options["SecurityOpt"] = shown(options["SecurityOpt"] or ())
    mounts = [[*one[:3], "ro" if one[3] else "rw"] for one in _mounts(host)]
    limits = {str(one.get("Name")): one.get("Hard") for one in host.get("Ulimits") or ()}
    config = inspected.get("Config") or {}
    return {
        "image": inspected.get("Image"),
        "user": config.get("User"),
        "networkDisabled": bool(config.get("NetworkDisabled")),
        "options": options,
        "mounts": mounts,
        "ulimits": limits,
    }
