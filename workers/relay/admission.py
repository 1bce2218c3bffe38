"""Whether a model call may start, what it holds, and which bytes are sent: pure.

Order (reference/relay.md section 2): body, pin, price, policy, steps, money. Every refusal names what was
asked and what would be allowed, for the agent reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from orchestrator.prices.cost import Hold, affordable_output, hold
from orchestrator.prices.entry import ModelPrice
from orchestrator.prices.errors import UnpricedError
from orchestrator.prices.sheet import PriceSheet
from workers.relay.budget import Budget
from workers.relay.config import OPENAI_FAMILIES, LaneOrder, Pin, Provider
from workers.relay.errors import RefusedError
from workers.relay.history import History
from workers.relay.routes import Purpose, Route
from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.request import RequestFacts, hides_usage_chunk, inspect, parse_body, rewritten

OVERHEAD_TOKENS: Final = 256
"""Tokens that a provider adds around what was sent (chat template, tool preamble)."""
IMAGE_TOKENS: Final = 49_152
"""What one image may cost beyond its own bytes: the dearest way in which a provider cuts one into tiles."""
CONTEXT_TOKENS: Final = 1 << 20
"""Held once for documents, sound and film: packed text, silence and still film have more tokens than bytes,
and only the model's context bounds them."""
TOOL_USES: Final = 8
"""Uses of an allowed provider-run tool when the request sets no maximum."""
TOOL_INPUT_TOKENS: Final = 25_000
"""Input that the result of one provider-run tool call may add."""
LEAST_OUTPUT: Final = 16
"""An injected maximum below this would buy an empty answer; the smallest that providers accept."""
UNKNOWN_MAXIMUM: Final = 32_768
"""Injected where the price sheet knows no maximum of the model."""
_AUTOMATIC_WRITES: Final = frozenset({"5m"})
"""OpenAI families write to the cache without being asked, and some models bill it."""
_AUDIO_SIGNS: Final = (b"input_audio", b'"audio', b"audio/", b"\\u00")
"""What a request that carries or asks for sound holds somewhere, in lower case, the last one because a
letter may be written as an escape; a text that does too is held dearer."""
REASONING_OUTSIDE: Final = frozenset({"x-ai", "xai"})
"""Providers whose maximum does not bound reasoning tokens: the hold is the model's own maximum, or
`UNKNOWN_MAXIMUM` where the sheet has none."""


@dataclass(frozen=True)
class Terms:
    """What a lane is admitted by: its order, the providers by name, the prices, the models' last calls."""

    order: LaneOrder
    providers: Mapping[str, Provider]
    prices: PriceSheet
    history: History


@dataclass(frozen=True)
class Asked:
    """A request with everything that was looked up for it. `at` fixes the prices of the call."""

    route: Route
    raw: bytes
    body: dict[str, Any]
    facts: RequestFacts
    pin: Pin
    provider: Provider
    price: ModelPrice
    at: datetime


@dataclass(frozen=True)
class Admission:
    """A call that may start. `sent` are the bytes for the provider, the client's own if `changed` is false.

    `held` is None for a free call. `injected` names the limits that the client did not give.
    """

    route: Route
    pin: Pin
    provider: Provider
    price: ModelPrice
    facts: RequestFacts
    body: Mapping[str, Any]
    sent: bytes
    at: datetime
    changed: bool = False
    hides_usage: bool = False
    held: Hold | None = None
    input_bound: int = 0
    output_limit: int | None = None
    injected: Mapping[str, int] = field(default_factory=dict)


def examine(
    route: Route, raw: bytes, betas: Iterable[str], terms: Terms, budget: Budget, at: datetime
) -> Admission:
    """Decide on one request; `RefusedError` with the first rule that it breaks.

    Nothing is reserved here: the caller does that before it gives up the event loop.
    """
    try:
        body = parse_body(raw)
        facts = inspect(route.family, body)
    except BadRequestError as error:
        raise RefusedError(error.code, error.message) from None
    asked = Asked(route, raw, body, facts, *_served(route, body, facts, terms, at), at)
    _check_policy(route.family, facts, terms.order, betas)
    if route.purpose is Purpose.COUNT:
        return Admission(route, asked.pin, asked.provider, asked.price, facts, body, raw, at)
    if budget.steps_left() == 0:
        limit = terms.order.step_limit
        raise RefusedError(Refusal.STEP_LIMIT, f"the step limit of this try ({limit} model calls) is reached")
    try:
        return _held(asked, terms.history, budget)
    except UnpricedError as error:
        raise RefusedError(Refusal.UNPRICED_MODEL, error.message) from None


def _served(
    route: Route, body: Mapping[str, Any], facts: RequestFacts, terms: Terms, at: datetime
) -> tuple[Pin, Provider, ModelPrice]:
    model = route.model or facts.model
    if model is None:
        raise RefusedError(Refusal.INVALID_REQUEST, "the request names no model")
    if route.model is not None and body.get("model") not in (None, model, f"models/{model}"):
        raise RefusedError(Refusal.INVALID_REQUEST, "the body names another model than the path")
    pin = terms.order.pin(model)
    if pin is None:
        allowed = ", ".join(one.model for one in terms.order.pins) or "none"
        raise RefusedError(
            Refusal.MODEL_NOT_PINNED,
            f"model {model[:200]} is not part of this screening; its models: {allowed}",
        )
    provider = terms.providers.get(pin.provider)
    if provider is None or route.family not in provider.families:
        raise RefusedError(
            Refusal.ROUTE_NOT_ALLOWED,
            f"{model} is served by {pin.provider}, which does not speak {route.family.value} here",
        )
    try:
        return pin, provider, terms.prices.entry(pin.provider, model, at.date())
    except UnpricedError as error:
        raise RefusedError(Refusal.UNPRICED_MODEL, error.message) from None


def _check_policy(family: Family, facts: RequestFacts, order: LaneOrder, betas: Iterable[str]) -> None:
    policy = order.policy
    # Chat answers do not tell how often a provider-run tool was used, so its fee could not be known.
    allowed = frozenset[str]() if family is Family.OPENAI_CHAT else policy.provider_tools
    denied = [tool.kind for tool in facts.provider_tools if tool.kind not in allowed]
    if denied:
        raise RefusedError(
            Refusal.PROVIDER_TOOL_DENIED,
            f"{', '.join(sorted(set(denied)))} would be run by the provider, outside of this try's network "
            "policy; switch it off in the agent",
        )
    if facts.remote_urls and not policy.remote_urls:
        raise RefusedError(
            Refusal.REMOTE_URL_DENIED,
            f"the provider would fetch {facts.remote_urls[0]}, outside of this try's network policy; "
            "send media inline",
        )
    if facts.stored is not None:
        raise RefusedError(
            Refusal.STORED_INPUT_DENIED,
            f"{facts.stored} refers to something kept at the provider; send the whole conversation",
        )
    refused = sorted(policy.denied_betas.intersection((*betas, *facts.betas)))
    if refused:
        raise RefusedError(Refusal.BETA_DENIED, f"the conditions exclude the beta {', '.join(refused)}")


@dataclass(frozen=True)
class _Bounds:
    """What a call can use at most, but for its output; `uses` are calls of provider-run tools by kind."""

    input_tokens: int
    cache_ttls: frozenset[str]
    calls: Mapping[str, int]
    at: datetime
    audio: bool


def _bounds(asked: Asked, history: History) -> _Bounds:
    facts, family = asked.facts, asked.route.family
    uses = {tool.kind: TOOL_USES if tool.max_uses is None else tool.max_uses for tool in facts.provider_tools}
    tokens = history.bound(family, asked.pin.model, asked.body, facts, len(asked.raw))
    tokens += OVERHEAD_TOKENS + sum(uses.values()) * TOOL_INPUT_TOKENS
    tokens += (facts.media_parts - facts.long_media) * IMAGE_TOKENS + bool(facts.long_media) * CONTEXT_TOKENS
    automatic = _AUTOMATIC_WRITES if family in OPENAI_FAMILIES else frozenset[str]()
    audio = asked.price.standard.audio_input is not None and _may_sound(asked.raw)
    return _Bounds(tokens, facts.cache_ttls | automatic, uses, asked.at, audio)


def _may_sound(raw: bytes) -> bool:
    text = raw.lower()
    return any(sign in text for sign in _AUDIO_SIGNS)


def _held(asked: Asked, history: History, budget: Budget) -> Admission:
    """Price the worst case of the call; raises `cap_reached` when it does not fit."""
    bounds, facts, price = _bounds(asked, history), asked.facts, asked.price
    limit, injected = facts.output_limit, False
    if asked.route.family is Family.OPENAI_EMBEDDINGS:
        limit = 0
    elif not limit:  # 0 too, which some providers take for no limit
        limit, injected = _affordable(asked, bounds, budget), True
    worst = limit
    if asked.pin.provider in REASONING_OUTSIDE and limit:
        worst = max(limit, price.max_output_tokens or UNKNOWN_MAXIMUM)
    held = hold(price, output_tokens=worst * facts.choices, **vars(bounds))
    if not budget.fits(held.nusd):
        raise RefusedError(Refusal.CAP_REACHED, _no_room(budget, held.nusd))
    new = rewritten(
        asked.route.family,
        asked.body,
        facts,
        output_limit=limit if injected else None,
        max_uses=bounds.calls,
        chat_limit_field=asked.provider.chat_limit_field,
    )
    return Admission(
        route=asked.route,
        pin=asked.pin,
        provider=asked.provider,
        price=price,
        facts=facts,
        body=asked.body,
        sent=asked.raw if new is None else _encoded(new),
        at=asked.at,
        changed=new is not None,
        hides_usage=hides_usage_chunk(asked.route.family, asked.body, facts),
        held=held,
        input_bound=bounds.input_tokens,
        output_limit=limit,
        injected={"output": limit} if injected else {},
    )


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _affordable(asked: Asked, bounds: _Bounds, budget: Budget) -> int:
    """The largest output maximum that the remaining money pays for; `cap_reached` if that is too little."""
    most = asked.price.max_output_tokens or UNKNOWN_MAXIMUM
    left = budget.left_nusd()
    if left is None:
        return most
    choices, least = asked.facts.choices, max(LEAST_OUTPUT, asked.facts.least_output)
    # Priced first, so that a model without an output price is refused as that and not for money.
    if not budget.fits(hold(asked.price, output_tokens=least * choices, **vars(bounds)).nusd):
        raise RefusedError(Refusal.CAP_REACHED, _no_room(budget, None))
    return min(most, affordable_output(asked.price, budget_nusd=left, choices=choices, **vars(bounds)))


def _no_room(budget: Budget, wanted_nusd: int | None) -> str:
    cap, left = budget.cap_nusd or 0, budget.left_nusd() or 0
    asked = "" if wanted_nusd is None else f"; this call could cost {wanted_nusd} nano-USD"
    return (
        f"the spend cap of this try ({cap} nano-USD) has {left} nano-USD left "
        f"({budget.held_nusd} held by open calls){asked}"
    )
