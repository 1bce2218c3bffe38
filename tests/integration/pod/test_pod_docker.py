"""Pods on a real engine: the relay is there, nothing else is, and nothing stays behind."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.errors import ContainerGoneError, EngineCallError
from workers.sandbox.pod import PodError
from workers.sandbox.preflight import judge, passive_preflight

pytestmark = pytest.mark.docker

KINDS = ("netns", "internal")
POST = """
import sys, urllib.request
data = bytes(range(256)) * 4096
with urllib.request.urlopen(sys.argv[1] + "/v1/x", data) as answer:
    print(answer.status, answer.read() == data)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_relay_is_reached(ground: Any, kind: str) -> None:
    """A megabyte there and back, from a sandbox of the usual profile under another uid."""
    pod = ground.pod(kind=kind)
    sandbox = ground.sandbox(pod.network_mode)
    assert ground.python(sandbox, POST, pod.relay_url, user="1000:1000") == "200 True\n"
    assert pod.is_alive()


@pytest.mark.parametrize("kind", KINDS)
def test_the_preflight_is_evidence(ground: Any, kind: str) -> None:
    """Plain data that can be judged again, with the kind and the worker's own opinion."""
    found = ground.pod(kind=kind).preflight
    assert found["kind"] == kind and found["ok"] is True and found["relay"] == {"status": 200}
    assert not any(probe["reached"] for probe in found["probes"])
    assert found["interfaces"] == (["lo"] if kind == "netns" else ["eth0", "lo"])
    assert (judge(found) == []) is (kind == "netns")


def test_several_sandboxes_share_an_internal_network(ground: Any) -> None:
    """That is what it is for: they reach the relay and each other."""
    pod = ground.pod(kind="internal")
    server, client = ground.sandbox(pod.network_mode), ground.sandbox(pod.network_mode)
    for sandbox in (server, client):
        assert ground.python(sandbox, POST, pod.relay_url) == "200 True\n"
    (network,) = server.inspect()["NetworkSettings"]["Networks"].values()
    script = "import socket, sys; print(socket.socket().connect_ex((sys.argv[1], 9)))"
    assert ground.python(client, script, network["IPAddress"]) == f"{errno.ECONNREFUSED}\n"


def test_the_forwarder_is_of_the_profile(ground: Any) -> None:
    """Read back from the engine: uid, mounts, capabilities, namespaces, limits."""
    found = ground.pod().container.inspect()
    host, config = found["HostConfig"], found["Config"]
    assert config["User"] == "65532:65532" and config["Labels"]["assize.role"] == "forwarder"
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and host["NetworkMode"] == "none"
    assert [(one["Destination"], one["RW"]) for one in found["Mounts"]] == [("/relay", False)]
    assert set(found["NetworkSettings"]["Networks"] or {}) <= {"none"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_silent_relay_is_no_pod(ground: Any, kind: str) -> None:
    """No socket, a socket that nobody may open, or another answer: the reason is told, nothing is left."""
    path = ground.relay.folder / "relay.sock"
    ground.relay.status = 503
    with pytest.raises(PodError, match="the relay answered 503") as raised:
        ground.pod(kind=kind)
    assert raised.value.preflight is not None and raised.value.preflight["ok"] is False
    ground.relay.status = 200
    path.chmod(0o600)
    with pytest.raises(PodError, match="from the relay"):
        ground.pod(kind=kind)
    path.unlink()
    with pytest.raises(PodError, match="from the relay"):
        ground.pod(kind=kind)
    assert ground.left() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_not_there(ground: Any, tmp_path: Path, kind: str) -> None:
    """The engine does not make it up; nothing is left."""
    with pytest.raises(EngineCallError):
        ground.pod(kind=kind, socket_dir=tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists() and ground.left() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_forwarder_that_cannot_start(
    ground: Any, image_without_python: Callable[[], str], kind: str
) -> None:
    """An image without Python is the engine's refusal; nothing is left."""
    with pytest.raises(EngineCallError):
        ground.pod(kind=kind, base_image=image_without_python())
    assert ground.left() == []


def test_a_name_is_used_once(ground: Any) -> None:
    """A second start of the same attempt is refused, and does not harm the first."""
    pod = ground.pod(name="assize-test-pod-once")
    with pytest.raises(EngineCallError) as raised:
        ground.pod(name="assize-test-pod-once")
    assert raised.value.status == 409 and pod.is_alive()


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_pod_is_gone(ground: Any, kind: str) -> None:
    """Container and network; closing again harms nothing."""
    pod = ground.pod(kind=kind)
    pod.close()
    assert ground.left() == [] and not pod.is_alive()
    pod.close()
    assert ground.left() == []


def test_a_forgotten_forwarder_ends_by_itself(ground: Any, station: Any) -> None:
    """Like every sandbox, it outlives nobody for ever."""
    pod = ground.pod(lifetime_s=1)
    assert station.watch.wait_for(pod.container.id, "die", 30) and not pod.is_alive()


def test_the_hosts_view_of_a_sandbox(ground: Any) -> None:
    """Loopback and no route, with and without a pod; nothing to see of one that does not run."""
    pod = ground.pod()
    joined, alone = ground.sandbox(pod.network_mode), ground.sandbox("none")
    for sandbox in (joined, alone, pod.container):
        assert passive_preflight(sandbox.pid()) == {"interfaces": ["lo"], "routes": []}
    alone.kill()
    assert passive_preflight(alone.pid()) is None
    alone.remove()
    with pytest.raises(ContainerGoneError):
        passive_preflight(alone.pid())


def test_the_hosts_view_of_a_network(ground: Any) -> None:
    """An interface is seen, and so are its routes."""
    found = passive_preflight(ground.pod(kind="internal").container.pid())
    assert found is not None and found["interfaces"] == ["eth0", "lo"] and len(found["routes"]) == 2


def test_a_relay_that_comes_back(ground: Any) -> None:
    """The folder is mounted and not the socket: one that was made anew is found."""
    pod = ground.pod()
    sandbox = ground.sandbox(pod.network_mode)
    path = ground.relay.folder / "relay.sock"
    shutil.move(path, ground.relay.folder / "other")
    assert "200 True" not in ground.python(sandbox, POST, pod.relay_url)
    shutil.move(ground.relay.folder / "other", path)
    assert ground.python(sandbox, POST, pod.relay_url) == "200 True\n"
