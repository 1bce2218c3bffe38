"""The least money with which an agent can begin, and the output maximum that it is told.

The relay lets a call start only when its worst case fits under the try's cap. An agent whose first call
cannot fit would be refused in every try, so such conditions are refused before anything is planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from orchestrator.agents.revision import AgentRevision
from orchestrator.attempts import PinnedModel
from orchestrator.errors import UsageError
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.cost import hold
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.sheet import PriceSheet

OVERHEAD_TOKENS: Final = 256
"""Tokens that a provider adds around what was sent, as the relay reckons."""
LEAST_OUTPUT_TOKENS: Final = 1024
"""For an agent that sends no maximum the relay sets what is affordable; less than this is no answer."""
_CACHE_WRITES: Final = frozenset({"5m"})
_NUSD: Final = 10**9


def output_limit(
    revision: AgentRevision,
    conditions: ScreeningConditions,
    models: Sequence[PinnedModel],
    sheet: PriceSheet,
    on: date,
) -> int | None:
    """What the agent is told as its maximum per call, in tokens; None for one that cannot be told.

    The conditions' own number, else the agent's default; never more than each of its models can give.
    """
    launch = revision.launch
    if launch is None or not launch.sets_output_limit:
        return None
    wanted = conditions.output_tokens or launch.limits.output_tokens
    most = [sheet.entry(model.provider, model.model, on).max_output_tokens for model in models]
    known = [limit for limit in (wanted, *most) if limit is not None]
    return min(known) if wanted is not None else None


def least_cap_nusd(
    revision: AgentRevision, price: ModelPrice, output_tokens: int | None, at: datetime
) -> int:
    """The most that the agent's first call can cost, nano-USD; 0 where its size is not known."""
    launch = revision.launch
    if launch is None:
        return 0
    return hold(
        price,
        input_tokens=launch.limits.first_request_bytes + OVERHEAD_TOKENS,
        cache_ttls=_CACHE_WRITES,
        output_tokens=output_tokens or launch.limits.output_tokens or LEAST_OUTPUT_TOKENS,
        calls={},
        at=at,
    ).nusd


def require_least_cap(
    revision: AgentRevision,
    conditions: ScreeningConditions,
    models: Sequence[PinnedModel],
    sheet: PriceSheet,
    output_tokens: int | None,
) -> None:
    """`UsageError` naming the amount when the try cap does not pay for the agent's first call.

    Which of its models it calls first is the agent's business, so the dearest one counts.
    """
    now = datetime.now(UTC)
    prices = [sheet.entry(model.provider, model.model, now.date()) for model in models]
    needs = [least_cap_nusd(revision, price, output_tokens, now) for price in prices]
    least, model = max(zip(needs, models, strict=True), key=lambda pair: pair[0])
    if conditions.try_cap_nusd < least:
        raise UsageError(
            f"agent {revision.label} needs a try cap of at least {_usd(least)} USD: "
            f"its first call to {model.model} may cost that much",
            hint="raise --try-cap" if output_tokens is None else "raise --try-cap, or lower --output-tokens",
        )


def _usd(nusd: int) -> str:
    """USD with four decimals, rounded up so that the amount is enough."""
    tenths = -(-nusd // (_NUSD // 10_000))
    return f"{tenths // 10_000}.{tenths % 10_000:04d}"
