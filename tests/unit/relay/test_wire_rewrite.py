"""The changes that the relay makes to a request, and that it makes no others."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.wire.family import Family
from workers.relay.wire.request import hides_usage_chunk, inspect, rewritten

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE


def sent(
    family: Family,
    body: dict[str, Any],
    output_limit: int | None = None,
    max_uses: dict[str, int] | None = None,
    chat_limit_field: str = "max_completion_tokens",
) -> dict[str, Any] | None:
    """What goes on; checks that the client's own body stays as it was."""
    before = copy.deepcopy(body)
    found = rewritten(
        family,
        body,
        inspect(family, body),
        output_limit=output_limit,
        max_uses=max_uses or {},
        chat_limit_field=chat_limit_field,
    )
    assert json.dumps(body) == json.dumps(before)
    return found


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (CHAT, {"model": "m", "max_tokens": 5, "messages": [], "store": False, "service_tier": "default"}),
        (CHAT, {"model": "m", "stream": True, "stream_options": {"include_usage": True}}),
        (CHAT, {"model": "m", "stream_options": {"include_usage": False}}),
        (CHAT, {"model": "m", "store": None, "service_tier": None, "metadata": {"api_key": "mine"}}),
        (RESPONSES, {"model": "m", "store": False, "stream": True}),
        (ANTHROPIC, {"model": "m", "stream": True, "context_management": {"edits": []}, "store": True}),
        (ANTHROPIC, {"model": "m", "service_tier": "standard_only", "inference_geo": "global"}),
        (GOOGLE, {"contents": [], "store": True}),
        (EMBEDDINGS, {"model": "m", "input": "x"}),
    ],
)
def test_a_request_that_needs_nothing_goes_unchanged(family: Family, body: dict[str, Any]) -> None:
    """None stands for the client's own bytes."""
    assert sent(family, body) is None


def test_steering_fields_are_dropped_and_the_rest_keeps_its_order() -> None:
    """Address, key, headers, fallbacks and cloud credentials at the top level; never deeper."""
    steering = [
        *("api_base", "api_key", "base_url", "api_version", "api_type", "organization", "azure_ad_token"),
        *("custom_llm_provider", "extra_headers", "extra_body", "extra_query", "model_list", "models"),
        *("fallbacks", "route", "user_config", "vertex_project", "aws_access_key_id"),
    ]
    body = {"z": 1, **dict.fromkeys(steering, "x"), "model": "m", "metadata": {"api_base": "x"}, "a": 2}
    found = sent(CHAT, body)
    assert found is not None
    assert list(found.items()) == [("z", 1), ("model", "m"), ("metadata", {"api_base": "x"}), ("a", 2)]


@pytest.mark.parametrize(
    ("family", "body", "found"),
    [
        (CHAT, {"model": "m"}, {"max_completion_tokens": 9}),
        (CHAT, {"max_tokens": 50}, {"max_tokens": 9}),
        (CHAT, {"max_tokens": None}, {"max_tokens": None, "max_completion_tokens": 9}),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 9, "max_completion_tokens": 9}),
        (RESPONSES, {"store": False}, {"max_output_tokens": 9}),
        (ANTHROPIC, {"max_tokens": 50}, {"max_tokens": 9}),
        (GOOGLE, {}, {"generationConfig": {"maxOutputTokens": 9}}),
        (GOOGLE, {"generationConfig": {"a": 1}}, {"generationConfig": {"a": 1, "maxOutputTokens": 9}}),
        (
            GOOGLE,
            {"generation_config": {"max_output_tokens": 50}},
            {"generation_config": {"max_output_tokens": 9}},
        ),
    ],
)
def test_the_output_limit_goes_into_the_family_s_own_field(
    family: Family, body: dict[str, Any], found: dict[str, Any]
) -> None:
    """In the spelling that is there already, so that no two limits contradict each other."""
    assert sent(family, body, output_limit=9) == {**body, **found}


def test_a_chat_provider_may_have_its_own_limit_field() -> None:
    """For a request that has none, or only one that it passes over; embeddings have no output to limit."""
    assert sent(CHAT, {}, output_limit=9, chat_limit_field="max_tokens") == {"max_tokens": 9}
    body = {"max_completion_tokens": 50}
    both = {"max_completion_tokens": 9, "max_tokens": 9}
    assert sent(CHAT, body, output_limit=9, chat_limit_field="max_tokens") == both
    assert sent(EMBEDDINGS, {"input": "x"}, output_limit=9) is None


@pytest.mark.parametrize(
    ("options", "hides"),
    [
        ({}, True),
        ({"stream_options": None}, True),
        ({"stream_options": {"include_usage": False}}, True),
        ({"stream_options": {"include_usage": 1}}, True),
        ({"stream_options": {"include_usage": True}}, False),
    ],
)
def test_a_chat_stream_always_asks_for_usage(options: dict[str, Any], hides: bool) -> None:
    """And the chunk is hidden exactly when the client did not ask for it."""
    body = {"model": "m", "stream": True, **options}
    assert hides_usage_chunk(CHAT, body, inspect(CHAT, body)) is hides
    found = sent(CHAT, body)
    assert found == ({**body, "stream_options": {"include_usage": True}} if hides else None)


def test_other_stream_options_are_kept() -> None:
    """Also a request that does not stream gets none, and no other family does."""
    body = {"stream": True, "stream_options": {"include_obfuscation": False}}
    found = sent(CHAT, body)
    assert found is not None
    assert found["stream_options"] == {"include_obfuscation": False, "include_usage": True}
    for family, other in ((CHAT, {"stream": False}), (ANTHROPIC, {"stream": True})):
        assert not hides_usage_chunk(family, other, inspect(family, other))
        assert sent(family, other) is None


@pytest.mark.parametrize(
    ("family", "body", "store"),
    [
        (CHAT, {"store": True}, False),
        (RESPONSES, {"store": True}, False),
        (RESPONSES, {"store": None}, False),
        (RESPONSES, {"model": "m"}, False),
    ],
)
def test_nothing_is_stored_at_the_provider(family: Family, body: dict[str, Any], store: bool) -> None:
    """Responses store when nothing is said, so that absence is not enough there."""
    assert sent(family, body) == {**body, "store": store}


@pytest.mark.parametrize(
    ("family", "body", "found"),
    [
        (CHAT, {"service_tier": "priority"}, {"service_tier": "default"}),
        (CHAT, {"service_tier": "auto"}, {"service_tier": "default"}),
        (RESPONSES, {"store": False, "service_tier": "flex"}, {"store": False, "service_tier": "default"}),
        (ANTHROPIC, {"service_tier": "auto"}, {"service_tier": "standard_only"}),
        (ANTHROPIC, {"speed": "fast", "inference_geo": "us", "a": 1}, {"a": 1}),
        (GOOGLE, {"serviceTier": "priority", "service_tier": "flex"}, {}),
    ],
)
def test_every_call_is_at_the_list_price(family: Family, body: dict[str, Any], found: dict[str, Any]) -> None:
    """Tiers, speeds and regions with another price go back to what the price sheet covers."""
    assert sent(family, body) == found


def test_provider_tools_get_a_use_limit() -> None:
    """Only allowed kinds without one of their own; client-run tools are left alone."""
    tools: list[dict[str, Any]] = [
        {"type": "web_search_20250305", "name": "s"},
        {"type": "web_search_20250305", "max_uses": 2},
        {"type": "web_fetch_20250910"},
        {"name": "web_search", "input_schema": {}},
    ]
    found = sent(ANTHROPIC, {"tools": tools, "model": "m"}, max_uses={"web_search": 5})
    assert found == {"tools": [{**tools[0], "max_uses": 5}, *tools[1:]], "model": "m"}
    assert sent(ANTHROPIC, {"tools": tools[1:]}, max_uses={"web_search": 5}) is None
    assert sent(ANTHROPIC, {"tools": tools}) is None


@pytest.mark.parametrize(("given", "limit"), [(None, 8), (3, None), (8, None), (9, 8), (True, 8), (-1, 8)])
def test_the_responses_format_limits_all_tool_calls_together(given: object, limit: int | None) -> None:
    """What was held for must bind: without a limit the provider decides how often it searches."""
    body = {"tools": [{"type": "web_search"}], "store": False}
    body |= {} if given is None else {"max_tool_calls": given}
    found = sent(RESPONSES, body, max_uses={"web_search": 8})
    assert found == (None if limit is None else {**body, "max_tool_calls": limit})


def test_keys_keep_their_order_and_new_ones_follow() -> None:
    """Providers hash prompts in order, and a cache hit depends on it."""
    body = {"stream": True, "model": "m", "service_tier": "flex", "messages": [{"b": 1, "a": 2}]}
    found = sent(CHAT, body, output_limit=9)
    assert found is not None
    assert json.dumps(found) == json.dumps(
        {
            "stream": True,
            "model": "m",
            "service_tier": "default",
            "messages": [{"b": 1, "a": 2}],
            "stream_options": {"include_usage": True},
            "max_completion_tokens": 9,
        }
    )


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m", "other"]),
        "stream": st.booleans(),
        "stream_options": st.sampled_from([None, {}, {"include_usage": False}, {"include_usage": True}]),
        "store": st.sampled_from([None, True, False]),
        "service_tier": st.sampled_from([None, "default", "flex"]),
        "max_tokens": st.sampled_from([None, 5]),
        "api_base": st.just("x"),
        "generationConfig": st.sampled_from([None, {}, {"maxOutputTokens": 5}]),
        "x": st.integers(),
    },
)


@given(st.sampled_from(Family), FIELDS, st.sampled_from([None, 9]))
def test_what_is_sent_needs_no_further_change(
    family: Family, body: dict[str, Any], output_limit: int | None
) -> None:
    """Rewriting twice is rewriting once, and the model is never renamed."""
    found = sent(family, body, output_limit)
    if found is not None:
        assert found.get("model") == body.get("model")
        assert sent(family, found) is None
        assert not hides_usage_chunk(family, found, inspect(family, found))
