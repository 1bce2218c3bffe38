"""Rows played in this process: tasks of one screening, side by side, struck by the fault line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from orchestrator.drills.faultline import Faultline
from orchestrator.drills.house import KEY, House, sheet
from orchestrator.drills.judge import Verdict, judge
from orchestrator.drills.metered import script
from orchestrator.drills.rows import Row, Scene
from orchestrator.drills.seen import Record
from orchestrator.engine.base import Settings
from orchestrator.engine.breaker import HOST_REASONS, Breaker
from orchestrator.packs.pack import Pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.gate import check_pack
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import Launch, chosen_tasks, hardware_class, launch, run
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.relaying import keep_sheet

_SPONSORS: Final = Sponsors("operator:drill", "operator:drill", "lab:drill")
_TRY_CAP_NUSD: Final = 100_000_000
Say = Callable[[str], None]


@dataclass(frozen=True)
class Played:
    """What came of the rows, and what is wrong with the house as a whole."""

    verdicts: list[Verdict]
    problems: list[str]


def batches(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that one run can take: a run stops when too many tries in a row end by a fault of its host."""
    most = Breaker().in_a_row - 1
    found: list[list[Row]] = []
    room = 0
    for row in sorted(rows, key=_host_ends, reverse=True):
        cost = _host_ends(row)
        if not found or (cost and cost > room):
            found.append([])
            room = most
        found[-1].append(row)
        room -= cost
    return found


def _host_ends(row: Row) -> int:
    return row.faults if row.reason in HOST_REASONS else 0


def play(house: House, line: Faultline, rows: Sequence[Row], parallel: int, say: Say) -> Played:
    """Play `rows` (plain, metered and gate ones) in a house that is made for them."""
    installation = Installation.open(house.home)
    keep_sheet(house.home, sheet())
    played = Played([], [])
    try:
        if any(row.scene is Scene.METERED for row in rows):
            path = house.folder / "provider.toml"
            path.write_text(script(), "utf-8")
            house.write_accounts(line.provider(path, KEY), line.nowhere())
        for number, batch in enumerate(batches([row for row in rows if row.scene is not Scene.GATE])):
            _play_batch(installation, house, line, batch, number, parallel, say, played)
        for row in rows:
            if row.scene is Scene.GATE:
                played.verdicts.append(_at_the_gate(installation, house, row, parallel))
        played.problems.extend(line.leftovers(installation.label, house.folder))
    finally:
        installation.close()
    return played


def _play_batch(
    installation: Installation,
    house: House,
    line: Faultline,
    rows: Sequence[Row],
    number: int,
    parallel: int,
    say: Say,
    played: Played,
) -> None:
    launches: list[tuple[Launch, list[Row]]] = []
    for scene in (Scene.PLAIN, Scene.METERED):
        own = [row for row in rows if row.scene is scene]
        if own:
            pack = house.pack(f"drill-{scene.value}-{number}", own)
            _prove(installation, pack, own, parallel)
            launches.append((_launched(installation, house, pack, scene), own))
    for row in rows:
        if row.blow is not None:
            line.arm(row.name, row.blow, row.blows)
    outcome = run(
        installation,
        [one for one, _ in launches],
        parallel=parallel,
        progress=lambda event: None,
        guard=lambda engine: nullcontext(),
        settings=Settings(back_off_ms=0),
        make_runner=lambda: line,
    )
    played.problems.extend(outcome.warnings)
    for one, its in launches:
        record = Record.of(installation, one.screening_id)
        played.problems.extend(record.problems)
        for row in its:
            landed = None if row.blow is None else line.landed(row.name)
            played.verdicts.append(judge(row, record.tries(row.name), landed))
            say(f"{row.name}: {'as it must' if played.verdicts[-1].holds else 'DIFFERS'}")


def _prove(installation: Installation, pack: Pack, rows: Sequence[Row], parallel: int) -> None:
    """Have the oracle pass where a row says so, by the gate itself."""
    named = [row.name for row in rows if row.proven]
    if named:
        tasks = chosen_tasks(pack, named)
        check_pack(installation, pack, tasks, parallel=parallel, say=lambda line: None, oracle_runs=1)


def _launched(installation: Installation, house: House, pack: Pack, scene: Scene) -> Launch:
    conditions = ScreeningConditions(
        tries=1,
        network="relay-only",
        step_limit=20,
        try_cap_nusd=_TRY_CAP_NUSD,
        prices_digest=sheet().digest,
        hardware_class=hardware_class(),
    )
    agent = house.agent(metered=scene is Scene.METERED)
    (one,) = launch(installation, pack, [agent], conditions, _SPONSORS, again=False, say=lambda line: None)
    return one


def _at_the_gate(installation: Installation, house: House, row: Row, parallel: int) -> Verdict:
    pack = house.pack(f"drill-gate-{row.name}", [row])
    report = check_pack(
        installation, pack, list(pack.tasks), parallel=parallel, say=lambda line: None, oracle_runs=1
    )
    (task,) = report.tasks
    problems = [] if task.verdict == "refused" and not task.oracle_passes else ["the gate admitted the task"]
    return Verdict(row, problems=tuple(problems), notes={"gate": list(task.reasons)})
