"""What agents say of their own runs, in their own forms; anything else is no claim."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.launching import ClaimsForm
from orchestrator.evidence.claims import Figures, encode
from workers.adapters.claims import acp_claims, claims
from workers.capture.transcripts import matching


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def use(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "Bash"}


CLAUDE = lines(
    {"type": "system", "subtype": "init"},
    {"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "x"}]}},
    {"type": "assistant", "message": {"id": "m1", "content": [use(1)]}},
    {"type": "user", "message": {"content": [{"type": "tool_result"}]}},
    {"type": "assistant", "message": {"id": "m2", "content": []}},
    {
        "type": "result",
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 7},
    },
)
CODEX = lines(
    {"type": "item.completed", "item": {"type": "command_execution"}},
    {"type": "item.completed", "item": {"type": "agent_message"}},
    {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 5}},
    {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 1}},
)
MODEL = {"api": {"totalRequests": 2}, "tokens": {"prompt": 100, "candidates": 5, "thoughts": 3}}
GEMINI = json.dumps({"response": "x", "stats": {"models": {"m": MODEL}, "tools": {"totalCalls": 1}}}).encode()
MINI = json.dumps({"info": {"model_stats": {"api_calls": 2, "instance_cost": 0.5}}, "messages": []}).encode()


@pytest.mark.parametrize(
    ("form", "printed", "transcripts", "found"),
    [
        ("claude-stream", CLAUDE, {}, Figures(2, 1, 95, 7, 250_000_000)),
        ("codex-events", CODEX, {}, Figures(None, 1, 110, 6, None)),
        ("gemini-stats", GEMINI, {}, Figures(2, 1, 100, 8, None)),
        ("mini-trajectory", b"", {"trajectory.json": MINI}, Figures(model_calls=2, cost_nusd=500_000_000)),
    ],
)
def test_the_forms(form: ClaimsForm, printed: bytes, transcripts: dict[str, bytes], found: Figures) -> None:
    """As these agents write them."""
    assert claims(form, printed, transcripts) == found


@pytest.mark.parametrize("cost", ["1", True, None, -1, 1e300, float("inf")])
def test_a_cost_that_is_none(cost: Any) -> None:
    """Neither text nor nonsense is reckoned with."""
    raw = json.dumps({"info": {"model_stats": {"api_calls": 2, "instance_cost": cost}}}).encode()
    assert claims("mini-trajectory", b"", {"x": raw}).cost_nusd is None


KEYS = (
    *(
        "type",
        "message",
        "id",
        "content",
        "usage",
        "input_tokens",
        "output_tokens",
        "total_cost_usd",
        "stats",
    ),
    *("models", "tokens", "prompt", "tools", "totalCalls", "info", "model_stats", "api_calls", "item", "api"),
)
WORDS = ("assistant", "result", "turn.completed", "item.completed", "command_execution", "tool_use", "\ud800")
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=10,
)


@given(st.sampled_from(get_args(ClaimsForm)), st.lists(values, max_size=5), st.binary(max_size=30))
def test_anything_at_all(form: ClaimsForm, found: list[Any], noise: bytes) -> None:
    """It never raises, and what it finds can always be written down."""
    printed = lines(*found) + noise
    first = lines(found[0]) if found else noise
    for claimed in (claims(form, printed, {"x": printed}), claims(form, first, {"x": first})):
        encode(claimed, Figures())


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("a/**/*.jsonl", "a/x.jsonl", True),
        ("a/**/*.jsonl", "a/b/c/x.jsonl", True),
        ("a/**/*.jsonl", "b/x.jsonl", False),
        ("a/*/x", "a/b/x", True),
        ("a/*/x", "a/b/c/x", False),
        ("*.json", "x.json", True),
        ("*.json", "xjson", False),
        ("*.json", "x.json\n", False),
        ("t.json", "txjson", False),
    ],
)
def test_globs(glob: str, name: str, fits: bool) -> None:
    """`*` stays in its folder, `**/` does not; everything else is itself."""
    assert matching([glob, glob], [name, name]) == ([name] if fits else [])


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([{"usage": {"inputTokens": 10, "outputTokens": 5}}], Figures(input_tokens=10, output_tokens=5)),
        (
            [
                {"usage": {"inputTokens": 1, "outputTokens": 1}},
                {"usage": {"inputTokens": 7, "cachedReadTokens": 3, "outputTokens": 5, "thoughtTokens": 2}},
                {"usage": {}},
            ],
            Figures(input_tokens=10, output_tokens=7),
        ),
        ([{"usage": {"cachedReadTokens": 3}}], Figures()),
        ([{"usage": {"inputTokens": "3"}}, 7], Figures()),
        (None, Figures()),
    ],
)
def test_usage_by_the_protocol_is_of_the_whole_session(turns: Any, found: Figures) -> None:
    """The newest turn that tells it; what is no figure is no claim."""
    assert acp_claims({"turns": turns}) == found
