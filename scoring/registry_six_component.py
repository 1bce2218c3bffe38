"""Registry entries of `six-component/1` and of its cliff variant, which is off by default."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring.judges import AGREEMENT, AMBIGUITY_PENALTY, JUDGES
from scoring.methodology import Methodology
from scoring.six_component import WEIGHTS, score_submission
from scoring.six_component_cliff import CAP, score_submission_with_cliff
from scoring.six_component_parts import (
    DEDUCTION,
    DELIVERABLE_WEIGHT,
    QUALITY_WEIGHT,
    SEVERITY_WEIGHT,
    STABILITY_SCORE,
    SUITE_SHARE,
)
from scoring.six_component_readings import CLIFF_READINGS, READINGS
from scoring.six_component_result import CLIFF_METHODOLOGY, METHODOLOGY

_CONSTANTS: Final = (
    *((f"weight_{name.value}", weight) for name, weight in WEIGHTS.items()),
    *((f"suite_share_{name}", part) for name, part in SUITE_SHARE.items()),
    *((f"adversarial_weight_{name.value}", weight) for name, weight in SEVERITY_WEIGHT.items()),
    *((f"quality_weight_{name}", weight) for name, weight in QUALITY_WEIGHT.items()),
    *((f"deliverable_weight_{name}", weight) for name, weight in DELIVERABLE_WEIGHT.items()),
    *((f"security_deduction_{name.value}", Fraction(taken)) for name, taken in DEDUCTION.items()),
    *((f"stability_{name.value}", value) for name, value in STABILITY_SCORE.items()),
    ("judges", Fraction(JUDGES)),
    ("judge_agreement", AGREEMENT),
    ("judge_ambiguity_penalty", AMBIGUITY_PENALTY),
)

SIX_COMPONENT: Final = Methodology(
    id=METHODOLOGY,
    title="Six components of a code submission",
    question="How good is this submission's code, over tests, review, documents, security and stability?",
    scorer=score_submission,
    readings=READINGS,
    constants=_CONSTANTS,
)
SIX_COMPONENT_CLIFF: Final = Methodology(
    id=CLIFF_METHODOLOGY,
    title="Six components with a hard cliff for critical security issues",
    question="The same, when a critical security issue may not score above 75?",
    scorer=score_submission_with_cliff,
    readings=CLIFF_READINGS,
    constants=(*_CONSTANTS, ("critical_cap", CAP)),
    default_on=False,
)
