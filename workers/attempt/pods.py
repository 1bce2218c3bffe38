"""Which pod an attempt gets: by its runtime, its relay, and the services of its task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from orchestrator.attempts import AttemptOrder
from workers.capture.growth import disk_watch
from workers.sandbox.pod import Ground, Kind, Pod
from workers.sandbox.sidecars import Sidecars
from workers.sandbox.station import Station

LIFETIME_GRACE_S: Final = 300
NETNS_UNSHAREABLE: Final = ("runsc",)
"""Runtimes with a network stack of their own: their sandbox cannot share the forwarder's namespace."""


def open_pod(
    station: Station,
    order: AttemptOrder,
    *,
    image: str,
    socket_dir: Path | None,
    ground: Ground | None,
    note_names: bool = False,
) -> Pod:
    """The proven pod of the order; `socket_dir` is the relay's, None where nothing inside may call it."""
    own_stack = order.runtime in NETNS_UNSHAREABLE
    kind: Kind = "shared" if ground else "internal" if own_stack else "netns"
    return Pod.open(
        station,
        name=f"assize-{order.attempt_id}-forwarder",
        base_image=image,
        socket_dir=socket_dir,
        labels=order.labels,
        runtime="runc" if own_stack else order.runtime,
        lifetime_s=lifetime_s(order),
        kind=kind,
        note_names=note_names,
        ground=ground,
    )


def lifetime_s(order: AttemptOrder) -> int:
    """After so many seconds what is left of a pod ends by itself."""
    return order.caps.agent_wall_ms // 1000 + LIFETIME_GRACE_S


def sidecars_of(station: Station, order: AttemptOrder) -> Sidecars | None:
    """The network of the order's services, nothing started yet; None for a task without any."""
    if order.pod is None:
        return None
    name = f"assize-{order.attempt_id}"
    return Sidecars(station, order.pod, name=name, labels=order.labels, runtime=order.runtime)


def services_full(station: Station, order: AttemptOrder, sidecars: Sidecars | None) -> Callable[[], bool]:
    """Whether a service wrote more than an attempt may: what the agent can make it write is the agent's."""
    if sidecars is None:
        return lambda: False
    watches = [disk_watch(station, one.container, order.disk) for one in sidecars.running]
    return lambda: any(watch.due() is not None and watch.measure() for watch in watches)
