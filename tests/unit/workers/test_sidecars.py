"""The small decisions around services: addresses, bodies, probes of images, what counts as whose end."""

from __future__ import annotations

from ipaddress import IPv4Network
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.observations import Death
from orchestrator.sidecars import MAX_SIDECARS, Health, Sidecar
from workers.errors import EngineCallError, SandboxMismatchError, WorkerError
from workers.sandbox import seccomp
from workers.sandbox.announcement import PodError
from workers.sandbox.health import health_of
from workers.sandbox.profile import Place, forwarder_body, sidecar_body, verify_created
from workers.sandbox.sidecars import Running, SidecarError, Sidecars, addresses_of

SUBNET = IPv4Network("10.214.3.16/28")
IMAGE = "sha256:" + "b" * 64
CONFIG = {"Entrypoint": ["/entry"], "Cmd": ["serve"], "User": "redis"}
PLACE = Place("net-id", "10.214.3.19", "db", {"main": "10.214.3.18", "db": "10.214.3.19"})


def body(**changes: Any) -> dict[str, Any]:
    return sidecar_body(
        IMAGE,
        Sidecar("db", IMAGE, **changes),
        CONFIG,
        PLACE,
        runtime="runc",
        labels={"assize.role": "sidecar"},
        lifetime_s=60,
    )


def test_addresses_are_fixed_and_the_gateway_is_nobodys() -> None:
    """The agent's side first, the services in order; as many as may be declared fit."""
    names = [f"s{at}" for at in range(MAX_SIDECARS)]
    found = addresses_of(SUBNET, names)
    assert list(found.values()) == [str(SUBNET[2 + at]) for at in range(MAX_SIDECARS + 1)]
    assert next(iter(found)) == "main" and str(SUBNET[1]) not in found.values()
    with pytest.raises(PodError, match="no room"):
        addresses_of(SUBNET, [f"s{at}" for at in range(13)])


def test_the_body_of_a_service() -> None:
    """The profile of an agent's container, its own limits, its place, and names without a name server."""
    found = body(environment=(("A", "b"),), memory_bytes=64 << 20, cpus_milli=500, pids=9, hostname="h")
    host = found["HostConfig"]
    assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], [], False)
    assert host["SecurityOpt"] == ["no-new-privileges:true", seccomp.option(sized=False)]
    assert host["Mounts"] == []
    assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (64 << 20, 500_000_000, 9)
    assert (host["NetworkMode"], host["Dns"]) == ("net-id", ["127.0.0.1"])
    assert host["ExtraHosts"] == ["db:10.214.3.19", "main:10.214.3.18"]
    endpoint = found["NetworkingConfig"]["EndpointsConfig"]["net-id"]
    assert endpoint == {"IPAMConfig": {"IPv4Address": "10.214.3.19"}, "Aliases": ["db"]}
    assert (found["Env"], found["Hostname"], found["Healthcheck"]) == (["A=b"], "h", {"Test": ["NONE"]})


@pytest.mark.parametrize(
    ("changes", "entrypoint", "command", "user"),
    [
        ({}, ["/entry"], ["serve"], "redis"),
        ({"command": ("x",)}, ["/entry"], ["x"], "redis"),
        ({"entrypoint": ("/mine",)}, ["/mine"], [], "redis"),
        ({"entrypoint": ("/mine",), "command": ("y",)}, ["/mine"], ["y"], "redis"),
        ({"command": ()}, ["/entry"], [], "redis"),
        ({"user": "7"}, ["/entry"], ["serve"], "7"),
    ],
)
def test_what_comes_from_the_image(
    changes: dict[str, Any], entrypoint: list[str], command: list[str], user: str
) -> None:
    """As compose means it: an entrypoint of its own leaves the image's command out."""
    found = body(**changes)
    assert (found["Entrypoint"], found["Cmd"], found["User"]) == (entrypoint, command, user)


def test_other_names_than_asked_are_noticed() -> None:
    """Names are part of the read-back: a further one would lead somewhere else."""
    asked = body()
    host = {**asked["HostConfig"], "ExtraHosts": [*asked["HostConfig"]["ExtraHosts"], "evil:1.2.3.4"]}
    got = {"Image": IMAGE, "HostConfig": host, "Config": {"User": "redis"}}
    with pytest.raises(SandboxMismatchError) as raised:
        verify_created(asked, got)
    assert raised.value.field == "ExtraHosts"
    verify_created(asked, {**got, "HostConfig": asked["HostConfig"]})


def test_a_process_that_only_probes_sees_no_socket() -> None:
    """Neither the one that holds the agent's namespace without a relay nor the one beside a service."""
    for network, place in (("net-id", PLACE), ("container:abc", None)):
        found = forwarder_body(
            IMAGE, ["python3"], runtime="runc", labels={}, socket_dir=None, network=network, place=place
        )
        assert found["HostConfig"]["Mounts"] == [] and found["HostConfig"]["ReadonlyRootfs"] is True
        # A container in somebody's namespace has no name of its own; the engine would refuse one.
        assert ("Hostname" in found) is (place is not None)


@pytest.mark.parametrize(
    ("config", "health"),
    [
        ({}, None),
        ({"Healthcheck": None}, None),
        ({"Healthcheck": {"Test": ["NONE"]}}, None),
        ({"Healthcheck": {"Test": []}}, None),
        ({"Healthcheck": {"Test": ["CMD", "a", "b"]}}, Health(("a", "b"))),
        (
            {"Healthcheck": {"Test": ["CMD-SHELL", "a b"], "Interval": 2_000_000_000, "Retries": 9}},
            Health(("/bin/sh", "-c", "a b"), interval_ms=2000, retries=9),
        ),
        (
            {"Healthcheck": {"Test": ["CMD", "a"], "Timeout": 5_000_000, "StartPeriod": 10_000_000}},
            Health(("a",), timeout_ms=5, start_period_ms=10),
        ),
    ],
)
def test_the_probe_of_an_image(config: dict[str, Any], health: Health | None) -> None:
    """Nanoseconds of the engine become milliseconds; what is absent has the defaults of compose."""
    assert health_of(config) == health


def test_a_probe_has_an_end() -> None:
    """The bound is what the words allow: retries with their pauses after the start period."""
    assert Health(("a",), 1000, 500, 2000, 3).bound_ms == 2000 + 3 * 1500
    assert Health(("a",), 1000, 500, 0, 0).bound_ms == 1500


def ended(name: str, death: Death | None, host_oom: bool | None = None) -> Running:
    container = cast(Any, SimpleNamespace(id=name))
    return Running(Sidecar(name), container, {}, death=death, host_oom=host_oom)


@pytest.mark.parametrize(
    ("deaths", "first"),
    [
        ({"a": None, "b": None}, None),
        ({"a": None, "b": Death.SELF}, "b"),
        ({"a": Death.SELF, "b": Death.OOM}, "a"),
        ({"a": Death.SELF, "b": Death.FOREIGN_KILL}, "b"),
        ({"a": Death.OOM, "b": Death.ENGINE_RESTART, "c": Death.REMOVED}, "b"),
    ],
)
def test_another_hand_comes_before_its_own(deaths: dict[str, Death | None], first: str | None) -> None:
    """One service that somebody killed may be why others fell: then that is what is observed."""
    found = Sidecars.__new__(Sidecars)
    found.running = [ended(name, death) for name, death in deaths.items()]
    facts = found.facts()
    assert facts.get("sidecar") == first
    assert facts.get("sidecar_death") == (deaths[first] if first else None)


@pytest.mark.parametrize(
    "error", [PodError("interfaces ['lo'], wanted ['eth0', 'lo']"), EngineCallError("start", "x", "gone")]
)
@pytest.mark.parametrize("running", [True, False])
def test_an_address_goes_with_its_service(
    error: WorkerError, running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that ended while we looked out of it is told as such; from one that runs, it is a way out."""

    def look(_self: Sidecars, _one: Running) -> Any:
        raise error

    monkeypatch.setattr(Sidecars, "_look_out_of", look)
    container = cast(Any, SimpleNamespace(is_running=lambda: running))
    with pytest.raises(type(error) if running else SidecarError):
        Sidecars.__new__(Sidecars)._probe(Running(Sidecar("store"), container, {}))
