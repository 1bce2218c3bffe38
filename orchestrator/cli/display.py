"""Progress of a running screening, on standard error: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final, Protocol

import click

from orchestrator.cli.output import cell, duration, emit_line
from orchestrator.cli.watching import wants_live
from orchestrator.engine.base import (
    Cancelling,
    Closed,
    Drained,
    Draining,
    Ended,
    Left,
    PhaseEntered,
    Planned,
    Progress,
    Refused,
    Resumed,
    Started,
    Voided,
    Waiting,
)
from orchestrator.ledger.transitions import Claim

EVENT_SCHEMA: Final = "assize/progress/1"
_MARK: Final = {"passed": "✓", "failed": "✗"}


class Display(Protocol):
    """Takes every progress event of a run."""

    def __call__(self, event: Progress) -> None:
        """Show one event."""


def sentence(event: Progress, names: Mapping[str, str]) -> str | None:
    """One line for a person, or None for events that only a live view shows."""
    if isinstance(event, Planned):
        return f"{names[event.screening_id]}: {event.slots} tries planned"
    if isinstance(event, Resumed):
        lost = f", {event.lost} lost to a crash (run again)" if event.lost else ""
        gone = f", {event.uncountable} uncountable" if event.uncountable else ""
        done = f"{event.recorded} recorded{gone}{lost}"
        return f"{names[event.screening_id]}: resuming, {done}, {event.to_go} to go"
    if isinstance(event, Waiting):
        name = names[event.screening_id]
        return f"{name}: waiting for a place at {event.provider}, which has {event.most} tries at a time"
    if isinstance(event, Ended):
        end = f"{event.outcome} ({event.reason})  {duration(event.wall_ms)}"
        return f"{_MARK.get(event.outcome, '?')} {_claim(event.claim, names)}  {end}"
    if isinstance(event, Voided):
        what = "stopped by the operator" if event.outcome is None else f"{event.outcome} ({event.reason})"
        then = "will run again" if event.requeued else "not run again"
        return f"! {_claim(event.claim, names)}  {what}; {then}"
    if isinstance(event, Refused):
        return f"! {_claim(event.claim, names)}  its record was refused: another attempt holds the slot"
    if isinstance(event, Draining):
        return f"stopping after {event.running} running tries; Ctrl-C again cancels them"
    if isinstance(event, Cancelling):
        return f"cancelling {event.running} running tries; Ctrl-C again leaves at once"
    if isinstance(event, Drained):
        return f"stopped; {event.still_open} tries to go: the same command resumes"
    if isinstance(event, Left):
        return f"not watched any more; workers go on with {event.still_open} tries"
    if isinstance(event, Closed):
        return f"{names[event.screening_id]}: {event.state}"
    return None


def _is_end(event: Progress) -> bool:
    """Whether the event ends a slot for good."""
    if isinstance(event, Voided):
        return event.outcome is not None and not event.requeued
    return isinstance(event, Ended)


def _claim(held: Claim, names: Mapping[str, str]) -> str:
    again = f" attempt {held.number}" if held.number > 1 else ""
    return f"{names[held.screening_id]}  {held.task_id} try {held.k}{again}"


class PlainDisplay:
    """One line per event."""

    def __init__(self, names: Mapping[str, str], totals: Mapping[str, int]) -> None:
        self._names = names
        self._total = sum(totals.values())
        self._done = 0

    def __call__(self, event: Progress) -> None:
        """Print the event's line with the running count."""
        line = sentence(event, self._names)
        if isinstance(event, Resumed):
            self._done += event.recorded + event.uncountable
        if _is_end(event):
            self._done += 1
            line = f"[{self._done}/{self._total}] {line}"
        if line is not None:
            click.echo(cell(line), err=True)


class JsonlDisplay:
    """One JSON object per event on standard output."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __call__(self, event: Progress) -> None:
        """Print the event as data."""
        emit_line(EVENT_SCHEMA, {"event": type(event).__name__.lower(), **asdict(event)})


class LiveDisplay:
    """Bars per screening and the tries that run, redrawn at 4 Hz; ended tries scroll above."""

    def __init__(self, names: Mapping[str, str], totals: Mapping[str, int], live: Any) -> None:
        self._names, self._totals, self._live = names, totals, live
        self._done = dict.fromkeys(totals, 0)
        self._passed = dict.fromkeys(totals, 0)
        self._running: dict[str, tuple[Claim, str, float]] = {}
        self._began = time.monotonic()

    def __call__(self, event: Progress) -> None:
        """Update the view."""
        if isinstance(event, Started):
            self._running[event.claim.attempt_id] = (event.claim, "prepare", time.monotonic())
        elif isinstance(event, PhaseEntered):
            held, _, since = self._running.get(event.claim.attempt_id, (event.claim, "", time.monotonic()))
            self._running[event.claim.attempt_id] = (held, event.phase.value, since)
        elif isinstance(event, Resumed):
            self._done[event.screening_id] += event.recorded + event.uncountable
        elif isinstance(event, Ended | Voided | Refused):
            self._running.pop(event.claim.attempt_id, None)
            if isinstance(event, Ended) or (
                isinstance(event, Voided) and event.outcome and not event.requeued
            ):
                self._done[event.claim.screening_id] += 1
            if isinstance(event, Ended) and event.outcome == "passed":
                self._passed[event.claim.screening_id] += 1
        line = sentence(event, self._names)
        if line is not None:
            self._live.console.print(cell(line), highlight=False, markup=False)
        self._live.update(self.render())

    def render(self) -> Any:
        """The live part."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        bars = Table.grid(padding=(0, 1))
        for screening_id, total in self._totals.items():
            done = self._done[screening_id]
            bars.add_row(
                Text(self._names[screening_id]),
                ProgressBar(total=max(total, 1), completed=done, width=30),
                Text(f"{done}/{total}  {self._passed[screening_id]} passed"),
            )
        running = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for held, phase, since in list(self._running.values())[:20]:
            running.add_row(
                Text("▶"), Text(_claim(held, self._names)), Text(phase), Text(f"{now - since:.0f}s")
            )
        left = self._left()
        foot = Text(f"{now - self._began:.0f}s elapsed{left}   Ctrl-C stops; the same command resumes")
        return Group(bars, running, foot)

    def _left(self) -> str:
        done, total = sum(self._done.values()), sum(self._totals.values())
        if done == 0 or done >= total:
            return ""
        return f", about {(time.monotonic() - self._began) / done * (total - done):.0f}s to go"


@contextmanager
def display_for(
    names: Mapping[str, str], totals: Mapping[str, int], *, jsonl: bool, quiet: bool
) -> Iterator[Display]:
    """The display that fits where the command runs."""
    if jsonl:
        yield JsonlDisplay(names)
    elif quiet:
        yield lambda event: None
    elif wants_live(sys.stderr):
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield LiveDisplay(names, totals, live)
    else:
        yield PlainDisplay(names, totals)
