"""Judges what a sandbox's network namespace has and reaches, before an agent is in it.

With a relay the facts come from the forwarder (`workers.sandbox.forwarder.probes`), which has probed from
inside; without one, from the host's own view of the sandbox's namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, Final

from workers.sandbox.forwarder.facts import namespace_facts
from workers.sandbox.forwarder.probes import OUTER_NAME_SERVER, TARGETS, Probe

VERSION: Final = 1
_NAME_SERVERS: Final = 2


def judge(
    result: object,
    *,
    subnet: str | None = None,
    targets: Sequence[tuple[str, int]] = (),
    relay: bool = True,
) -> list[str]:
    """What is wrong with a preflight's result, in words; empty when nothing is.

    `subnet` is that of an internal network, None for a namespace of its own; `targets` were probed beside
    the usual ones; without `relay` there must be none to ask. What the result does not say counts as wrong:
    a probe that is missing proves nothing.
    """
    if not isinstance(result, Mapping) or result.get("version") != VERSION:
        return ["not a preflight result of a known version"]
    return [
        *_about(result, "interfaces", _judge_interfaces(subnet)),
        *_about(result, "routes", _judge_routes(subnet)),
        *_about(result, "probes", lambda found: _judge_probes(found, targets)),
        *_judge_relay(result.get("relay"), relay),
    ]


def _about(result: Mapping[str, Any], name: str, judged: Callable[[list[Any]], list[str]]) -> list[str]:
    found = result.get(name)
    return judged(found) if isinstance(found, list) else [f"the preflight says nothing about {name}"]


def _judge_interfaces(subnet: str | None) -> Callable[[list[Any]], list[str]]:
    wanted = ["lo"] if subnet is None else ["eth0", "lo"]
    return lambda found: [] if found == wanted else [f"interfaces {found}, wanted {wanted}"]


def _judge_routes(subnet: str | None) -> Callable[[list[Any]], list[str]]:
    allowed: list[str] = []
    if subnet is not None:
        allowed = [f"eth0 {subnet}", f"eth0 0.0.0.0/0 via {IPv4Network(subnet)[1]}"]
    return lambda found: [f"route {route}" for route in found if route not in allowed]


def _judge_probes(found: list[Any], targets: Sequence[tuple[str, int]]) -> list[str]:
    problems, seen = [], []
    for probe in found:
        if not isinstance(probe, Mapping) or not isinstance(probe.get("reached"), bool):
            problems.append(f"not a probe: {probe!r}")
            continue
        seen.append((probe.get("kind"), probe.get("target")))
        if probe["reached"] or not isinstance(probe.get("error"), str):
            problems.append(f"{probe.get('kind')} {probe.get('target')} was reached")
    wanted = [Probe("tcp", host, port) for host, port in (*TARGETS, *targets)]
    wanted.append(Probe("dns", OUTER_NAME_SERVER, 53))
    missing = (probe for probe in wanted if (probe.kind, probe.target) not in seen)
    problems += [f"{probe.kind} {probe.target} was not probed" for probe in missing]
    if sum(kind == "dns" for kind, _ in seen) < _NAME_SERVERS:
        problems.append("the name server was not probed")
    return problems


def _judge_relay(found: object, wanted: bool) -> list[str]:
    if not wanted:
        return [] if found is None else ["the relay was asked where there must be none"]
    status = found.get("status") if isinstance(found, Mapping) else None
    if status == 200 and not isinstance(status, bool):
        return []
    said = found.get("error") if isinstance(found, Mapping) else None
    return [f"the relay answered {status}" if status is not None else f"no answer from the relay: {said}"]


def passive_preflight(pid: int) -> dict[str, list[str]] | None:
    """`interfaces` and `routes` of the namespace of PID 1 of a sandbox (0: it does not run), by `/proc`.

    None where this cannot be read: an engine in another pid namespace, or a container that is not running.
    """
    if not pid:
        return None
    try:
        return namespace_facts(f"/proc/{pid}/net")
    except (OSError, ValueError, IndexError):
        return None
