"""What an attempt of a task with several containers needs: the services beside the agent's container.

A *sidecar* is a container of a task's own that runs beside the agent's, in the agent phase only. The words
are those of compose files; `orchestrator.packs.compose` reads them, `workers.sandbox.sidecars` runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAIN: Final = "main"
"""The service that is the agent's own container."""

MAX_SIDECARS: Final = 8
"""A /28 has room for thirteen containers."""

MEMORY_BYTES: Final = 512 << 20
CPUS_MILLI: Final = 1000
PIDS: Final = 256
"""Limits of a sidecar whose task declares none."""


class Condition(StrEnum):
    """When a service that others wait for counts as there."""

    STARTED = "service_started"
    HEALTHY = "service_healthy"


@dataclass(frozen=True)
class Health:
    """A readiness probe: `argv` is run inside and must end with 0. Times in milliseconds.

    After `start_period_ms` it may fail `retries` times in a row, `interval_ms` apart; each run may take
    `timeout_ms`. An empty `argv` says that there is no probe.
    """

    argv: tuple[str, ...]
    interval_ms: int = 30_000
    timeout_ms: int = 30_000
    start_period_ms: int = 0
    retries: int = 3

    @property
    def bound_ms(self) -> int:
        """The longest time that it may take to become healthy."""
        return self.start_period_ms + max(1, self.retries) * (self.interval_ms + self.timeout_ms)


@dataclass(frozen=True)
class Sidecar:
    """One service beside the agent's container.

    `image` is an image Id (`sha256:...`) once it is known. What is None comes from the image: `entrypoint`,
    `command` (with an entrypoint of its own there is none), `workdir`, `user`, `health`. `after` names the
    services that must be there before it starts, each with its condition. Memory in bytes, CPUs in
    thousandths.
    """

    name: str
    image: str = ""
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    workdir: str | None = None
    user: str | None = None
    hostname: str | None = None
    health: Health | None = None
    after: tuple[tuple[str, Condition], ...] = ()
    memory_bytes: int = MEMORY_BYTES
    cpus_milli: int = CPUS_MILLI
    pids: int = PIDS


@dataclass(frozen=True)
class PodTerms:
    """The pod of an attempt with sidecars.

    `subnet` is leased to this attempt alone (`orchestrator.ledger.subnets`); `image` is the Id of an image
    with Python for our own containers in the pod. `sidecars` are in start order; all of them must be up, and
    healthy where they have a probe, before the agent gets control.
    """

    subnet: str
    image: str
    sidecars: tuple[Sidecar, ...]
