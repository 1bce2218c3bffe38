"""A Pack Score card and a same-question board of 100,000 and 1,000,000 verified tries: the time per try, and
that it does not grow with their number.

One JSON line each; the ratio is the CPU time per try at the larger number over that at the smaller one.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from scoring.classify import View
from scoring.leaderboard.score import Screening, score_board
from scoring.pack_score import score_pack
from scoring.tries import CertificateState, Plan, SandboxLevel, VerifiedTry
from scoring.vocabulary import OUTCOME_OF, Reason

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SMALL, LARGE = 100_000, 1_000_000
ENTRANTS, TRIES_PER_TASK = 20, 5
LINEAR_BAR = 1.3
SMALL_ROUNDS = 3
"""The least of three, and of two for the long board: other work on the machine only ever adds."""


@dataclass(frozen=True)
class Subject:
    """What is computed, and over how many screenings the tries are spread."""

    name: str
    screenings: int
    compute: Callable[[Sequence[Screening]], object]
    large_rounds: int


def card_of(screenings: Sequence[Screening]) -> object:
    """One card of one screening."""
    ((plan, tries),) = screenings
    return score_pack(plan, tries, view=View.PUBLIC, do_nothing_floor=None)


def board_of(screenings: Sequence[Screening]) -> object:
    """Every page of the board."""
    return score_board(screenings, view=View.PUBLIC)


SUBJECTS = (Subject("pack-card", 1, card_of, 1), Subject("board", ENTRANTS, board_of, 2))


def make_screenings(tries: int, screenings: int) -> list[Screening]:
    """`screenings` of one pack, together `tries` verified tries, seeded."""
    rng = random.Random(tries)
    tasks = tuple(f"t{number:06d}" for number in range(tries // screenings // TRIES_PER_TASK))
    return [_screening(rng, number, tasks) for number in range(screenings)]


def _screening(rng: random.Random, number: int, tasks: tuple[str, ...]) -> Screening:
    plan = Plan(
        screening_id=f"s{number}",
        agent_id=f"a{number:03d}",
        agent_digest=f"{number:064x}",
        pack_id="bench",
        pack_version="1",
        pack_digest="b" * 64,
        pack_tasks=tasks,
        planned=dict.fromkeys(tasks, TRIES_PER_TASK),
        declared_tries=TRIES_PER_TASK,
        judge="programmatic",
        pack_is_current=True,
    )
    slots = ((task, index) for task in tasks for index in range(1, TRIES_PER_TASK + 1))
    return plan, [_try(rng, plan, number, place, slot) for place, slot in enumerate(slots)]


def _try(rng: random.Random, plan: Plan, number: int, place: int, slot: tuple[str, int]) -> VerifiedTry:
    chance = rng.random()
    reason = Reason.ALL_CHECKS_PASSED if chance < 0.3 + 0.02 * number else Reason.WRONG_OUTPUT
    return VerifiedTry.attest(
        screening_id=plan.screening_id,
        agent_id=plan.agent_id,
        agent_digest=plan.agent_digest,
        pack_digest=plan.pack_digest,
        task_id=slot[0],
        index=slot[1],
        attempt=1,
        outcome=OUTCOME_OF[Reason.TIMEOUT if chance > 0.95 else reason],
        reason=Reason.TIMEOUT if chance > 0.95 else reason,
        certificate=CertificateState.VALID,
        certificate_digest=f"{number:08x}{place:056x}",
        level=SandboxLevel.VERIFIED,
        public=True,
        metered=True,
        cost_nusd=rng.randint(1, 10**9),
        wall_ms=rng.randint(1_000, 10**6),
    )


def us_per_try(subject: Subject, tries: int, rounds: int) -> float:
    """CPU time of the computation by verified try, in microseconds; making the tries is not in it."""
    screenings = make_screenings(tries, subject.screenings)
    count = sum(len(made) for _, made in screenings)
    gc.collect()
    gc.freeze()  # the tries themselves are not what the collector should walk through
    took = []
    for _ in range(rounds):
        began = time.process_time()
        subject.compute(screenings)
        took.append(time.process_time() - began)
    gc.unfreeze()
    return 1e6 * min(took) / count


def measure(subject: Subject) -> bool:
    """Print the line of one subject; whether its growth holds the bar."""
    small = us_per_try(subject, SMALL, SMALL_ROUNDS)
    large = us_per_try(subject, LARGE, subject.large_rounds)
    ratio = large / small
    line = {
        "name": f"scoring-{subject.name}-growth",
        "ratio": round(ratio, 3),
        "bar": LINEAR_BAR,
        "unit": f"x of the CPU time per try at {SMALL} tries",
        "ok": ratio <= LINEAR_BAR,
        f"us_per_try_{SMALL}": round(small, 2),
        f"us_per_try_{LARGE}": round(large, 2),
    }
    click.echo(json.dumps(line))
    return ratio <= LINEAR_BAR


def main() -> None:
    """The card, then the board; on one thread, which the libraries read when they are loaded."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    held = [measure(subject) for subject in SUBJECTS]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
