"""Registry entry of `rate-ai-agent/1`."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from scoring.levels import MIN_TASKS, THRESHOLDS
from scoring.methodology import Methodology
from scoring.rate_agent import rate_screening
from scoring.rate_agent_composite import COST_ZERO_USD, LATENCY_ZERO_MS, WEIGHTS
from scoring.rate_agent_readings import READINGS
from scoring.rate_agent_result import METHODOLOGY

RATE_AI_AGENT: Final = Methodology(
    id=METHODOLOGY,
    title="Rate AI Agent",
    question="For which kinds of work is this agent a good choice?",
    scorer=rate_screening,
    readings=READINGS,
    constants=(
        *((f"level_{word.name.lower()}", least) for least, word in THRESHOLDS),
        ("level_min_tasks", Fraction(MIN_TASKS)),
        *((f"composite_weight_{name}", weight) for name, weight in WEIGHTS.items()),
        ("composite_cost_zero_usd", COST_ZERO_USD),
        ("composite_latency_zero_ms", LATENCY_ZERO_MS),
    ),
)
