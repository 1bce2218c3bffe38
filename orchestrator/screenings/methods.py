"""One verified screening under any published methodology; nothing is blended (G-4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scoring.classify import View
from scoring.composite import METHODOLOGY as COMPOSITE
from scoring.composite import score_composite
from scoring.facts import Population
from scoring.pack_card import METHODOLOGY as PACK_SCORE
from scoring.radar import score_radar
from scoring.radar_result import METHODOLOGY as RADAR
from scoring.rate_agent import METHODOLOGY as RATE_AI_AGENT
from scoring.rate_agent import rate_screening
from scoring.rate_agent_result import AgentRating
from scoring.repeatability import METHODOLOGY as REPEATABILITY
from scoring.repeatability import outcomes_of, score_repeatability
from scoring.results import MethodologyResult
from scoring.runs import Run, runs_of
from scoring.six_component import score_submission
from scoring.six_component_cliff import score_submission_with_cliff
from scoring.six_component_inputs import Submission
from scoring.six_component_result import CLIFF_METHODOLOGY as SIX_COMPONENT_CLIFF
from scoring.six_component_result import METHODOLOGY as SIX_COMPONENT
from scoring.six_component_result import SixComponentResult
from scoring.six_component_tries import submission_of
from scoring.tries import Plan, VerifiedTry


def _repeatability(runs: Sequence[Run]) -> MethodologyResult:
    return score_repeatability(outcomes_of(runs))


_OF_RUNS: Final[Mapping[str, Callable[[Sequence[Run]], MethodologyResult]]] = {
    COMPOSITE: score_composite,
    RADAR: score_radar,
    REPEATABILITY: _repeatability,
}
"""Methods that read the runs of the own suite, and never those of benchmark packs (S3-5)."""
_OF_SUBMISSIONS: Final[Mapping[str, Callable[[Submission], SixComponentResult]]] = {
    SIX_COMPONENT: score_submission,
    SIX_COMPONENT_CLIFF: score_submission_with_cliff,
}

METHODS: Final = (PACK_SCORE, RATE_AI_AGENT, *_OF_RUNS, *_OF_SUBMISSIONS)
"""Whose figures are of one screening. The board and the comparison take several."""


@dataclass(frozen=True)
class Excluded:
    """Why a methodology gives no figure for a screening: its population rule, in one sentence."""

    code: str
    sentence: str


@dataclass(frozen=True)
class Submissions:
    """Each finished, verified try as a submission of its own; they are not averaged (S2-1)."""

    scores: tuple[SixComponentResult, ...]


Result = AgentRating | MethodologyResult | Submissions | Excluded


def result_of(method: str, plan: Plan, tries: Sequence[VerifiedTry]) -> Result:
    """The public result of one screening under a method of `METHODS` other than `pack-score/1`, whose card
    comes with the verification (`orchestrator.screenings.scorecard`)."""
    if method == RATE_AI_AGENT:
        return rate_screening(plan, tries, view=View.PUBLIC)
    if method in _OF_SUBMISSIONS:
        made = (submission_of(try_, View.PUBLIC) for try_ in tries)
        return Submissions(tuple(_OF_SUBMISSIONS[method](one) for one in made if one is not None))
    if plan.population is not Population.OWN_SUITE:
        sentence = f"{method} leaves out benchmark pack runs (S3-5), so it has no figure here"
        return Excluded("pack-runs", sentence)
    return _OF_RUNS[method](runs_of(plan, tries, View.PUBLIC))
