"""The tightened input bound of a growing conversation (reference/relay.md section 2, input bound)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.history import History
from workers.relay.wire.family import Family
from workers.relay.wire.request import inspect

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
LISTS = {CHAT: "messages", RESPONSES: "input", ANTHROPIC: "messages", GOOGLE: "contents"}
PER_MESSAGE = 16
Desks = Callable[..., Any]
BASE: dict[str, Any] = {"model": "m", "tools": [{"name": "t"}], "system": "be brief", "temperature": 1}


def message(family: Family, text: str) -> dict[str, Any]:
    if family is GOOGLE:
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def size(body: dict[str, Any]) -> int:
    """Bytes of a request as its client spells it."""
    return len(json.dumps(body, separators=(",", ":")).encode())


def bound(history: History, family: Family, body: dict[str, Any], model: str = "m", more: int = 0) -> int:
    return history.bound(family, model, body, inspect(family, body), size(body) + more)


def noted(family: Family, body: dict[str, Any], tokens: int) -> History:
    history = History()
    facts = inspect(family, body)
    history.note(family, "m", body, facts, input_tokens=tokens, sent_bytes=size(body))
    return history


def base(family: Family) -> dict[str, Any]:
    """What stands around the list: Gemini's names differ."""
    return {"systemInstruction": {"parts": [{"text": "be brief"}]}} if family is GOOGLE else dict(BASE)


@pytest.mark.parametrize("family", LISTS)
def test_a_grown_conversation_is_bound_by_the_count_before_and_its_new_bytes(family: Family) -> None:
    """The provider has counted the old part; a byte of the new one holds at most one token."""
    old, new = message(family, "x" * 500), message(family, "y" * 10)
    first = {**base(family), LISTS[family]: [old]}
    grown = {**base(family), LISTS[family]: [old, new]}
    fresh = len(json.dumps([new], separators=(",", ":")))
    assert bound(noted(family, first, 130), family, grown) == 130 + fresh + PER_MESSAGE


@pytest.mark.parametrize("family", LISTS)
def test_the_first_call_is_bound_by_its_bytes(family: Family) -> None:
    """Nothing is known yet."""
    body = {**base(family), LISTS[family]: [message(family, "x")]}
    assert bound(History(), family, body) == size(body)


@pytest.mark.parametrize("family", LISTS)
def test_the_same_request_again_is_bound_by_its_own_count(family: Family) -> None:
    """A retry adds nothing."""
    body = {**base(family), LISTS[family]: [message(family, "x" * 300)]}
    assert bound(noted(family, body, 77), family, body) == 77 + len("[]")


@pytest.mark.parametrize(
    "change",
    [
        {"tools": [{"name": "t"}, {"name": "another"}]},
        {"tools": []},
        {"system": "be long"},
        {"temperature": 0},
        {"response_format": {"type": "json_schema"}},
    ],
)
def test_any_change_beside_the_list_falls_back_to_the_bytes(change: dict[str, Any]) -> None:
    """What the provider makes of tools, system text or settings is not known."""
    old = message(CHAT, "x" * 500)
    history = noted(CHAT, {**BASE, "messages": [old]}, 130)
    body = {**BASE, **change, "messages": [old, message(CHAT, "y")]}
    assert bound(history, CHAT, body) == size(body)


@pytest.mark.parametrize("name", list(BASE))
def test_a_missing_field_beside_the_list_falls_back_to_the_bytes(name: str) -> None:
    """Leaving out is a change too."""
    old = message(CHAT, "x" * 500)
    history = noted(CHAT, {**BASE, "messages": [old]}, 130)
    body = {key: value for key, value in BASE.items() if key != name} | {"messages": [old]}
    assert bound(history, CHAT, body) == size(body)


def test_a_history_that_was_edited_or_cut_falls_back_to_the_bytes() -> None:
    """Only growth at the end is growth."""
    one, two = message(CHAT, "x" * 500), message(CHAT, "z" * 400)
    history = noted(CHAT, {**BASE, "messages": [one, two]}, 300)
    edited: list[list[dict[str, Any]]] = [
        [one],
        [two, one],
        [two],
        [message(CHAT, "x" * 499), two, one],
        [message(CHAT, "new"), one, two],
    ]
    for messages in edited:
        body = {**BASE, "messages": messages}
        assert bound(history, CHAT, body) == size(body)


def test_models_and_families_have_histories_of_their_own() -> None:
    """Each tokenizer counts for itself."""
    body = {**BASE, "messages": [message(CHAT, "x" * 500)]}
    history = noted(CHAT, body, 130)
    assert bound(history, CHAT, body, "other") == size(body)
    assert bound(history, ANTHROPIC, body) == size(body)


def test_embeddings_have_no_history() -> None:
    """Their input is a list of texts, not a conversation."""
    body = {"model": "m", "input": ["x" * 100]}
    assert bound(noted(EMBEDDINGS, body, 3), EMBEDDINGS, body) == size(body)


@given(
    st.lists(st.text(max_size=40), max_size=4),
    st.lists(st.text(max_size=40), max_size=4),
    st.integers(0, 10**6),
)
def test_the_bound_is_never_above_the_bytes(old: list[str], new: list[str], tokens: int) -> None:
    """However much the provider once counted."""
    messages = [message(CHAT, text) for text in old]
    history = noted(CHAT, {**BASE, "messages": messages}, tokens)
    body = {**BASE, "messages": [*messages, *(message(CHAT, text) for text in new)]}
    assert 0 <= bound(history, CHAT, body) <= size(body)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=4), st.lists(st.text(max_size=60), max_size=4))
def test_the_bound_covers_a_tokenizer_of_one_token_a_byte(old: list[str], new: list[str]) -> None:
    """The worst tokenizer there can be is still bounded, for what it counted before was its own count."""

    def count(body: dict[str, Any]) -> int:
        return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())

    messages = [message(CHAT, text) for text in old]
    first = {**BASE, "messages": messages}
    grown = {**BASE, "messages": [*messages, *(message(CHAT, text) for text in new)]}
    assert bound(noted(CHAT, first, count(first)), CHAT, grown) >= count(grown) - 1


def test_old_messages_that_are_spelled_longer_count_in_full() -> None:
    """1 and 1.000 are equal values; a provider may read the longer spelling token by token."""
    old = {"role": "assistant", "content": "x", "extra": 1}
    body = {**BASE, "messages": [old]}
    history = noted(CHAT, body, 40)
    assert bound(history, CHAT, body, more=5_000) == 40 + 5_000


def test_admission_uses_the_tightened_bound(desk: Desks) -> None:
    """A second turn holds less than its bytes."""
    lane = desk()
    body = {"model": "plain", "max_tokens": 5, "messages": [message(CHAT, "x" * 4000)]}
    first = lane.asks(CHAT, body)
    sent = len(first.sent)
    lane.history.note(CHAT, "plain", first.body, first.facts, input_tokens=1000, sent_bytes=sent)
    grown = {**body, "messages": [*body["messages"], message(CHAT, "y")]}  # type: ignore[misc]
    assert lane.asks(CHAT, grown).held.nusd < first.held.nusd
