"""Play chosen rows against throw-away homes, and sum up."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.drills import commanded, screened
from orchestrator.drills.faultline import Faultline
from orchestrator.drills.house import House
from orchestrator.drills.judge import Verdict
from orchestrator.drills.rows import Row, Scene
from orchestrator.drills.screened import Say
from orchestrator.drills.table import ROWS
from orchestrator.errors import NotFoundError
from scoring.vocabulary import Outcome

_PREFIX: Final = "assize-drill-"
_AT_ONCE: Final = 3
"""Commands at once; each is a worker process of its own."""


@dataclass(frozen=True)
class Report:
    """Verdicts in the order of the table, and what is wrong beside them (leftovers, broken invariants)."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether anything came otherwise than it must."""
        return bool(self.problems) or any(one.problems for one in self.verdicts)

    @property
    def not_run(self) -> bool:
        """Whether a row could not be played."""
        return any(one.not_run for one in self.verdicts)

    @property
    def faults_scored(self) -> int:
        """Platform faults that a scorer would take for a result."""
        return sum(
            one.scored in (Outcome.PASSED, Outcome.FAILED)
            and one.attempts[-1].outcome not in (Outcome.PASSED, Outcome.FAILED)
            for verdict in self.verdicts
            for one in verdict.tries
            if one.attempts
        )

    @property
    def failures_rerun(self) -> int:
        """Attempts that were made after one that had passed or failed."""
        return sum(
            attempt.outcome in (Outcome.PASSED, Outcome.FAILED)
            for verdict in self.verdicts
            for one in verdict.tries
            for attempt in one.attempts[:-1]
        )


def chosen(names: Sequence[str]) -> list[Row]:
    """The rows of these names, all without any; `NotFoundError` for a name that no row has."""
    known = {row.name: row for row in ROWS}
    for name in names:
        if name not in known:
            raise NotFoundError(f"there is no row {name}", hint="`assize drill --list` shows the rows")
    return [row for row in ROWS if not names or row.name in names]


def drill(line: Faultline, rows: Sequence[Row], *, parallel: int, say: Say) -> Report:
    """Play `rows`; every one of them gets a verdict."""
    verdicts: dict[str, Verdict] = {}
    problems: list[str] = []
    ready: list[Row] = []
    for row in rows:
        why = row.why or (line.impossible(row.blow) if row.blow else None)
        if why:
            verdicts[row.name] = Verdict(row, not_run=why)
        else:
            ready.append(row)
    with _own_environment(), tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        together = [row for row in ready if row.scene in (Scene.PLAIN, Scene.METERED, Scene.GATE)]
        if together:
            played = screened.play(_house(folder, "screened"), line, together, parallel, say)
            verdicts.update({one.row.name: one for one in played.verdicts})
            problems += played.problems
        alone = [row for row in ready if row not in together]
        with ThreadPoolExecutor(min(parallel, _AT_ONCE)) as pool:
            for found in pool.map(lambda row: commanded.play(_house(folder, row.name), line, row), alone):
                verdicts[found.row.name] = found
                say(f"{found.row.name}: {'as it must' if found.holds else 'DIFFERS'}")
    return Report(tuple(verdicts[row.name] for row in rows), tuple(dict.fromkeys(problems)))


def _house(folder: str, name: str) -> House:
    place = Path(folder) / name
    place.mkdir()
    return House.made(place)


@contextmanager
def _own_environment() -> Iterator[None]:
    """Without the operator's own variables: a drill must not find the real ledger or keys."""
    before = {name: text for name, text in os.environ.items() if name.startswith("ASSIZE_")}
    for name in before:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(before)
