"""The attempt function of this machine, found by entry point name: orchestrator never imports workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from orchestrator.agents.registry import has_bundle
from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.errors import HostError
from orchestrator.home import Home
from orchestrator.ledger import owners
from orchestrator.ledger.claims import claims_of
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import Liveness

GROUP = "assize.attempt"


class Runner(Protocol):
    """What an entry point of `assize.attempt` makes: it runs attempts and cleans up after dead ones."""

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Run one attempt."""

    def ready(self) -> bool:
        """Whether an attempt could start now."""

    def reap(self, home: str, is_live: Callable[[str], bool]) -> Any:
        """Remove what dead workers of this home left."""

    def unfit(
        self, home: str, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Why an agent cannot be started in a task's image or use its servers; None if it can.

        `agent` and `mcp_servers` are as in an order, `home` is the label of the home that asks.
        """

    def close(self) -> list[str]:
        """Wait for removals; returns what could not be removed."""


def load_runner(name: str = "docker") -> Runner:
    """Make the runner registered as `name`; `HostError` when there is none or its engine does not answer."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise HostError(
            f"no attempt runner called {name} is installed", hint="install Assize with its workers"
        )
    try:
        return cast(Runner, found[0].load()())
    except Exception as error:
        raise HostError(
            f"the attempt runner {name} cannot start: {error}",
            hint="run `assize doctor` to see what is missing",
        ) from error


def liveness_of(ledger: Ledger) -> Callable[[str], bool]:
    """Answers for a container label whether its attempt (`<slot>/<token>`) or owner (`owner/<id>`) lives.

    Attempts of owners that certainly died count as dead although the ledger has not voided them yet.
    """
    known = _live(ledger)

    def is_live(label: str) -> bool:
        nonlocal known
        if label not in known:
            # What is listed was made after its claim: asked again, after the listing.
            known = _live(ledger)
        return label in known

    return is_live


def _live(ledger: Ledger) -> frozenset[str]:
    """The labels of all that lives now."""
    with_attempts = owners.holders(ledger)
    dead = set(owners.dead_holders(ledger))
    alive = [owner_id for owner_id in with_attempts if owner_id not in dead]
    live = {f"{held.slot_id}/{held.token}" for held in claims_of(ledger, alive)}
    running = {
        owner.id for owner in owners.unended(ledger) if owners.liveness(owner.process) is not Liveness.DEAD
    }

    return frozenset(live | {f"owner/{one}" for one in running})


def with_bundles(is_live: Callable[[str], bool], home: Home) -> Callable[[str], bool]:
    """The same answers, and for `bundle/<digest>` whether an agent of the home is registered with it."""

    def answer(label: str) -> bool:
        kind, _, digest = label.partition("/")
        return has_bundle(home, digest) if kind == "bundle" else is_live(label)

    return answer
