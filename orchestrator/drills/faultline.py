"""What a drill needs of the worker's side, found by entry point: orchestrator never imports workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Protocol, cast

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.errors import HostError

GROUP: Final = "assize.faultline"
NAME: Final = "local"


class OwnEngine(Protocol):
    """A second Docker engine, with data, socket and processes of its own."""

    @property
    def host(self) -> str:
        """As DOCKER_HOST wants it."""

    def restart(self) -> None:
        """Kill it without a word and start it again on the same data."""

    def leftovers(self, home: str) -> list[str]:
        """As `Faultline.leftovers`, of this engine."""


class Faultline(AbstractContextManager["Faultline"], Protocol):
    """Runs attempts as the worker does, and strikes those that it was armed for."""

    def impossible(self, blow: str) -> str | None:
        """Why a blow cannot be struck on this machine; None where it can."""

    def arm(self, task_id: str, blow: str, times: int) -> None:
        """Strike the first `times` attempts of every try of the task."""

    def landed(self, task_id: str) -> int:
        """How many blows were seen to hit."""

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Run one attempt."""

    def unfit(
        self, home: str, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Why the agent cannot be started for the task; None if it can."""

    def ready(self) -> bool:
        """Whether an attempt could start now."""

    def reap(self, home: str, is_live: Callable[[str], bool]) -> Any:
        """Remove what dead workers of this home left."""

    def close(self) -> list[str]:
        """The end of one screening; returns what could not be removed."""

    def provider(self, script: Path, key: str) -> str:
        """Start the scripted provider; its base URL, version folder included."""

    def nowhere(self) -> str:
        """The base URL of a provider where nobody listens."""

    def leftovers(self, home: str, folder: Path) -> list[str]:
        """Containers, networks, volumes, images, loop devices, mounts, relay folders that a home left."""

    def own_engine(self) -> AbstractContextManager[OwnEngine]:
        """Start a second engine with the base image in it."""


def load_faultline() -> Faultline:
    """The fault line of this installation; `HostError` when there is none or its engine does not answer."""
    found = [point for point in entry_points(group=GROUP) if point.name == NAME]
    if not found:
        raise HostError("no fault line is installed", hint="install Assize again, with its workers")
    try:
        return cast(Faultline, found[0].load()())
    except Exception as error:
        raise HostError(
            f"the fault line cannot start: {error}", hint="run `assize doctor` to see what is missing"
        ) from error
