"""environment/docker-compose.yaml of a Harbor task: the services beside `main`, or why they cannot be run.

The file is laid over Harbor's own, which gives `main` its image and a command that waits
(reference/harbor.md section 1). What it says is honoured as it is written or refused by key; nothing is
left out quietly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.packs.compose_service import Service, read_service
from orchestrator.packs.compose_values import ValueProblemError, interpolated
from orchestrator.packs.compose_yaml import YamlError, parse_yaml
from orchestrator.sidecars import MAIN, MAX_SIDECARS, Condition, Sidecar

COMPOSE_FILE: Final = "docker-compose.yaml"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?")
_TAKEN: Final = frozenset({"localhost", "sandbox", "host", "relay", "ip6-localhost", "ip6-loopback"})
_TOP: Final = {
    "volumes": "shared volumes are not mounted",
    "networks": "the pod has one network, and its addresses are leased",
    "secrets": "sandboxes hold no secrets",
    "configs": "copy files in the Dockerfile",
    "include": "write the services out",
}


@dataclass(frozen=True)
class Compose:
    """A read file. `services` are the sidecars in start order, `main` what it says of the agent's container.

    `problems` are sentences, each with its key; empty when the file can be run faithfully. `defaulted`
    names the variables whose default was taken.
    """

    services: tuple[Service, ...] = ()
    main: Service = field(default_factory=lambda: Service(Sidecar(MAIN)))
    problems: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The sidecars' names in start order."""
        return tuple(service.sidecar.name for service in self.services)


def read_compose(text: str) -> Compose:
    """Read a compose file; what is wrong with it is in `problems`, never raised."""
    try:
        raw = parse_yaml(text)
    except YamlError as error:
        return Compose(problems=(error.message,))
    if not isinstance(raw, dict) or not isinstance(raw.get("services"), dict):
        return Compose(problems=("it has no mapping `services`",))
    problems = [
        f"{key}: {_TOP.get(key, 'is not supported')}"
        for key, value in raw.items()
        if key not in ("services", "version", "name") and not key.startswith("x-") and value
    ]
    defaulted: set[str] = set()
    services = {}
    for name, content in raw["services"].items():
        try:
            services[name] = read_service(name, interpolated(content, defaulted), problems)
        except ValueProblemError as error:
            problems.append(f"services.{name}: {error}")
    main = services.pop(MAIN, Service(Sidecar(MAIN)))
    problems += _about_names(list(services))
    problems += _about_waiting({**services, MAIN: main})
    ordered = () if problems else _ordered(services)
    return Compose(ordered, main, tuple(problems), tuple(sorted(defaulted)))


def _about_names(names: list[str]) -> list[str]:
    out = [
        f"services.{name}: the name cannot be a host name of the pod"
        for name in names
        if not _NAME.fullmatch(name) or name in _TAKEN
    ]
    if len(names) > MAX_SIDECARS:
        out.append(f"services: {len(names)} beside main, at most {MAX_SIDECARS} fit into a pod")
    return out


def _about_waiting(services: dict[str, Service]) -> list[str]:
    out = []
    for name, service in services.items():
        for other, condition in service.sidecar.after:
            where = f"services.{name}.depends_on.{other}"
            if other == MAIN:
                out.append(f"{where}: the agent's container is started last")
            elif other not in services:
                out.append(f"{where}: there is no such service")
            elif condition is Condition.HEALTHY and _probeless(services[other]):
                out.append(f"{where}: its healthcheck is switched off")
    for name in services:
        if name in _reached(services, name):
            out.append(f"services.{name}.depends_on: it waits for itself")
    return out


def _probeless(service: Service) -> bool:
    return service.sidecar.health is not None and not service.sidecar.health.argv


def _reached(services: dict[str, Service], start: str) -> set[str]:
    """Every service that `start` waits for, however far away."""
    found: set[str] = set()
    left = [start]
    while left:
        for other, _ in services[left.pop()].sidecar.after:
            if other in services and other not in found:
                found.add(other)
                left.append(other)
    return found


def _ordered(services: dict[str, Service]) -> tuple[Service, ...]:
    """Each after everything that it waits for, otherwise as written."""
    done: dict[str, Service] = {}
    while len(done) < len(services):
        for name, service in services.items():
            if name not in done and all(other in done for other, _ in service.sidecar.after):
                done[name] = service
                break
    return tuple(done.values())


@cache
def _read_file(path: Path, _digest: str) -> Compose:
    try:
        return read_compose(path.read_text("utf-8"))
    except UnicodeDecodeError:
        return Compose(problems=("it is not UTF-8 text",))
    except OSError as error:
        return Compose(problems=(f"it cannot be read ({error.strerror})",))


def compose_of(directory: Path, digest: str) -> Compose:
    """The compose file of the task in `directory`, whose content has the tree digest `digest`."""
    return _read_file(directory / "environment" / COMPOSE_FILE, digest)
