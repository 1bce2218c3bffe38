"""Remove what a dead worker left behind: labelled objects of the engine without a live attempt.

It works on labels and on the ledger's answer only, never on names or ages, and touches nothing of another
home. A `kill -9` of everything leaves no object after the next start (distribution.md 4.4).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workers.errors import ContainerGoneError, EngineCallError
from workers.sandbox.client import Engine, translated
from workers.sandbox.internal import remove_network
from workers.sandbox.loop import attempt_of, reap_loops

HOME_LABEL: Final = "assize.home"
ATTEMPT_LABEL: Final = "assize.attempt"
OWNER_LABEL: Final = "assize.owner"


@dataclass
class Reaped:
    """What was removed, by id or name."""

    containers: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.containers or self.volumes or self.images or self.networks or self.loops)


def _dead(found: Mapping[str, Any], is_live: Callable[[str], bool]) -> bool:
    attempt = (found.get("Labels") or {}).get(ATTEMPT_LABEL)
    return attempt is not None and not is_live(str(attempt))


def _remove_container(engine: Engine, container_id: str) -> None:
    try:
        with translated("remove"):
            engine.api.remove_container(container_id, v=True, force=True)
    except ContainerGoneError:
        pass
    except EngineCallError as error:
        if error.status != 409:  # 409: a removal is already under way
            raise


def _remove_network(engine: Engine, network_id: str) -> bool:
    try:
        remove_network(engine, network_id)
    except EngineCallError as error:
        if error.status != 403:  # 403: its last container is still going away; the next time, then
            raise
        return False
    return True


def _remove_volume(engine: Engine, name: str) -> bool:
    try:
        with translated("remove"):
            engine.api.remove_volume(name, force=True)
    except ContainerGoneError:
        pass
    except EngineCallError as error:
        if error.status != 409:  # 409: a container has it mounted; the next time, then
            raise
        return False
    return True


def reap(engine: Engine, home: str, is_live: Callable[[str], bool]) -> Reaped:
    """Remove every object of `home` whose `assize.attempt` label is not live.

    The label is `<slot>/<token>` for an attempt, `owner/<owner id>` for what a whole process shares, and
    `bundle/<digest>` for a bundle's volume, which is live while the home has the bundle.
    """
    reaped = Reaped()
    label = {"label": f"{HOME_LABEL}={home}"}
    with translated("list"):
        containers = engine.api.containers(all=True, filters=label)
    for found in containers:
        if _dead(found, is_live):
            _remove_container(engine, str(found["Id"]))
            reaped.containers.append(str(found["Id"]))
    with translated("list"):
        networks = engine.api.networks(filters=label)
    for found in networks:
        if _dead(found, is_live) and _remove_network(engine, str(found["Id"])):
            reaped.networks.append(str(found["Name"]))
    with translated("list"):
        volumes = engine.api.volumes(filters=label)["Volumes"] or []
    for found in volumes:
        if _dead(found, is_live) and _remove_volume(engine, str(found["Name"])):
            reaped.volumes.append(str(found["Name"]))
    with translated("list"):
        images = engine.api.images(filters=label)
    for found in images:
        if _dead(found, is_live):
            with contextlib.suppress(ContainerGoneError, EngineCallError), translated("remove"):
                engine.api.remove_image(found["Id"], force=True)
            reaped.images.append(str(found["Id"]))
    reaped.loops += reap_loops(lambda file: _dead_file(file, home, is_live))
    return reaped


def _dead_file(name: str, home: str, is_live: Callable[[str], bool]) -> bool:
    """Whether a file behind a loop device is of an attempt of this home that no longer lives."""
    found = attempt_of(name)
    return found is not None and found[0] == home and not is_live(found[1])
