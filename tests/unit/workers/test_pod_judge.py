"""What the worker makes of a preflight: only a result that proves every point is good."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from workers.sandbox.forwarder.probes import OUTER_NAME_SERVER, TARGETS, Probe
from workers.sandbox.preflight import judge

SUBNET = "10.213.4.8/29"
GATEWAY = ("10.213.4.9", 22)


def closed(kind: str, host: str, port: int, error: str = "ENETUNREACH") -> dict[str, object]:
    probe = Probe(kind, host, port)
    probe.error = error
    return probe.as_data()


def good() -> dict[str, Any]:
    """What a forwarder in a namespace with loopback only says."""
    probes = [closed("tcp", host, port) for host, port in TARGETS]
    probes += [closed("dns", "127.0.0.1", 53, "ECONNREFUSED"), closed("dns", OUTER_NAME_SERVER, 53)]
    return {
        "version": 1,
        "interfaces": ["lo"],
        "routes": [],
        "probes": probes,
        "relay": {"status": 200},
    }


def internal() -> dict[str, Any]:
    """What one on an internal network says."""
    found = good()
    found["interfaces"] = ["eth0", "lo"]
    found["routes"] = ["eth0 0.0.0.0/0 via 10.213.4.9", "eth0 10.213.4.8/29"]
    found["probes"].append(closed("tcp", *GATEWAY, "ETIMEDOUT"))
    return found


def test_nothing_wrong() -> None:
    """Loopback only, every door closed, the relay answers."""
    assert judge(good()) == []


def test_nothing_wrong_on_an_internal_network() -> None:
    """One interface, its own subnet, and a gateway that nobody is."""
    assert judge(internal(), subnet=SUBNET, targets=[GATEWAY]) == []


def test_a_namespace_without_a_relay() -> None:
    """Services, and the agent's side of one that calls no model: then an answer would be wrong."""
    silent = {**internal(), "relay": None}
    assert judge(silent, subnet=SUBNET, targets=[GATEWAY], relay=False) == []
    assert judge(silent, subnet=SUBNET, targets=[GATEWAY]) == ["no answer from the relay: None"]
    assert judge(internal(), subnet=SUBNET, targets=[GATEWAY], relay=False) == [
        "the relay was asked where there must be none"
    ]


def reached(number: int) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        found["probes"][number] |= {"reached": True, "error": None}

    return change


def without(number: int) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        del found["probes"][number]

    return change


def put(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: found.update(changes)


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "interfaces ['eth0', 'lo']": put(interfaces=["eth0", "lo"]),
    "interfaces []": put(interfaces=[]),
    "nothing about interfaces": put(interfaces=None),
    "route eth0 10.0.0.0/8": put(routes=["eth0 10.0.0.0/8"]),
    "nothing about routes": lambda found: found.pop("routes"),
    "169.254.169.254:80 was reached": reached(0),
    "[2606:4700:4700::1111]:443 was reached": reached(5),
    "dns 127.0.0.1:53 was reached": reached(6),
    "dns 8.8.8.8:53 was reached": reached(7),
    "tcp 1.1.1.1:443 was not probed": without(1),
    "dns 8.8.8.8:53 was not probed": without(7),
    "the name server was not probed": without(6),
    "1.1.1.1:443 was reached": lambda found: found["probes"][1].pop("error"),
    "not a probe: 'closed'": lambda found: found["probes"].append("closed"),
    "not a probe: {'kind'": lambda found: found["probes"][0].update(reached="no"),
    "nothing about probes": put(probes={}),
    "no answer from the relay: ECONNREFUSED": put(relay={"status": None, "error": "ECONNREFUSED"}),
    "the relay answered 500": put(relay={"status": 500}),
    "no answer from the relay: None": put(relay=None),
    "known version": put(version=2),
}


@pytest.mark.parametrize("problem", CHANGES)
def test_each_defect_is_named(problem: str) -> None:
    """One change to a good result is a problem, in words; what is not said is not proven."""
    found = copy.deepcopy(good())
    CHANGES[problem](found)
    assert sum(problem in said for said in judge(found)) == 1


@pytest.mark.parametrize("result", [None, [], "ok", 1, {"ok": True}])
def test_what_is_no_result_is_refused(result: object) -> None:
    """The forwarder's own opinion is not asked for."""
    assert judge(result) == ["not a preflight result of a known version"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(interfaces=["lo"]), "interfaces ['lo']"),
        (put(routes=["eth0 0.0.0.0/0 via 10.213.4.10"]), "via 10.213.4.10"),
        (put(routes=["eth0 fe80::/64"]), "fe80"),
        (without(-1), "10.213.4.9:22 was not probed"),
        (reached(-1), "10.213.4.9:22 was reached"),
    ],
)
def test_an_internal_network_has_its_own_rules(
    change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    """The host's addresses must have been probed there."""
    found = internal()
    change(found)
    problems = judge(found, subnet=SUBNET, targets=[GATEWAY])
    assert len(problems) == 1 and problem in problems[0]


def test_a_namespace_of_its_own_may_not_look_like_a_network() -> None:
    """The kind is the worker's, not the result's."""
    assert len(judge(internal())) == 3
