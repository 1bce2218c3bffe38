"""Who may call what: the order of the rules, pins, prices and policy (reference/relay.md section 2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from workers.relay.config import Policy
from workers.relay.routes import Purpose
from workers.relay.wire.family import Family

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
HELLO = [{"role": "user", "content": "hello"}]
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FAR = {"type": "image", "source": {"type": "url", "url": "https://attacker.example/x.png"}}
Desks = Callable[..., Any]


def claude(**changes: Any) -> dict[str, Any]:
    return {"model": "claude", "max_tokens": 100, "messages": HELLO, **changes}


def test_the_rules_are_asked_in_their_order(desk: Desks) -> None:
    """Body, pin, price, policy, steps, money: each request breaks one rule less than the one before."""
    lane = desk(cap_nusd=0, step_limit=0, also_pinned={"unknown": "anthropic"})
    policy = {"tools": [SEARCH]}
    found = [
        lane.refuses(ANTHROPIC, b'{"model": 1'),
        lane.refuses(ANTHROPIC, claude(model="stranger", **policy)),
        lane.refuses(ANTHROPIC, claude(model="unknown", **policy)),
        lane.refuses(ANTHROPIC, claude(**policy)),
        lane.refuses(ANTHROPIC, claude()),
    ]
    lane.budget.step_limit = None
    found.append(lane.refuses(ANTHROPIC, claude()))
    assert found == [
        "invalid_request",
        "model_not_pinned",
        "unpriced_model",
        "provider_tool_denied",
        "step_limit",
        "cap_reached",
    ]


def test_a_refused_request_holds_nothing(desk: Desks) -> None:
    """Only a call that starts holds money and counts as a step."""
    lane = desk(cap_nusd=1)
    assert lane.refuses(ANTHROPIC, claude()) == "cap_reached"
    lane.refuses(CHAT, {"model": "stranger"})
    assert (lane.budget.held_nusd, lane.budget.spent_nusd, lane.budget.steps) == (0, 0, 0)


def test_asking_alone_holds_nothing(desk: Desks) -> None:
    """The caller holds, in the same turn of its loop."""
    lane = desk()
    lane.asks(ANTHROPIC, claude())
    assert lane.budget.held_nusd == 0


@pytest.mark.parametrize(
    "model", ["PLAIN", "plain ", "plain-2026-01-01", "openai/plain", "plai", "plain\x00", "", "*"]
)
def test_a_model_is_known_by_its_exact_name_only(desk: Desks, model: str) -> None:
    """Prefixes, case and invented snapshots are other models (report 7)."""
    assert desk().refuses(CHAT, {"model": model, "messages": HELLO}) == "model_not_pinned"


def test_the_refusal_of_a_model_names_those_that_are_allowed(desk: Desks) -> None:
    """The agent reads it and can do better."""
    said = desk().said(CHAT, {"model": "gpt-99", "messages": HELLO})
    assert "gpt-99" in said
    assert "plain" in said


def test_a_request_without_a_model_is_no_request(desk: Desks) -> None:
    """Nothing is guessed."""
    assert desk().refuses(CHAT, {"messages": HELLO}) == "invalid_request"


@pytest.mark.parametrize("named", [None, "gem", "models/gem"])
def test_the_path_names_a_gemini_model_and_the_body_may_agree(desk: Desks, named: str | None) -> None:
    """Both spellings of the same name are the same name."""
    body = {"contents": [], **({} if named is None else {"model": named})}
    assert desk().asks(GOOGLE, body, model="gem").pin.model == "gem"


@pytest.mark.parametrize("named", ["claude", "models/claude", "", 1, ["gem"], {"a": 1}])
def test_a_body_that_names_another_model_than_the_path_is_refused(desk: Desks, named: Any) -> None:
    """Which of the two the provider would obey is not ours to guess."""
    assert desk().refuses(GOOGLE, {"contents": [], "model": named}, model="gem") == "invalid_request"


@pytest.mark.parametrize(("family", "model"), [(ANTHROPIC, "plain"), (CHAT, "claude"), (RESPONSES, "gem")])
def test_a_provider_is_asked_in_its_own_formats_only(desk: Desks, family: Family, model: str) -> None:
    """The body of one family at another's address would be read with other rules."""
    assert desk().refuses(family, {"model": model, "messages": HELLO}) == "route_not_allowed"


def test_a_pin_without_its_provider_is_refused(desk: Desks) -> None:
    """A pin of a provider that this relay was not given."""
    lane = desk(also_pinned={"lonely": "nobody"})
    assert lane.refuses(CHAT, {"model": "lonely", "messages": HELLO}) == "route_not_allowed"


def test_a_model_is_unpriced_from_the_day_its_price_ends(desk: Desks) -> None:
    """A date outside of every validity range is no price (section 4)."""
    assert desk().refuses(CHAT, {"model": "retired", "messages": HELLO}) == "unpriced_model"


@pytest.mark.parametrize("model", ["inputless", "vectors"])
def test_a_call_whose_dimension_has_no_rate_is_unpriced(desk: Desks, model: str) -> None:
    """A model with an input or output price missing is never free (report 7)."""
    assert desk().refuses(CHAT, {"model": model, "messages": HELLO}) == "unpriced_model"


def test_a_provider_run_tool_is_allowed_by_its_kind(desk: Desks) -> None:
    """The policy is an allow-list; dates in a tool's name do not matter."""
    allowed = desk(policy=Policy(provider_tools=frozenset({"web_search"})))
    assert allowed.asks(ANTHROPIC, claude(tools=[SEARCH])).held is not None
    code = {"type": "code_execution_20250522", "name": "code_execution"}
    assert allowed.refuses(ANTHROPIC, claude(tools=[SEARCH, code])) == "provider_tool_denied"
    assert desk().refuses(ANTHROPIC, claude(tools=[SEARCH])) == "provider_tool_denied"


def test_a_chat_call_runs_no_provider_tool_even_where_its_kind_is_allowed(desk: Desks) -> None:
    """A chat answer does not tell how often the tool ran, so its fee could not be known."""
    lane = desk(policy=Policy(provider_tools=frozenset({"web_search"})))
    body = {"model": "plain", "messages": HELLO, "web_search_options": {}}
    assert lane.refuses(CHAT, body) == "provider_tool_denied"


def test_an_allowed_tool_without_a_fee_in_the_sheet_is_unpriced(desk: Desks) -> None:
    """Permission does not make it free."""
    lane = desk(policy=Policy(provider_tools=frozenset({"code_execution"})))
    code = {"type": "code_execution_20250522", "name": "code_execution"}
    assert lane.refuses(ANTHROPIC, claude(tools=[code])) == "unpriced_model"


def test_remote_urls_are_refused_unless_the_policy_has_them(desk: Desks) -> None:
    """The provider would fetch them, outside of network policy `none`."""
    body = claude(messages=[{"role": "user", "content": [FAR]}])
    assert desk().refuses(ANTHROPIC, body) == "remote_url_denied"
    assert desk(policy=Policy(remote_urls=True)).asks(ANTHROPIC, body).held is not None


def test_what_is_kept_at_the_provider_is_refused_whatever_the_policy(desk: Desks) -> None:
    """Its size is not in the request, so no hold would cover it."""
    lane = desk(policy=Policy(frozenset({"web_search"}), True))
    body = {"model": "plain", "input": "on", "previous_response_id": "resp_1"}
    assert lane.refuses(RESPONSES, body) == "stored_input_denied"
    assert lane.refuses(RESPONSES, {"model": "plain", "input": "on", "background": True}) == (
        "stored_input_denied"
    )


def test_a_denied_beta_is_refused_in_the_header_and_in_the_body(desk: Desks) -> None:
    """Some clients name their betas in the body."""
    lane = desk(policy=Policy(denied_betas=frozenset({"context-1m"})))
    assert lane.refuses(ANTHROPIC, claude(), betas=("other", "context-1m")) == "beta_denied"
    assert lane.refuses(ANTHROPIC, claude(anthropic_beta=["context-1m"])) == "beta_denied"
    assert lane.asks(ANTHROPIC, claude(anthropic_beta=["other"]), betas=("other",)).held is not None


def test_a_token_count_is_free_but_obeys_pin_and_policy(desk: Desks) -> None:
    """It holds nothing and passes at a cap of zero and after the last step; it is still no way out."""
    lane = desk(cap_nusd=0, step_limit=0)
    counted = lane.asks(ANTHROPIC, claude(), purpose=Purpose.COUNT)
    assert counted.held is None
    assert not counted.changed
    assert lane.refuses(ANTHROPIC, claude(model="gpt-99"), purpose=Purpose.COUNT) == "model_not_pinned"
    assert lane.refuses(ANTHROPIC, claude(tools=[SEARCH]), purpose=Purpose.COUNT) == "provider_tool_denied"


def test_a_request_that_needs_no_change_goes_on_byte_for_byte(desk: Desks) -> None:
    """White space and the order of keys stay as the client wrote them."""
    raw = b'{"messages": [ ],\n "max_tokens":5 , "model":"claude"}'
    admitted = desk().asks(ANTHROPIC, raw)
    assert (admitted.sent, admitted.changed) == (raw, False)


def test_a_changed_request_is_the_same_document_but_for_the_change(desk: Desks) -> None:
    """The injected maximum is all that is new."""
    body = {"model": "plain", "messages": [{"role": "user", "content": "käse\u2028\U0001f9c0"}]}
    admitted = desk().asks(CHAT, json.dumps(body).encode())
    sent = json.loads(admitted.sent)
    assert sent.pop("max_completion_tokens") == 4096
    assert sent == body


def test_the_step_limit_is_named_in_its_refusal(desk: Desks) -> None:
    """Reached is the limit of this try, which the message tells."""
    lane = desk(step_limit=1)
    lane.holds(lane.asks(ANTHROPIC, claude()))
    assert "(1 model calls)" in lane.said(ANTHROPIC, claude())
