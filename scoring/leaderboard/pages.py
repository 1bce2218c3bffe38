"""From plain runs to pages: one joint fit each, references handed down unrounded (S1-2, S1-3, S1-19)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from scoring.errors import MalformedInputError
from scoring.leaderboard.board import Board, Leaderboard, Level, NoGaps, Page, Row
from scoring.leaderboard.coverage import Facts, facts_of
from scoring.leaderboard.elo import OVERALL_REFERENCE
from scoring.leaderboard.entries import BoardRun, Place, Sheet, sheet_of
from scoring.leaderboard.pairs import PairWeights, groups
from scoring.leaderboard.ranking import column_ranks, score_ranks
from scoring.leaderboard.sandwich import LEAST_TASKS, Differences, differences
from scoring.leaderboard.solver import fit_rows
from scoring.numbers import ratio


def leaderboard_of(
    runs: Sequence[BoardRun],
    places: Mapping[str, Place],
    *,
    inputs_digest: str | None = None,
    non_public_runs: int = 0,
) -> Leaderboard:
    """Every page of the runs. The order of `runs` has no effect; a sub-board or sub-category without any
    valid result has no page, the overall page is always there.

    `inputs_digest` names what the runs were made from; without one, the digest of the runs themselves is
    taken. Raises `MalformedInputError("unplaced-task")` for a task without a place, and
    `NotConvergedError`.
    """
    sheet = sheet_of(runs)
    by_board, by_sub = _scopes(sheet, places)
    digest = _digest(runs, places) if inputs_digest is None else inputs_digest
    overall = page_of(Page(Level.OVERALL), sheet, list(sheet.cells), None, digest)
    boards = {
        name: page_of(Page(Level.BOARD, name), sheet, by_board[name], _unrounded(overall), digest)
        for name in sorted(by_board)
    }
    subs = tuple(
        page_of(Page(Level.SUB, *key), sheet, by_sub[key], _unrounded(boards[key[0]]), digest)
        for key in sorted(by_sub)
    )
    shown = tuple(board for board in boards.values() if board.rows)
    return Leaderboard(overall, shown, tuple(sub for sub in subs if sub.rows), digest, non_public_runs)


def page_of(
    page: Page, sheet: Sheet, tasks: Sequence[str], references: Mapping[str, float] | None, digest: str
) -> Board:
    """One page from the tasks in its scope. `references` is Elo by entrant, None for the 1000 of the overall
    page; each entrant with a valid result needs one (`MalformedInputError("unknown-entrant")`)."""
    tables = tuple(sheet.tables[task] for task in tasks if task in sheet.tables)
    entrants = sorted({entrant for table in tables for entrant in table.entrants})
    weights = PairWeights(entrants)
    clusters = groups(tables, weights.number)
    for group in clusters:
        weights.add_group(group)
    held = np.array([_reference(name, references) for name in entrants], dtype=np.float64)
    fit = fit_rows(*weights.rows(), held)
    gaps = differences(entrants, fit.scores, held, clusters)
    facts = facts_of(sheet.cells[task] for task in tasks)
    return Board(
        page=page,
        rows=_rows(weights, fit.scores.tolist(), held.tolist(), facts, gaps),
        without_result=tuple((name, facts[name].coverage) for name in facts if name not in weights.number),
        tasks=tables,
        gradient_norm=fit.gradient_norm,
        steps=fit.steps,
        gaps=gaps,
        gaps_reason=_no_gaps(gaps, len(entrants), sum(len(group.levels) for group in clusters)),
        inputs_digest=digest,
    )


def _rows(
    weights: PairWeights,
    scores: Sequence[float],
    references: Sequence[float],
    facts: Mapping[str, Facts],
    gaps: Differences | None,
) -> tuple[Row, ...]:
    names = weights.entrants
    ranks = score_ranks({name: Fraction(score) for name, score in zip(names, scores, strict=True)})
    time_ranks = column_ranks({name: facts[name].time.mean for name in names})
    cost_ranks = column_ranks({name: facts[name].cost.mean for name in names})
    rows = []
    for name, score, reference, (wins, compared) in zip(
        names, scores, references, weights.records(), strict=True
    ):
        best, worst = (1, len(names)) if gaps is None else gaps.rank_range(name)
        rows.append(
            Row(
                entrant=name,
                score=score,
                reference=reference,
                rank=ranks[name],
                best=best,
                worst=worst,
                wins=wins,
                compared=compared,
                time=facts[name].time,
                time_rank=time_ranks[name],
                cost=facts[name].cost,
                cost_rank=cost_ranks[name],
                coverage=facts[name].coverage,
            )
        )
    return tuple(sorted(rows, key=lambda row: (row.rank, row.entrant)))


def _scopes(
    sheet: Sheet, places: Mapping[str, Place]
) -> tuple[dict[str, list[str]], dict[tuple[str, str], list[str]]]:
    """The tasks of each sub-board and of each sub-category, in the order of the sheet."""
    by_board: dict[str, list[str]] = {}
    by_sub: dict[tuple[str, str], list[str]] = {}
    for task in sheet.cells:
        if task not in places:
            raise MalformedInputError("unplaced-task", f"task {task} belongs to no sub-board")
        place = places[task]
        by_board.setdefault(place.board, []).append(task)
        for sub in place.subs:
            by_sub.setdefault((place.board, sub), []).append(task)
    return by_board, by_sub


def _reference(name: str, references: Mapping[str, float] | None) -> float:
    if references is None:
        return float(OVERALL_REFERENCE)
    if name not in references:
        raise MalformedInputError("unknown-entrant", f"{name!r:.60} has no score on the page above")
    return references[name]


def _unrounded(board: Board) -> dict[str, float]:
    return {row.entrant: row.score for row in board.rows}


def _no_gaps(gaps: Differences | None, entrants: int, tasks: int) -> NoGaps | None:
    if gaps is not None:
        return None
    if entrants < 2:
        return NoGaps.ONE_ENTRANT
    return NoGaps.FEW_TASKS if tasks < LEAST_TASKS else NoGaps.MANY_ENTRANTS


def _digest(runs: Sequence[BoardRun], places: Mapping[str, Place]) -> str:
    """SHA-256 hex over the places and the runs, one compact ASCII JSON line each, sorted."""
    digest = hashlib.sha256()
    for task in sorted(places):
        digest.update(_line([task, places[task].board, sorted(places[task].subs)]))
    for line in sorted(_line(_plain(run)) for run in runs):
        digest.update(line)
    return digest.hexdigest()


def _plain(run: BoardRun) -> list[object]:
    score = None if run.score is None else ratio(run.score)
    cost = None if run.cost_usd is None else ratio(run.cost_usd)
    return [run.entrant, run.task, score, run.wall_ms, cost, run.started]


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
