"""What a request asks for, in each family's own spelling, and which forms are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.request import RequestFacts, inspect

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE
FAR = "https://attacker.example/?d=secret"


def test_an_empty_request_has_plain_facts() -> None:
    """Nothing asked for is nothing found."""
    assert inspect(CHAT, {}) == RequestFacts(
        model=None,
        stream=False,
        output_limit=None,
        least_output=0,
        choices=1,
        cache_ttls=frozenset(),
        media_parts=0,
        long_media=0,
        provider_tools=(),
        remote_urls=(),
        stored=None,
        history=[],
        betas=(),
    )


@pytest.mark.parametrize(
    ("family", "body", "limit"),
    [
        (CHAT, {"max_tokens": 5}, 5),
        (CHAT, {"max_completion_tokens": 7}, 7),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 7}, 7),
        (CHAT, {"max_tokens": 9, "max_completion_tokens": 7}, 9),
        (CHAT, {"max_tokens": None}, None),
        (CHAT, {"max_output_tokens": 5}, None),
        (RESPONSES, {"max_output_tokens": 0}, 0),
        (ANTHROPIC, {"max_tokens": 32000}, 32000),
        (GOOGLE, {"generationConfig": {"maxOutputTokens": 4}}, 4),
        (GOOGLE, {"generation_config": {"max_output_tokens": 4}}, 4),
        (GOOGLE, {"generationConfig": None}, None),
        (EMBEDDINGS, {"max_tokens": 5}, 0),
    ],
)
def test_the_output_limit_is_the_largest_output_allowed(
    family: Family, body: dict[str, Any], limit: int | None
) -> None:
    """Two limits of a chat request leave open which one binds, so the larger counts."""
    assert inspect(family, body).output_limit == limit


def test_a_limit_may_not_go_below_a_thinking_budget() -> None:
    """Anthropic refuses such a request; without enabled thinking there is no such bound."""
    thinking = {"type": "enabled", "budget_tokens": 31999}
    assert inspect(ANTHROPIC, {"max_tokens": 32000, "thinking": thinking}).least_output == 32000
    for other in ({"type": "disabled", "budget_tokens": 5}, {"type": "adaptive"}, None, "x"):
        assert inspect(ANTHROPIC, {"thinking": other}).least_output == 0
    assert inspect(CHAT, {"thinking": thinking}).least_output == 0


@pytest.mark.parametrize(
    ("family", "body"),
    [
        (CHAT, {"model": 1}),
        (ANTHROPIC, {"model": ["m"]}),
        (CHAT, {"max_tokens": True}),
        (CHAT, {"max_tokens": -1}),
        (CHAT, {"max_tokens": 1.0}),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": "5"}),
        (RESPONSES, {"max_output_tokens": "5"}),
        (ANTHROPIC, {"max_tokens": []}),
        (ANTHROPIC, {"thinking": {"type": "enabled", "budget_tokens": "x"}}),
        (GOOGLE, {"generationConfig": []}),
        (GOOGLE, {"generationConfig": {"maxOutputTokens": "5"}}),
        (GOOGLE, {"generationConfig": {}, "generation_config": {}}),
        (GOOGLE, {"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": 500}}),
        (GOOGLE, {"generationConfig": {"candidateCount": 0}}),
        (CHAT, {"n": 0}),
        (CHAT, {"n": True}),
        (CHAT, {"n": 129}),
        (CHAT, {"stream_options": []}),
        (CHAT, {"tools": {}}),
        (CHAT, {"tools": ["web_search"]}),
        (CHAT, {"tools": [{"type": 1}]}),
        (CHAT, {"plugins": ["web"]}),
        (RESPONSES, {"tools": [{"type": "namespace", "tools": [1]}]}),
        (ANTHROPIC, {"tools": [None]}),
        (ANTHROPIC, {"tools": [{"type": "web_search_20250305", "max_uses": -1}]}),
        (ANTHROPIC, {"mcp_servers": {"url": FAR}}),
        (GOOGLE, {"tools": {"googleSearch": {}}}),
        (GOOGLE, {"tools": ["googleSearch"]}),
        (CHAT, {"Model": "dear"}),
        (CHAT, {"model": "cheap", "MODEL": "dear"}),
        (CHAT, {"Max_Tokens": 10**6}),
        (RESPONSES, {"Background": True}),
        (GOOGLE, {"GenerationConfig": {}}),
        (GOOGLE, {"generationconfig": {}}),
    ],
)
def test_a_deciding_field_without_usable_form_is_refused(family: Family, body: dict[str, Any]) -> None:
    """Before anything is held or sent; also fields whose letters only differ in case."""
    with pytest.raises(BadRequestError) as refused:
        inspect(family, body)
    assert refused.value.code is Refusal.INVALID_REQUEST


def test_choices_multiply_the_answer() -> None:
    """`n` at OpenAI, `candidateCount` at Google in both spellings, one elsewhere."""
    assert inspect(CHAT, {"n": 128}).choices == 128
    assert inspect(CHAT, {"n": None}).choices == 1
    assert inspect(GOOGLE, {"generationConfig": {"candidateCount": 3}}).choices == 3
    assert inspect(GOOGLE, {"generation_config": {"candidate_count": 3}}).choices == 3
    assert inspect(ANTHROPIC, {"n": 5}).choices == 1


def test_model_stream_and_betas() -> None:
    """Google names the model in its path and the stream in its verb."""
    body = {"model": "m", "stream": True, "anthropic_beta": ["b1", 2, "b2"]}
    for family in (CHAT, RESPONSES, ANTHROPIC):
        facts = inspect(family, body)
        assert (facts.model, facts.stream, facts.betas) == ("m", True, ("b1", "b2"))
    assert (inspect(GOOGLE, body).model, inspect(GOOGLE, body).stream) == (None, False)
    with pytest.raises(BadRequestError, match="stream"):
        inspect(CHAT, {"stream": 1})


@pytest.mark.parametrize(
    ("family", "body", "history"),
    [
        (CHAT, {"messages": [1, 2]}, [1, 2]),
        (RESPONSES, {"input": "fix it"}, ["fix it"]),
        (RESPONSES, {"input": [{"a": 1}]}, [{"a": 1}]),
        (EMBEDDINGS, {"input": ["a", "b"]}, ["a", "b"]),
        (ANTHROPIC, {"messages": None}, []),
        (GOOGLE, {"contents": {"parts": []}}, [{"parts": []}]),
    ],
)
def test_the_history_is_the_list_that_grows(family: Family, body: dict[str, Any], history: list[Any]) -> None:
    """A single entry counts as a list of one."""
    assert inspect(family, body).history == history


KEYS = st.sampled_from(
    [
        *("model", "messages", "input", "contents", "system", "content", "parts", "type", "source", "url"),
        *("image_url", "file", "file_id", "tools", "input_schema", "max_tokens", "n", "thinking"),
        *("generationConfig", "maxOutputTokens", "functionResponse", "fileData", "fileUri", "cache_control"),
        *("stream_options", "store", "service_tier", "background", "conversation", "mcp_servers", "output"),
        "container",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 200) | st.text(max_size=5) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


@given(st.sampled_from(Family), st.dictionaries(KEYS, JSON, max_size=6))
def test_any_json_object_gives_facts_or_a_refusal(family: Family, body: dict[str, Any]) -> None:
    """Never another error, whatever an agent sends."""
    try:
        facts = inspect(family, body)
    except BadRequestError:
        return
    assert facts.choices >= 1
    assert all(len(url) <= 200 for url in facts.remote_urls)
