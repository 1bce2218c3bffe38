"""What a call holds and which limits it is given (reference/relay.md section 2, hold and bounds)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.prices.buckets import Buckets
from orchestrator.prices.cost import cost
from workers.relay.admission import (
    CONTEXT_TOKENS,
    IMAGE_TOKENS,
    LEAST_OUTPUT,
    OVERHEAD_TOKENS,
    TOOL_INPUT_TOKENS,
    TOOL_USES,
    UNKNOWN_MAXIMUM,
)
from workers.relay.config import Policy
from workers.relay.wire.family import Family

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
HELLO = [{"role": "user", "content": "hello"}]
Desks = Callable[..., Any]


def raw_of(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def chat(**changes: Any) -> dict[str, Any]:
    return {"model": "plain", "messages": HELLO, **changes}


def claude(**changes: Any) -> dict[str, Any]:
    return {"model": "claude", "max_tokens": 100, "messages": HELLO, **changes}


def test_a_hold_is_bytes_at_the_input_rate_and_the_maximum_at_the_output_rate(desk: Desks) -> None:
    """A token covers at least one byte; what a provider adds around it has an allowance."""
    body = chat(max_tokens=50)
    held = desk().asks(CHAT, body)
    assert held.input_bound == len(raw_of(body)) + OVERHEAD_TOKENS
    assert held.held.nusd == held.input_bound * 2 + 50 * 8


@pytest.mark.parametrize(("family", "field", "choices"), [(CHAT, "n", 3), (GOOGLE, "candidateCount", 4)])
def test_every_choice_may_use_the_whole_maximum(
    desk: Desks, family: Family, field: str, choices: int
) -> None:
    """The maximum is per choice, so the hold is choices times it."""
    if family is CHAT:
        one, many = chat(max_tokens=50, n=1), chat(max_tokens=50, n=choices)
        difference = 50 * 8 * (choices - 1)
    else:
        one = {"contents": [], "generationConfig": {"maxOutputTokens": 50, field: 1}}
        many = {"contents": [], "generationConfig": {"maxOutputTokens": 50, field: choices}}
        difference = 50 * 10 * (choices - 1)
    model = "gem" if family is GOOGLE else None
    lane = desk()
    less, more = (lane.asks(family, body, model=model).held.nusd for body in (one, many))
    assert more - less == difference


def test_without_a_maximum_the_models_own_is_injected(desk: Desks) -> None:
    """It goes to the provider too, so that the hold is a true bound (section 1.1: LiteLLM's does not)."""
    admitted = desk().asks(CHAT, chat())
    assert json.loads(admitted.sent)["max_completion_tokens"] == 4096
    assert (admitted.output_limit, admitted.injected) == (4096, {"output": 4096})


def test_a_model_without_a_known_maximum_gets_a_common_one(desk: Desks) -> None:
    """Where the sheet knows none."""
    assert desk().asks(CHAT, chat(model="open-ended")).output_limit == UNKNOWN_MAXIMUM
    assert desk(cap_nusd=None).asks(CHAT, chat(model="open-ended")).output_limit == UNKNOWN_MAXIMUM


def test_the_injected_maximum_is_the_largest_that_the_money_pays_for(desk: Desks) -> None:
    """One token more would not fit; the hold is at most what is left."""
    cap = 1_200 + 8 * 100 + 5
    lane = desk(cap_nusd=cap)
    admitted = lane.asks(CHAT, chat())
    assert admitted.held.nusd <= cap < admitted.held.nusd + 8
    assert json.loads(admitted.sent)["max_completion_tokens"] == admitted.output_limit < 4096


@given(cap=st.integers(1, 40_000), choices=st.integers(1, 5))
def test_an_admitted_call_always_fits_and_a_refused_one_never_would(
    desk: Desks, cap: int, choices: int
) -> None:
    """For every cap: either the largest maximum that fits is given, or not even the least one fits."""
    lane = desk(cap_nusd=cap)
    body = chat(n=choices)
    least = (len(raw_of(body)) + OVERHEAD_TOKENS) * 2 + LEAST_OUTPUT * choices * 8
    if cap < least:
        assert lane.refuses(CHAT, body) == "cap_reached"
        return
    admitted = lane.asks(CHAT, body)
    assert admitted.held.nusd <= cap
    assert admitted.output_limit == 4096 or admitted.held.nusd + choices * 8 > cap


def test_an_injected_maximum_below_the_least_useful_one_is_a_refusal(desk: Desks) -> None:
    """It would buy an empty answer; a client that asks for so little itself gets it."""
    body = chat()
    base = (len(raw_of(body)) + OVERHEAD_TOKENS) * 2
    assert desk(cap_nusd=base + 8 * (LEAST_OUTPUT - 1)).refuses(CHAT, body) == "cap_reached"
    assert desk(cap_nusd=base + 8 * LEAST_OUTPUT).asks(CHAT, body).output_limit == LEAST_OUTPUT
    assert desk(cap_nusd=base + 500).asks(CHAT, chat(max_tokens=1)).output_limit == 1


def test_an_injected_maximum_is_above_the_thinking_budget_or_refused(desk: Desks) -> None:
    """Anthropic refuses a maximum that is not above `budget_tokens`."""
    body = {
        "model": "claude",
        "messages": HELLO,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    base = (len(raw_of(body)) + OVERHEAD_TOKENS) * 3
    assert desk(cap_nusd=base + 15 * 2000).refuses(ANTHROPIC, body) == "cap_reached"
    assert desk(cap_nusd=base + 15 * 2001).asks(ANTHROPIC, body).output_limit == 2001


def test_a_maximum_of_the_clients_own_is_never_lowered(desk: Desks) -> None:
    """A call that does not fit is refused: the agent's parameters are its own."""
    lane = desk(cap_nusd=1000)
    assert lane.refuses(CHAT, chat(max_tokens=1_000_000)) == "cap_reached"
    assert "1000 nano-USD" in lane.said(CHAT, chat(max_tokens=1_000_000))


def test_a_cap_of_zero_refuses_with_and_without_a_maximum(desk: Desks) -> None:
    """A cap of zero means zero, even for a call of no cost."""
    for body in (chat(), chat(max_tokens=1)):
        assert desk(cap_nusd=0).refuses(CHAT, body) == "cap_reached"
    assert desk(cap_nusd=0).refuses(EMBEDDINGS, {"model": "vectors", "input": ""}) == "cap_reached"


def test_without_a_cap_the_hold_is_still_counted(desk: Desks) -> None:
    """What is open is shown, whether or not it is limited."""
    lane = desk(cap_nusd=None)
    lane.holds(lane.asks(CHAT, chat(max_tokens=10**6)))
    assert lane.budget.held_nusd > 8 * 10**6


def test_room_for_one_admits_one_and_its_end_makes_room_again(desk: Desks) -> None:
    """What is held by an open call is not there for the next (report 4)."""
    body = chat(max_tokens=50)
    lane = desk(cap_nusd=(len(raw_of(body)) + OVERHEAD_TOKENS) * 2 + 50 * 8 + 10)
    call = lane.holds(lane.asks(CHAT, body))
    assert lane.refuses(CHAT, body) == "cap_reached"
    lane.settles(call, 10)
    assert lane.asks(CHAT, body).held is not None


@pytest.mark.parametrize(("ttl", "rate", "name"), [("5m", 4, "cache_write_5m"), ("1h", 6, "cache_write_1h")])
def test_a_cache_breakpoint_is_held_at_its_write_rate(desk: Desks, ttl: str, rate: int, name: str) -> None:
    """Writes are dearer than plain input, by the lifetime asked for."""
    content = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}}]
    admitted = desk().asks(ANTHROPIC, claude(messages=[{"role": "user", "content": content}]))
    assert admitted.held.input_rate == name
    assert admitted.held.nusd == admitted.input_bound * rate + 100 * 15


def test_no_breakpoint_is_held_at_the_plain_rate(desk: Desks) -> None:
    """Anthropic writes only where it is asked to."""
    assert desk().asks(ANTHROPIC, claude()).held.input_rate == "input"


def test_openai_families_write_to_the_cache_without_being_asked(desk: Desks) -> None:
    """A model with a write price is held at it."""
    assert desk().asks(CHAT, chat(model="writing", max_tokens=5)).held.input_rate == "cache_write_5m"


def test_input_that_can_reach_the_long_context_tier_is_held_at_its_rates(desk: Desks) -> None:
    """Input and output are both dearer there."""
    lane = desk()
    config = {"generationConfig": {"maxOutputTokens": 10}}
    short = lane.asks(GOOGLE, {"contents": [], **config}, model="gem")
    assert short.held.nusd == short.input_bound * 2 + 10 * 10
    long = lane.asks(GOOGLE, {"contents": [{"parts": [{"text": "x" * 1000}]}], **config}, model="gem")
    assert long.held.nusd == long.input_bound * 4 + 10 * 20


def test_media_costs_more_than_its_bytes(desk: Desks) -> None:
    """An image of few bytes can be thousands of tokens."""
    url = "data:image/png;base64,AAAA"
    part = {"type": "image_url", "image_url": {"url": url}}
    body = chat(max_tokens=5, messages=[{"role": "user", "content": [part, part]}])
    assert desk().asks(CHAT, body).input_bound == len(raw_of(body)) + OVERHEAD_TOKENS + 2 * IMAGE_TOKENS


def test_a_document_is_held_as_a_whole_context(desk: Desks) -> None:
    """It packs its text, silence costs as sound: bytes bound neither. One context bounds them together."""
    paper = {"type": "document", "source": {"type": "base64", "data": "AAAA"}}
    picture = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    for parts, more in (([paper], 0), ([paper, paper], 0), ([paper, picture], IMAGE_TOKENS)):
        body = claude(messages=[{"role": "user", "content": parts}])
        held = desk(cap_nusd=None).asks(ANTHROPIC, body)
        assert held.input_bound == len(raw_of(body)) + OVERHEAD_TOKENS + CONTEXT_TOKENS + more


@pytest.mark.parametrize(("given_uses", "uses"), [(None, TOOL_USES), (3, 3), (0, 0)])
def test_an_allowed_tool_is_held_with_its_fee_and_its_results(
    desk: Desks, given_uses: int | None, uses: int
) -> None:
    """Each use costs a fee and brings input; a tool without a limit is given one."""
    tool = {"type": "web_search_20250305", "name": "web_search"}
    if given_uses is not None:
        tool["max_uses"] = given_uses  # type: ignore[assignment]
    body = claude(tools=[tool])
    admitted = desk(policy=Policy(frozenset({"web_search"}))).asks(ANTHROPIC, body)
    assert admitted.input_bound == len(raw_of(body)) + OVERHEAD_TOKENS + uses * TOOL_INPUT_TOKENS
    assert admitted.held.nusd == admitted.input_bound * 3 + 100 * 15 + uses * 10_000
    assert json.loads(admitted.sent)["tools"][0]["max_uses"] == uses


@pytest.mark.parametrize(
    "asked",
    [
        {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA"}}]}]},
        {"modalities": ["TEXT", "AUDIO"]},
    ],
)
def test_a_call_that_may_carry_sound_is_held_at_the_rates_of_sound(
    desk: Desks, asked: dict[str, Any]
) -> None:
    """In and out, whatever the case of the words."""
    admitted = desk().asks(CHAT, chat(model="sound", max_tokens=10, **asked))
    assert admitted.held.input_rate == "audio_input"
    assert admitted.held.nusd == admitted.input_bound * 40 + 10 * 80


def test_an_escaped_word_for_sound_is_still_held_as_sound(desk: Desks) -> None:
    """JSON can write any letter as an escape; the provider reads the letter."""
    raw = raw_of(chat(model="sound", max_tokens=10, modalities=["SOUND"])).replace(
        b"SOUND", b"\\u0061\\u0075dio"
    )
    assert desk().asks(CHAT, raw).held.input_rate == "audio_input"


def test_a_text_call_of_a_model_with_sound_is_held_at_the_rates_of_text(desk: Desks) -> None:
    """Otherwise no text call would ever fit."""
    assert desk().asks(CHAT, chat(model="sound", max_tokens=10)).held.input_rate == "input"


def test_where_the_maximum_does_not_bound_reasoning_the_models_own_is_held(desk: Desks) -> None:
    """xAI's reasoning lies outside of the maximum (section 3); the request is not changed for it."""
    body = chat(model="grok", max_tokens=5)
    admitted = desk().asks(CHAT, body)
    assert admitted.held.nusd == admitted.input_bound * 2 + 4096 * 8
    assert (admitted.output_limit, admitted.changed) == (5, False)


def test_reasoning_of_a_model_without_a_known_maximum_is_held_at_the_common_one(desk: Desks) -> None:
    """An unknown maximum is no reason to hold five tokens."""
    admitted = desk().asks(CHAT, chat(model="grok-open", max_tokens=5))
    assert admitted.held.nusd == admitted.input_bound * 2 + UNKNOWN_MAXIMUM * 8


def test_embeddings_hold_their_input_alone_and_are_not_changed(desk: Desks) -> None:
    """They have no output, and their model needs no price for it."""
    body = {"model": "vectors", "input": ["some", "text"]}
    admitted = desk().asks(EMBEDDINGS, body)
    assert admitted.held.nusd == (len(raw_of(body)) + OVERHEAD_TOKENS) * 2
    assert (admitted.output_limit, admitted.changed, admitted.injected) == (0, False, {})


@pytest.mark.parametrize(("model", "field"), [("plain", "max_completion_tokens"), ("grok", "max_tokens")])
def test_the_injected_maximum_has_the_name_that_its_provider_reads(
    desk: Desks, model: str, field: str
) -> None:
    """Compatible providers differ in it."""
    sent = json.loads(desk().asks(CHAT, chat(model=model)).sent)
    assert field in sent


@given(
    text=st.text(max_size=200),
    limit=st.integers(1, 4096),
    spent=st.tuples(st.integers(0, 10_000), st.integers(0, 4096)),
)
def test_an_answer_within_its_bounds_never_costs_more_than_its_hold(
    desk: Desks, text: str, limit: int, spent: tuple[int, int]
) -> None:
    """The premise of the cap: bounds in, maximum out, and the price is at most the hold."""
    lane = desk()
    admitted = lane.asks(CHAT, chat(max_tokens=limit, messages=[{"role": "user", "content": text}]))
    used = Buckets(input=min(spent[0], admitted.input_bound), output=min(spent[1], limit))
    assert cost(lane.price("plain"), used, lane.at).list_nusd <= admitted.held.nusd
