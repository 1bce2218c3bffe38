"""What became of a row, against what it must become: pure over plain facts of ledger and certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.drills.rows import Row
from scoring.vocabulary import Outcome, Reason


@dataclass(frozen=True)
class SeenAttempt:
    """One attempt as the ledger and its certificate have it; interrupted runs are left out.

    `named` are the observations that the decision rests on, with their values; `observed` the whole vector.
    `certified` is the outcome in the signed statement, None without one. `payers` who paid for it.
    """

    outcome: Outcome
    reason: Reason
    suspect: bool
    named: Mapping[str, Any]
    observed: Mapping[str, Any]
    certified: tuple[str, str] | None
    payers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class SeenTry:
    """One try: its attempts in order, whether it counts, and what the verified bundle hands to a scorer."""

    attempts: Sequence[SeenAttempt]
    state: str
    scored: str | None


@dataclass(frozen=True)
class Verdict:
    """One row: `problems` is empty when it came as it must. `not_run` says why it was not played."""

    row: Row
    tries: tuple[SeenTry, ...] = ()
    problems: tuple[str, ...] = ()
    not_run: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the row was played and came as it must."""
        return not self.problems and not self.not_run


def judge(row: Row, tries: Sequence[SeenTry], landed: int | None, more: Sequence[str] = ()) -> Verdict:
    """Compare; `landed` blows were seen to hit (None: the row needs none), `more` are problems found before.

    Rules: every platform fault is void, certified, paid by the platform and run again at most twice; no
    failure of an agent is run again; nothing void is scored.
    """
    problems = list(more)
    wanted = row.blows * row.tries if row.blow else None
    if landed is not None and landed != wanted:
        problems.append(f"{landed} of {wanted} blows hit")
    if len(tries) != row.tries:
        problems.append(f"{len(tries)} tries, expected {row.tries}")
    for one in tries:
        problems += _of_try(row, one)
    return Verdict(row, tuple(tries), tuple(dict.fromkeys(problems)))


def _of_try(row: Row, seen: SeenTry) -> list[str]:
    ends = [one.reason.value for one in seen.attempts]
    wanted = [row.reason.value] * (row.attempts - 1) + [row.last_reason.value]
    if ends != wanted:
        return [f"ended {', '.join(ends) or 'never'}; expected {', '.join(wanted)}"]
    problems = []
    for one in seen.attempts:
        problems += _of_attempt(one)
    first = seen.attempts[0]
    for name in row.evidence:
        if name not in first.named:
            problems.append(f"the decision does not name {name}")
        elif first.named[name] is None:
            problems.append(f"{name} was not observed")
    problems += [f"{name} was not observed" for name in row.seen if not first.observed.get(name)]
    if first.suspect is not row.suspect:
        problems.append("is suspect" if first.suspect else "is not suspect")
    return problems + _of_score(seen)


def _of_attempt(one: SeenAttempt) -> list[str]:
    problems = []
    if one.certified != (one.outcome.value, one.reason.value):
        problems.append(f"certified as {one.certified}, recorded as {one.outcome.value}, {one.reason.value}")
    payer = "agent" if one.outcome in (Outcome.PASSED, Outcome.FAILED) else "platform"
    if one.payers - {payer}:
        problems.append(f"{one.outcome.value}, and paid by the {', '.join(sorted(one.payers - {payer}))}")
    return problems


def _of_score(seen: SeenTry) -> list[str]:
    last = seen.attempts[-1].outcome
    counts = last in (Outcome.PASSED, Outcome.FAILED)
    if seen.state != ("recorded" if counts else "uncountable"):
        return [f"the try is {seen.state} after {last.value}"]
    if seen.scored != last.value:
        return [f"handed to the scorer as {seen.scored}, ended {last.value}"]
    return []
