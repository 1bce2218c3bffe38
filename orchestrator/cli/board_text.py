"""The same-question board for a person (UI-24 .. UI-29): one page as a table, and what is not on it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from orchestrator.cli.output import DASH, cell, table_lines
from orchestrator.screenings.boards import LedgerBoard
from scoring.leaderboard.board import Board, NoGaps, Row
from scoring.leaderboard.columns import Column, show_cost, show_time
from scoring.leaderboard.coverage import Coverage
from scoring.leaderboard.entrants import Entrant
from scoring.numbers import fixed

NOTHING = "No pack results yet"
_HEADERS: Final = (
    "rank",
    "range",
    "harness",
    "model",
    "quality",
    "pull",
    "time s",
    "USD",
    "tasks answered",
    "valid tries",
)
_WIDTH = 12
_NO_RANGE = {
    NoGaps.ONE_ENTRANT: "fewer than two entrants",
    NoGaps.FEW_TASKS: "fewer than two tasks with two entrants",
    NoGaps.MANY_ENTRANTS: "too many entrants",
}


def _fact(name: str, text: str) -> str:
    return cell(f"  {name:<{_WIDTH}} {text}")


def _covered(coverage: Coverage) -> tuple[str, str]:
    return (
        f"{coverage.tasks_valid} of {coverage.tasks_planned}",
        f"{coverage.runs_valid} of {coverage.runs_planned}",
    )


def _row(row: Row, entrant: Entrant) -> tuple[str, ...]:
    span = str(row.best) if row.best == row.worst else f"{row.best}-{row.worst}"
    quality, reference = fixed(Fraction(row.score), 0), fixed(Fraction(row.reference), 0)
    pull = fixed(Fraction(row.score) - Fraction(row.reference), 0)
    return (
        str(row.rank),
        span,
        entrant.harness,
        entrant.model,
        quality,
        f"{reference} {pull if pull.startswith('-') else f'+{pull}'}",
        _ranked(show_time(row.time.mean), row.time_rank, row.time),
        _ranked(show_cost(row.cost.mean), row.cost_rank, row.cost),
        *_covered(row.coverage),
    )


def _ranked(shown: str, rank: int | None, column: Column) -> str:
    """A mean with its own rank, and over how many of the valid tries it is known where not over all."""
    if rank is None:
        return DASH
    known = "" if column.known == column.runs else f", {column.known} of {column.runs}"
    return f"{shown} (#{rank}{known})"


def page_lines(page: Board, entrants: Mapping[str, Entrant]) -> list[str]:
    """The table of one page; entrants without a valid result stand below, without a rank."""
    rows = [_row(row, entrants[row.entrant]) for row in page.rows]
    for name, seen in page.without_result:
        one = entrants[name]
        rows.append((DASH, DASH, one.harness, one.model, DASH, DASH, DASH, DASH, *_covered(seen)))
    return [f"  {line}" for line in table_lines(_HEADERS, rows)]


def board_lines(found: LedgerBoard, page: Board) -> list[str]:
    """The page with what it rests on, the other pages, and every screening that is left out."""
    packs = ", ".join(sorted({one.pack for one in found.standing}))
    label = found.standing[0].plan.provenance
    entrants = {one.entrant.name: one.entrant for one in found.standing}
    lines = [cell(f"Same-question board  {page.page.name}  on  {packs}"), *page_lines(page, entrants), ""]
    compared = f"{page.tasks_compared} tasks with two entrants or more"
    lines.append(_fact("compared", f"{compared}; {len(found.standing)} screenings, {label}"))
    lines.append(_fact("page", "computed alone: its scores do not compare with those of another page"))
    if page.gaps_reason is not None:
        lines.append(_fact("ranges", f"as wide as the page: {_NO_RANGE[page.gaps_reason]}"))
    if found.leaderboard is not None:
        lines.append(_fact("pages", ", ".join(one.page.name for one in found.leaderboard.pages)))
    lines += left_out_lines(found)
    return [*lines, _fact("methodology", f"{page.methodology}; inputs {page.inputs_digest[:16]}")]


def left_out_lines(found: LedgerBoard) -> list[str]:
    """One line for each closed screening that verified nothing or stands on no page."""
    lines = [_fact("left out", f"{one.agent}  {one.screening_id}: {one.text}") for one in found.left_out]
    if found.superseded:
        lines.append(_fact("superseded", f"{found.superseded} older screenings"))
    return lines
