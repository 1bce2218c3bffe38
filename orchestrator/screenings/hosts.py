"""Running planned screenings on workers of many hosts, from planning's end to the bundles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from orchestrator.engine.base import Engine, Progress
from orchestrator.engine.celery.broker import Publisher
from orchestrator.engine.celery.campaign import Campaign
from orchestrator.engine.celery.keeper import Keeper
from orchestrator.engine.celery.times import Times
from orchestrator.ledger import hosts, queries
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.records import all_summarised
from orchestrator.ledger.states import SlotState
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.kept import keep
from orchestrator.screenings.launch import WHO, Launch, Outcome, concluded
from orchestrator.screenings.notary import Notary
from orchestrator.screenings.workshop import Caretaker

_SHOWN: Final = 5


def unplaceable(installation: Installation, launches: Sequence[Launch], times: Times) -> list[str]:
    """One sentence for every queue with open tries that no present worker serves."""
    served = hosts.capacity(installation.ledger, beat_ms=times.beat_ms)
    missing: dict[str, list[str]] = {}
    for one in launches:
        for view in queries.tries(installation.ledger, one.screening_id):
            row = view.row
            if row["state"] in (SlotState.PLANNED, SlotState.QUEUED) and row["queue"] not in served:
                tasks = missing.setdefault(row["queue"], [])
                if row["task_id"] not in tasks:
                    tasks.append(row["task_id"])
    lines = []
    for queue, tasks in sorted(missing.items()):
        more = f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else ""
        listed = ", ".join(tasks[:_SHOWN])
        lines.append(f"no worker serves {queue} now: {len(tasks)} tasks wait ({listed}{more})")
    return lines


def run_on_hosts(
    installation: Installation,
    launches: Sequence[Launch],
    *,
    broker: str,
    host_name: str,
    progress: Callable[[Progress], None],
    guard: Callable[[Engine], Any],
    say: Callable[[str], None],
    share: int = 1,
    times: Times | None = None,
) -> Outcome:
    """Hand the screenings to the workers, watch and certify until they are closed, or until interrupted."""
    times = times or Times()
    for one in launches:
        keep(installation.home, one.screening_id, one.bench)
    worker_id = hosts.enter(installation.ledger, WorkerRole.DISPATCHER, host_name=host_name)
    publisher = Publisher(broker, margin_s=times.margin_s)
    if not publisher.answers():
        say("the broker does not answer now; what cannot be sent is sent again later")
    for line in unplaceable(installation, launches, times):
        say(line)
    callbacks = Caretaker(installation.home).callbacks(installation.ledger)
    keeper = Keeper(installation.ledger, publisher, callbacks, times, worker_id)
    notary = Notary(installation)
    warnings: list[str] = []
    ids = [one.screening_id for one in launches]
    public = [one.screening_id for one in launches if not one.private]

    def each_look() -> bool:
        warnings[:] = notary.turn()
        return all_summarised(installation.ledger, public)

    campaign = Campaign(
        installation.ledger, keeper, each_look=each_look, progress=progress, who=WHO, share=share
    )
    try:
        with guard(campaign):
            result = campaign.run(ids, 0)
    finally:
        hosts.leave(installation.ledger, worker_id)
    return concluded(launches, result, warnings)
