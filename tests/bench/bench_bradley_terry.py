"""The Bradley-Terry fit against evalica, its exact gradient, and a board of a million verified tries.

Both solvers get the same aggregated (winner, loser, weight) rows, in this process, on one thread; they run
interleaved and a ratio is the median over the rounds, in CPU time, so that a busy machine disturbs it least.
evalica is the peer that can express the page of equal references, by a phantom entrant that draws with all.
It is no dependency: without it its lines say `skipped`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from scoring.classify import View
from scoring.leaderboard.pairs import Group, PairWeights
from scoring.leaderboard.score import Screening, score_board
from scoring.leaderboard.solver import Fit, fit_rows
from scoring.tries import CertificateState, Plan, SandboxLevel, VerifiedTry
from scoring.vocabulary import OUTCOME_OF, Reason

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
GRADIENT_BAR, AGREEMENT_BAR_ELO = 1e-9, 1e-6
REFERENCE = 1000.0
EVALICA_TOLERANCE = 1e-12
BOARD_ENTRANTS, BOARD_TRIES = 20, 3
SMALL_BOARD, LARGE_BOARD = 250_000, 1_000_000
LINEAR_BAR = 1.25


@dataclass(frozen=True)
class Case:
    """A page of the size of section 4 of the reference, and how often each solver runs on it."""

    entrants: int
    tasks: int
    per_task: int
    bar: float
    rounds: int
    repeats: int


CASES = (
    Case(20, 20, 20, 1.5, 15, 20),
    Case(200, 5_000, 200, 1 / 3, 9, 1),
    Case(2_000, 100_000, 10, 1 / 3, 3, 1),
)


@dataclass(frozen=True)
class Rows:
    """Aggregated (winner, loser, weight) rows, one per directed pair."""

    entrants: int
    winners: Ints
    losers: Ints
    weights: Floats


def make_rows(case: Case) -> Rows:
    """Seeded results on every task, half-point scores so that draws happen, added up as a page does."""
    rng = np.random.default_rng(case.entrants)
    strength = rng.normal(0, 1.2, case.entrants)
    kept = PairWeights([f"e{number:04d}" for number in range(case.entrants)])
    everyone = np.arange(case.entrants)
    chosen: dict[bytes, list[Ints]] = {}
    for _ in range(case.tasks):
        whole = case.per_task == case.entrants
        who = everyone if whole else np.sort(rng.choice(case.entrants, case.per_task, replace=False))
        levels = np.round(2 * (strength[who] + rng.gumbel(size=case.per_task))).astype(np.int64)
        chosen.setdefault(who.astype(np.int64).tobytes(), []).append(levels)
    for key, levels_of in chosen.items():
        kept.add_group(Group(np.frombuffer(key, dtype=np.int64), np.array(levels_of)))
    return Rows(case.entrants, *kept.rows())


def gradient_norm(rows: Rows, scores: Floats) -> float:
    """Euclidean norm of the likelihood's gradient in long double, from the rows and the scores alone."""
    nat = np.log(np.longdouble(10)) / 400
    t = scores.astype(np.longdouble) * nat
    base = np.longdouble(REFERENCE) * nat
    slope = 1 - 2 / (1 + np.exp(base - t))  # two draws against an opponent held at the reference
    lost = rows.weights.astype(np.longdouble) / (1 + np.exp(t[rows.winners] - t[rows.losers]))
    np.add.at(slope, rows.winners, lost)
    np.add.at(slope, rows.losers, -lost)
    return float(np.sqrt(np.sum(slope * slope)))


def evalica_fit(rows: Rows) -> Callable[[], Floats]:
    """evalica's Bradley-Terry on the same rows and a phantom that wins and loses once against everyone.

    Scores are in Elo with the phantom at the reference. Raises `ImportError`.
    """
    import evalica  # type: ignore[import-not-found, unused-ignore]
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

    size = rows.entrants
    everyone, phantom = np.arange(size), np.full(size, size)
    left = np.concatenate([rows.winners, everyone, phantom])
    right = np.concatenate([rows.losers, phantom, everyone])
    weights = np.concatenate([rows.weights, np.ones(2 * size)])
    winners = [evalica.Winner.X] * len(left)
    index = pandas.Index(range(size + 1))

    def run() -> Floats:
        made = evalica.bradley_terry(
            left, right, winners, index=index, weights=weights, tolerance=EVALICA_TOLERANCE
        )
        strengths = made.scores.reindex(range(size + 1)).to_numpy()
        elo: Floats = REFERENCE + 400 * np.log10(strengths[:size] / strengths[size])
        return elo

    return run


def cpu_s(work: Callable[[], object], repeats: int) -> float:
    """Own CPU seconds of one `work`."""
    began = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - began) / repeats


def report(name: str, ratio: float, bar: float, unit: str, **more: float | str) -> bool:
    """One JSON line; False when the bar is missed."""
    ok = ratio <= bar
    line = {"name": name, "ratio": round(ratio, 4), "bar": round(bar, 4), "unit": unit, "ok": ok, **more}
    click.echo(json.dumps(line))
    return ok


def compare(case: Case) -> bool:
    """Speed, gradient and agreement on one page."""
    rows = make_rows(case)
    references = np.full(case.entrants, REFERENCE)

    def ours() -> Fit:
        return fit_rows(rows.winners, rows.losers, rows.weights, references)

    fit = ours()
    norm = gradient_norm(rows, fit.scores)
    name = f"bradley-terry-n{case.entrants}"
    good = report(f"{name}-gradient", norm / GRADIENT_BAR, 1.0, "x of 1e-9", steps=fit.steps)
    try:
        peer = evalica_fit(rows)
    except ImportError as missing:
        for what in ("vs-evalica", "agreement"):
            line = {"name": f"{name}-{what}", "skipped": f"evalica is not installed: {missing}"}
            click.echo(json.dumps(line))
        return good
    apart = float(np.max(np.abs(peer() - fit.scores)))
    good &= report(f"{name}-agreement", apart / AGREEMENT_BAR_ELO, 1.0, "x of 1e-6 Elo")
    mine, theirs = [], []
    for _ in range(case.rounds):
        mine.append(cpu_s(ours, case.repeats))
        theirs.append(cpu_s(peer, case.repeats))
    ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
    return good & report(
        f"{name}-vs-evalica",
        ratio,
        case.bar,
        "x of evalica's CPU time",
        rows=len(rows.weights),
        ours_ms=round(1e3 * statistics.median(mine), 3),
        evalica_ms=round(1e3 * statistics.median(theirs), 3),
    )


def make_screenings(tries: int) -> list[Screening]:
    """`BOARD_ENTRANTS` screenings of one pack, together `tries` verified tries, seeded."""
    rng = random.Random(tries)
    tasks = tuple(f"t{number:06d}" for number in range(tries // BOARD_ENTRANTS // BOARD_TRIES))
    return [_screening(rng, number, tasks) for number in range(BOARD_ENTRANTS)]


def _screening(rng: random.Random, number: int, tasks: tuple[str, ...]) -> Screening:
    plan = Plan(
        screening_id=f"s{number}",
        agent_id=f"a{number:03d}",
        agent_digest=f"{number:064x}",
        pack_id="bench",
        pack_version="1",
        pack_digest="b" * 64,
        pack_tasks=tasks,
        planned=dict.fromkeys(tasks, BOARD_TRIES),
        declared_tries=BOARD_TRIES,
        judge="programmatic",
        pack_is_current=True,
    )
    slots = ((task, index) for task in tasks for index in range(1, BOARD_TRIES + 1))
    return plan, [_try(rng, plan, number, place, slot) for place, slot in enumerate(slots)]


def _try(rng: random.Random, plan: Plan, number: int, place: int, slot: tuple[str, int]) -> VerifiedTry:
    passed = rng.random() < 0.3 + 0.02 * number
    reason = Reason.ALL_CHECKS_PASSED if passed else Reason.WRONG_OUTPUT
    fields: dict[str, Any] = {
        "screening_id": plan.screening_id,
        "agent_id": plan.agent_id,
        "agent_digest": plan.agent_digest,
        "pack_digest": plan.pack_digest,
        "task_id": slot[0],
        "index": slot[1],
        "attempt": 1,
        "outcome": OUTCOME_OF[reason],
        "reason": reason,
        "certificate": CertificateState.VALID,
        "certificate_digest": f"{number:08x}{place:056x}",
        "level": SandboxLevel.VERIFIED,
        "public": True,
        "metered": True,
        "cost_nusd": rng.randint(1, 10**9),
        "wall_ms": rng.randint(1_000, 10**6),
    }
    return VerifiedTry.attest(**fields)


def board() -> bool:
    """CPU time per verified try of a whole board, and that it does not grow with their number."""
    per_try = {}
    for tries in (SMALL_BOARD, LARGE_BOARD):
        screenings = make_screenings(tries)
        count = sum(len(made) for _, made in screenings)
        per_try[tries] = cpu_s(partial(score_board, screenings, view=View.PUBLIC), 1) / count
    return report(
        "board-1000000-tries-growth",
        per_try[LARGE_BOARD] / per_try[SMALL_BOARD],
        LINEAR_BAR,
        f"x of the CPU time per try at {SMALL_BOARD} tries",
        us_per_try=round(1e6 * per_try[LARGE_BOARD], 2),
        total_s=round(per_try[LARGE_BOARD] * LARGE_BOARD, 1),
    )


def main() -> None:
    """Every page size, then the large board; on one thread, which the libraries read when they are loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    good = all([*(compare(case) for case in CASES), board()])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
