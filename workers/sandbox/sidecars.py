"""The services of a task beside the agent's container: one internal network, fixed addresses, fixed order.

The network is that of `workers.sandbox.internal`, on the subnet that is leased to the attempt; the host has
no address on it. Every service is under the profile of an agent's container. From every one of them it is
proved, by a container of ours in its network namespace, that nothing outside is reached; and all of them are
up, and healthy where they have a probe, before the agent gets control. What ended before we ended it is
noted before the agent's container is killed: a service that falls because its client went is not counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Any, Final

from orchestrator.observations import Death
from orchestrator.sidecars import MAIN, Condition, PodTerms, Sidecar
from workers.errors import EngineCallError, WorkerError
from workers.sandbox.announcement import PodError, announced
from workers.sandbox.client import translated
from workers.sandbox.container import Container
from workers.sandbox.counters import Counters, read_counters
from workers.sandbox.health import UnhealthyError, await_health, health_of
from workers.sandbox.internal import create_on, remove_network
from workers.sandbox.kernel_log import host_oom
from workers.sandbox.pod import PROBER, Ground, host_targets, own_image
from workers.sandbox.preflight import judge
from workers.sandbox.profile import Place, created_facts, forwarder_body, sidecar_body
from workers.sandbox.proofs import prove
from workers.sandbox.station import Station

_LOG_LINES: Final = 5_000
_FIRST_ADDRESS: Final = 2
"""0 is the network, 1 the gateway that nobody has, 2 the agent's container, then the services in order."""
_OUTSIDE: Final = (Death.FOREIGN_KILL, Death.REMOVED, Death.ENGINE_RESTART)


class SidecarError(WorkerError):
    """A service did not come up: `name` and `why`."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"service {name}: {why}")
        self.name = name
        self.why = why


@dataclass
class Running:
    """One service: its container, and what was seen of it."""

    sidecar: Sidecar
    container: Container
    config: Mapping[str, Any]
    proof: Mapping[str, Any] | None = None
    preflight: Mapping[str, Any] | None = None
    healthy_ms: int | None = None
    ended_early: bool = False
    state: Mapping[str, Any] | None = None
    death: Death | None = None
    host_oom: bool | None = None
    counters: Counters = field(default_factory=lambda: Counters(None, None, None))
    log: bytes = b""


def addresses_of(subnet: IPv4Network, names: Sequence[str]) -> dict[str, str]:
    """The address of every container by its name, the agent's first; the same for the same order."""
    everyone = (MAIN, *names)
    if len(everyone) + _FIRST_ADDRESS + 1 > subnet.num_addresses:
        raise PodError(f"{subnet} has no room for {len(everyone)} containers")
    return {name: str(subnet[_FIRST_ADDRESS + at]) for at, name in enumerate(everyone)}


class Sidecars:
    """The network and the services of one attempt; `open` starts them, `end` kills, `remove` removes."""

    def __init__(
        self, station: Station, terms: PodTerms, *, name: str, labels: Mapping[str, str], runtime: str
    ) -> None:
        self._station = station
        self._terms = terms
        self._name = name
        self._labels = dict(labels)
        self._runtime = runtime
        self._hosts = addresses_of(IPv4Network(terms.subnet), [one.name for one in terms.sidecars])
        self._ended = False
        self.running: list[Running] = []
        self.network = create_on(station.engine, f"{name}-net", self._named("pod"), IPv4Network(terms.subnet))

    def _named(self, role: str) -> dict[str, str]:
        return {**self._labels, "assize.role": role}

    def _place(self, name: str) -> Place:
        return Place(self.network.id, self._hosts[name], name, self._hosts)

    @property
    def ground(self) -> Ground:
        """Where the pod of the agent's container stands."""
        return Ground(self.network, self._place(MAIN))

    def start(self, *, lifetime_s: int, cancelled: Callable[[], bool]) -> None:
        """Start all in order, prove that none has a way out, and wait until they are ready.

        Raises `SidecarError`, `PodError`, `SandboxMismatchError` and engine errors; call `remove` then.
        """
        proofs: list[Future[Mapping[str, Any]]] = []
        try:
            for sidecar in self._terms.sidecars:
                # The conditions of compose files: who is waited for was started before, by the order.
                for other, condition in sidecar.after:
                    if condition is Condition.HEALTHY and not self._await(self._of(other), cancelled):
                        raise SidecarError(sidecar.name, f"it waits for {other}, which has no probe")
                one = self._start_one(sidecar, lifetime_s)
                proofs.append(self._station.pool.submit(self._probe, one))
        finally:
            wait(proofs)  # so that nothing of ours still stands on the network when it is removed
        for one, proof in zip(self.running, proofs, strict=True):
            one.preflight = proof.result()
        for one in self.running:
            self._await(one, cancelled)
        for one in self.running:
            if not one.container.is_running():
                raise SidecarError(one.sidecar.name, "it ended before the agent began")

    def _of(self, name: str) -> Running:
        return next(one for one in self.running if one.sidecar.name == name)

    def _start_one(self, sidecar: Sidecar, lifetime_s: int) -> Running:
        engine, config = self._station.engine, self._station.engine.image_config(sidecar.image)
        body = sidecar_body(
            sidecar.image,
            sidecar,
            config,
            self._place(sidecar.name),
            runtime=self._runtime,
            labels=self._named("sidecar"),
            lifetime_s=lifetime_s,
        )
        # A service may be called like a part of ours, `agent` for instance.
        name = f"{self._name}-service-{sidecar.name}"
        container = Container.create(engine, self._station.watch, name, body)
        one = Running(sidecar, container, config)
        self.running.append(one)
        try:
            container.start()
        except EngineCallError as error:
            if error.status is not None:  # a user that the image does not have, for instance
                raise SidecarError(sidecar.name, f"it cannot be started: {error.detail[-200:]}") from None
            raise
        if pid := container.pid():
            one.proof = prove(container.id, pid, body)
        return one

    def _probe(self, one: Running) -> Mapping[str, Any]:
        """The preflight from within the service's own namespace; its address goes with the service."""
        try:
            return self._look_out_of(one)
        except (EngineCallError, PodError) as error:
            if not one.container.is_running():
                raise SidecarError(one.sidecar.name, "it ended as soon as it had been started") from error
            raise

    def _look_out_of(self, one: Running) -> Mapping[str, Any]:
        """What a container of ours found in that namespace; raises `PodError` for a way out."""
        station, targets = self._station, host_targets(self.network)
        command = [*PROBER, "0", *(f"{host}:{port}" for host, port in targets)]

        def body(image_id: str) -> dict[str, Any]:
            return forwarder_body(
                image_id,
                command,
                runtime=self._runtime,
                labels=self._named("prober"),
                socket_dir=None,
                network=f"container:{one.container.id}",
            )

        name = f"{self._name}-prober-{one.sidecar.name}"
        prober, _ = station.create(name, lambda: own_image(station, self._terms.image), body)
        try:
            prober.start()
            said = announced(station.engine, prober.id)
        finally:
            prober.remove()
        problems = judge(said, subnet=str(self.network.subnet), targets=targets, relay=False)
        found = {**(said if isinstance(said, dict) else {}), "ok": not problems}
        if problems:
            raise PodError(f"service {one.sidecar.name}: {'; '.join(problems)}", found)
        return found

    def _await(self, one: Running, cancelled: Callable[[], bool]) -> bool:
        """Wait until it is healthy, once; False for a service without a probe."""
        if one.healthy_ms is not None:
            return True
        probe = one.sidecar.health or health_of(one.config)
        if probe is None or not probe.argv:
            return False
        try:
            one.healthy_ms = await_health(self._station.engine, one.container, probe, cancelled)
        except UnhealthyError as error:
            raise SidecarError(one.sidecar.name, str(error)) from None
        return True

    def note_ended(self) -> None:
        """Note which services are gone already; called before the agent's container is killed."""
        for one in self.running:
            one.ended_early = one.ended_early or not one.container.is_running()

    def end(self) -> None:
        """Kill every service and note how each came to its end; nothing of the task runs after it."""
        if self._ended:
            return
        self._ended = True
        list(self._station.pool.map(self._end_one, self.running))

    def _end_one(self, one: Running) -> None:
        one.counters = read_counters(one.container.id)
        one.state = one.container.kill()
        death = one.container.death(one.state)
        # One that fell between the last look and our kill may have fallen because its client was killed.
        if one.ended_early or death in _OUTSIDE:
            one.death = death
        if one.death is not None:
            one.host_oom = host_oom(one.container.id)
        with contextlib.suppress(EngineCallError), translated("logs"):
            one.log = self._station.engine.api.logs(one.container.id, tail=_LOG_LINES)

    def facts(self) -> dict[str, Any]:
        """Observations of the first service that somebody else ended, by another's hand before its own."""
        dead = [one for one in self.running if one.death is not None]
        dead.sort(key=lambda one: one.death not in _OUTSIDE)
        if not dead:
            return {}
        return {
            "sidecar": dead[0].sidecar.name,
            "sidecar_death": dead[0].death,
            "sidecar_host_oom": dead[0].host_oom,
        }

    def remove(self) -> None:
        """Remove services and network, running or not; what else stands on the network goes first."""
        for one in self.running:
            one.container.remove()
        remove_network(self._station.engine, self.network.id)

    def report(self) -> dict[str, Any]:
        """Plain data for the sandbox report."""
        return {"subnet": str(self.network.subnet), "services": [_report(one) for one in self.running]}


def _report(one: Running) -> dict[str, Any]:
    return {
        "name": one.sidecar.name,
        "image": one.sidecar.image,
        "created": created_facts(one.container.created),
        "proof": one.proof,
        "preflight": one.preflight,
        "healthyMs": one.healthy_ms,
        "death": None if one.death is None else one.death.value,
        "events": list(one.container.events()),
        "counters": {
            "oomKills": one.counters.oom_kills,
            "maxMemoryBytes": one.counters.max_memory_bytes,
            "pidsLimitHits": one.counters.pids_limit_hits,
        },
        "finalState": {key: (one.state or {}).get(key) for key in ("ExitCode", "OOMKilled", "Status")},
    }
