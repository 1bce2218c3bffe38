"""The hardened profile as one declaration, and its read-back field by field (reference/sandbox.md 1.1)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from workers.errors import SandboxMismatchError
from workers.sandbox import seccomp
from workers.sandbox.profile import (
    FORWARDER_UID,
    GRADER_CAPABILITIES,
    PID1_UID,
    Limits,
    create_body,
    forwarder_body,
    verify_created,
)

LIMITS = Limits(memory_bytes=128 << 20, cpus_milli=1500, pids=64, lifetime_s=90)
IMAGE = "sha256:" + "a" * 64


def body(grader: bool = False, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "runtime": "runc",
        "grader": grader,
        "labels": {"assize.attempt": "x/1"},
        "volumes": {"bundle": "/opt/agent"},
        "workdir": "/w",
    }
    return create_body(IMAGE, LIMITS, **{**values, **changes})


def forwarder(network: str = "none") -> dict[str, Any]:
    return forwarder_body(
        IMAGE,
        ["python3", "-I", "x.py"],
        runtime="runc",
        labels={"assize.role": "forwarder"},
        socket_dir="/host/relay",
        network=network,
    )


def inspected(asked: dict[str, Any]) -> dict[str, Any]:
    """What an engine answers that did as it was told, with its own spellings of nothing."""
    host = copy.deepcopy(asked["HostConfig"])
    host |= {
        "Binds": None,
        "Devices": [],
        "VolumesFrom": None,
        "PidMode": "",
        "UTSMode": "",
        "GroupAdd": None,
    }
    host["CapAdd"] = list(reversed(host["CapAdd"])) or None
    config = {"User": asked["User"], "NetworkDisabled": asked.get("NetworkDisabled") or None}
    return {"Image": asked["Image"], "HostConfig": host, "Config": config}


@pytest.mark.parametrize("grader", [False, True])
def test_the_profile(grader: bool) -> None:
    """No network, no capabilities but the verifier's three, no new privileges, hard limits, no swap."""
    host = body(grader)["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"] and host["CapAdd"] == (list(GRADER_CAPABILITIES) if grader else [])
    assert host["SecurityOpt"] == ["no-new-privileges:true", seccomp.option(sized=False)]
    assert host["Privileged"] is False
    assert host["Memory"] == host["MemorySwap"] == 128 << 20
    assert host["NanoCpus"] == 1_500_000_000 and host["PidsLimit"] == 64
    assert host["AutoRemove"] is False and host["OomKillDisable"] is False
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["Mounts"] == [
        {"Type": "volume", "Source": "bundle", "Target": "/opt/agent", "ReadOnly": True}
    ]
    assert "Binds" not in host and "Devices" not in host


@pytest.mark.parametrize("engine_network", [False, True])
def test_a_namespace_by_the_runtime_or_by_the_engine(engine_network: bool) -> None:
    """An engine that does otherwise is noticed."""
    asked = body(engine_network=engine_network)
    assert asked["NetworkDisabled"] is not engine_network and asked["HostConfig"]["NetworkMode"] == "none"
    verify_created(asked, inspected(asked))
    found = inspected(asked)
    found["Config"]["NetworkDisabled"] = engine_network
    with pytest.raises(SandboxMismatchError, match="NetworkDisabled"):
        verify_created(asked, found)


def test_the_first_process() -> None:
    """It ends by itself, and for an agent it is of a user that no agent is."""
    asked = body()
    assert (asked["Entrypoint"], asked["Cmd"]) == (["sleep"], ["90"])
    assert asked["User"] == f"{PID1_UID}:{PID1_UID}"
    assert asked["WorkingDir"] == "/w" and "WorkingDir" not in body(workdir=None)
    assert asked["Healthcheck"] == {"Test": ["NONE"]}


@pytest.mark.parametrize("grader", [False, True])
def test_an_honest_engine_is_accepted(grader: bool) -> None:
    """Order of capabilities and the ways to write nothing do not matter."""
    verify_created(body(grader), inspected(body(grader)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("NetworkMode", "bridge"),
        ("CapDrop", None),
        ("CapDrop", ["NET_RAW"]),
        ("CapAdd", ["SYS_ADMIN"]),
        ("SecurityOpt", None),
        ("SecurityOpt", ["seccomp=unconfined"]),
        ("Memory", 0),
        ("MemorySwap", -1),
        ("NanoCpus", 0),
        ("PidsLimit", None),
        ("PidsLimit", 0),
        ("Init", None),
        ("IpcMode", "host"),
        ("Privileged", True),
        ("ReadonlyRootfs", True),
        ("Dns", ["8.8.8.8"]),
        ("Runtime", "runsc"),
        ("AutoRemove", True),
        ("Binds", ["/:/host"]),
        ("Devices", [{"PathOnHost": "/dev/kmsg"}]),
        ("DeviceRequests", [{"Count": -1}]),
        ("DeviceCgroupRules", ["c 1:3 mr"]),
        ("GroupAdd", ["docker"]),
        ("Links", ["other:x"]),
        ("PidMode", "host"),
        ("UTSMode", "host"),
        ("UsernsMode", "host"),
        ("VolumesFrom", ["other"]),
        ("Mounts", []),
        ("Mounts", [{"Type": "volume", "Source": "bundle", "Target": "/opt/agent", "ReadOnly": False}]),
        ("Mounts", [{"Type": "bind", "Source": "/", "Target": "/opt/agent", "ReadOnly": True}]),
        ("Mounts", [{"Type": "volume", "Source": "other", "Target": "/opt/agent", "ReadOnly": True}]),
    ],
)
def test_each_changed_field_is_refused(field: str, value: object) -> None:
    """An engine that ignores or alters one of them is noticed before the agent has control."""
    found = inspected(body())
    found["HostConfig"][field] = value
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(body(), found)
    assert raised.value.field == field and field in str(raised.value)


@pytest.mark.parametrize("field", ["NetworkMode", "CapDrop", "SecurityOpt", "Memory", "PidsLimit", "Runtime"])
def test_a_missing_field_is_refused(field: str) -> None:
    """Silence is no confirmation."""
    found = inspected(body())
    del found["HostConfig"][field]
    with pytest.raises(SandboxMismatchError):
        verify_created(body(), found)


def test_another_image_or_user_is_refused() -> None:
    """Created by Id, compared after create (reference/sandbox.md 0.9)."""
    found = inspected(body())
    found["Image"] = "sha256:" + "b" * 64
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(body(), found)
    assert raised.value.field == "Image"
    found = inspected(body())
    found["Config"]["User"] = ""
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(body(), found)
    assert raised.value.field == "User"


def test_a_verifier_may_not_lose_what_it_needs() -> None:
    """Without its capabilities every honest try would fail in silence (reference/sandbox.md 3.2)."""
    found = inspected(body(grader=True))
    found["HostConfig"]["CapAdd"] = ["SETUID"]
    with pytest.raises(SandboxMismatchError):
        verify_created(body(grader=True), found)


JOINED = "container:" + "c" * 64
NETWORK = "d" * 64


@pytest.mark.parametrize("network", [JOINED, NETWORK])
def test_a_pod_is_joined(network: str) -> None:
    """Everything else stays as it is."""
    asked = body(network=network)
    assert asked["HostConfig"]["NetworkMode"] == network
    verify_created(asked, inspected(asked))
    alone = body()
    for one in (asked, alone):
        del one["HostConfig"]["NetworkMode"]
        for name in ("Dns", "DnsOptions"):
            one["HostConfig"].pop(name, None)
    assert asked == alone


def test_names_are_not_resolved_by_the_host() -> None:
    """On a network the engine would pass questions on to the host's resolver (CVE-2024-29018)."""
    for asked in (body(network=NETWORK), forwarder(NETWORK)):
        assert asked["HostConfig"]["Dns"] == ["127.0.0.1"]
        found = inspected(asked)
        found["HostConfig"]["Dns"] = None
        with pytest.raises(SandboxMismatchError):
            verify_created(asked, found)
    assert not {"Dns", "DnsOptions"} & (body(network=JOINED)["HostConfig"].keys() | body()["HostConfig"])


@pytest.mark.parametrize("network", ["bridge", "host", "none", "container:" + "e" * 64])
def test_another_namespace_is_refused(network: str) -> None:
    """An engine that put the sandbox elsewhere is noticed before the agent has control."""
    found = inspected(body(network=JOINED))
    found["HostConfig"]["NetworkMode"] = network
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(body(network=JOINED), found)
    assert raised.value.field == "NetworkMode"


def test_the_forwarder() -> None:
    """Another uid than any PID 1, nothing to write to, no capability, and the one mount, read-only."""
    asked = forwarder()
    host = asked["HostConfig"]
    assert (asked["Entrypoint"], asked["Cmd"]) == (["python3"], ["-I", "x.py"])
    assert asked["User"] == f"{FORWARDER_UID}:{FORWARDER_UID}" != body()["User"]
    assert host["ReadonlyRootfs"] is True and host["CapDrop"] == ["ALL"] and host["CapAdd"] == []
    assert host["SecurityOpt"] == ["no-new-privileges:true", seccomp.option(sized=False)]
    assert host["NetworkMode"] == "none"
    assert host["Memory"] == host["MemorySwap"] == 128 << 20 and host["PidsLimit"] == 16
    assert host["Mounts"] == [{"Type": "bind", "Source": "/host/relay", "Target": "/relay", "ReadOnly": True}]
    verify_created(asked, inspected(asked))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ReadonlyRootfs", False),
        ("Mounts", [{"Type": "bind", "Source": "/host/relay", "Target": "/relay", "ReadOnly": False}]),
        ("Mounts", [{"Type": "bind", "Source": "/host", "Target": "/relay", "ReadOnly": True}]),
        ("NetworkMode", "bridge"),
    ],
)
def test_a_changed_forwarder_is_refused(field: str, value: object) -> None:
    """It is created and read back like every other container."""
    found = inspected(forwarder())
    found["HostConfig"][field] = value
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(forwarder(), found)
    assert raised.value.field == field
