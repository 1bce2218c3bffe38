"""Two screenings set against each other: verify both, score both, compare what verifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import UsageError
from orchestrator.ledger import queries
from orchestrator.ledger.starts import start_hours
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.scorecard import Scored, score_screening
from scoring.classify import View
from scoring.compare import compare, side_of_card, side_of_rating
from scoring.comparison import Comparison, Side
from scoring.pack_card import METHODOLOGY as PACK_SCORE
from scoring.rate_agent import METHODOLOGY as RATE_AI_AGENT
from scoring.rate_agent import rate_screening

METHODS: Final = (PACK_SCORE, RATE_AI_AGENT)
"""Whose counts can be compared; both sides under the same one."""
_ID_SHOWN: Final = 10


@dataclass(frozen=True)
class ComparedScreening:
    """One side: the screening with its card, and the agent revision it is of.

    `hours`: how many of its counted tries began in which hour of the day (UTC).
    """

    screening_id: str
    agent: str
    scored: Scored
    hours: Mapping[int, int]

    @property
    def holds(self) -> bool:
        """Whether its bundle verifies in full."""
        return self.scored.handover.result.exit_code == 0


@dataclass(frozen=True)
class Compared:
    """Both sides and the comparison of their counts."""

    a: ComparedScreening
    b: ComparedScreening
    comparison: Comparison


def compare_screenings(installation: Installation, a: str, b: str, method: str) -> Compared:
    """Compare screening `a` with `b` under one methodology id of `METHODS`.

    Raises `UsageError` for one screening given twice, and `VerificationError` when an opening does not hold.
    """
    if a == b:
        raise UsageError(f"screening {a} is given twice", hint="name two screenings: assize status")
    sides = [_verified(installation, screening_id) for screening_id in (a, b)]
    names = [one.agent for one in sides]
    if names[0] == names[1]:
        # Two revisions of one name, or the same revision twice: the screening tells them apart.
        names = [f"{one.agent} {one.screening_id[:_ID_SHOWN]}" for one in sides]
        if names[0] == names[1]:
            names = [f"{one.agent} {one.screening_id}" for one in sides]
    left, right = (_side(one.scored, method, name) for one, name in zip(sides, names, strict=True))
    return Compared(sides[0], sides[1], compare(left, right))


def _verified(installation: Installation, screening_id: str) -> ComparedScreening:
    row = queries.screening(installation.ledger, screening_id)
    scored = score_screening(installation, screening_id, with_floor=False)
    plan = scored.handover.plan
    version = plan.agent_version or row["agent_version"]
    hours = start_hours(installation.ledger, screening_id)
    return ComparedScreening(screening_id, f"{plan.agent_id}@{version}", scored, hours)


def _side(scored: Scored, method: str, name: str) -> Side:
    plan = scored.handover.plan
    if method == PACK_SCORE:
        return side_of_card(scored.card, plan.conditions, name)
    return side_of_rating(rate_screening(plan, scored.handover.tries, view=View.PUBLIC), name)
