"""The few changes that the relay makes to a request; everything else goes on byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.relay.wire.facts import RequestFacts
from workers.relay.wire.family import Family
from workers.relay.wire.tools import anthropic_provider_run, kind_of

STEERING: Final = frozenset(
    {
        *("api_base", "api_key", "api_type", "api_version", "base_url", "organization", "azure_ad_token"),
        *("custom_llm_provider", "extra_headers", "extra_body", "extra_query", "user_config"),
        *("model_list", "models", "fallbacks", "route", "provider", "preset"),
    }
)
"""Fields by which a client would choose another address, key or model behind a gateway."""
_STEERING_PREFIXES: Final = ("vertex_", "aws_")

_DEARER: Final[Mapping[Family, frozenset[str]]] = {
    Family.ANTHROPIC: frozenset({"speed", "inference_geo"}),
    Family.GOOGLE: frozenset({"serviceTier", "service_tier"}),
}
"""Fields that move a request off the list price and whose absence means the list price."""
_LIST_PRICE: Final = (None, "standard", "default", "global")
_TIERS: Final[Mapping[Family, str]] = {
    Family.OPENAI_CHAT: "default",
    Family.OPENAI_RESPONSES: "default",
    Family.OPENAI_EMBEDDINGS: "default",
    Family.ANTHROPIC: "standard_only",
}
CHAT_LIMIT_FIELDS: Final = ("max_completion_tokens", "max_tokens")


def _wants_usage_chunk(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def hides_usage_chunk(family: Family, body: dict[str, Any], facts: RequestFacts) -> bool:
    """Whether the answer's usage chunk is there on our account only, and so is not for the client."""
    return family is Family.OPENAI_CHAT and facts.stream and not _wants_usage_chunk(body)


def _limit_fields(body: dict[str, Any], chat_limit_field: str) -> list[str]:
    """Those that the client sent, and the older one where the provider knows no other."""
    given = [name for name in CHAT_LIMIT_FIELDS if body.get(name) is not None]
    needed = not given or (chat_limit_field == "max_tokens" and chat_limit_field not in given)
    return [*given, chat_limit_field] if needed else given


def _limit_changes(
    family: Family, body: dict[str, Any], output_limit: int, chat_limit_field: str
) -> dict[str, Any]:
    """Fields that set the output limit in the spelling that the request already uses."""
    if family is Family.OPENAI_CHAT:
        return dict.fromkeys(_limit_fields(body, chat_limit_field), output_limit)
    if family is Family.OPENAI_RESPONSES:
        return {"max_output_tokens": output_limit}
    if family is Family.ANTHROPIC:
        return {"max_tokens": output_limit}
    if family is Family.GOOGLE:
        outer = "generation_config" if body.get("generation_config") is not None else "generationConfig"
        config = body.get(outer) or {}
        inner = "max_output_tokens" if config.get("max_output_tokens") is not None else "maxOutputTokens"
        return {outer: {**config, inner: output_limit}}
    return {}


def _with_max_uses(tools: list[Any], max_uses: Mapping[str, int]) -> list[Any]:
    """Anthropic tools, provider-run ones of the given kinds with a use limit where they have none."""
    changed: list[Any] = []
    for tool in tools:
        kind = kind_of(tool.get("type") or "")
        if anthropic_provider_run(tool) and kind in max_uses and tool.get("max_uses") is None:
            changed.append({**tool, "max_uses": max_uses[kind]})
        else:
            changed.append(tool)
    return changed


def _policy_changes(
    family: Family,
    body: dict[str, Any],
    facts: RequestFacts,
    max_uses: Mapping[str, int],
    chat_limit_field: str,
) -> dict[str, Any]:
    """Fields that must have our value: usage, storage, the limit, tier and the use limits of tools."""
    changes: dict[str, Any] = {}
    if hides_usage_chunk(family, body, facts):
        changes["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    if family is Family.OPENAI_RESPONSES and body.get("store") is not False:
        changes["store"] = False  # absent means true at the provider
    if family is Family.OPENAI_CHAT and body.get("store"):
        changes["store"] = False
    if family is Family.OPENAI_CHAT and facts.output_limit:
        # What was held for must bind: some providers take 0 for no limit, and some read one field only.
        names = (name for name in _limit_fields(body, chat_limit_field) if not body.get(name))
        changes |= dict.fromkeys(names, facts.output_limit)
    tier = _TIERS.get(family)
    if tier is not None and body.get("service_tier") not in (None, tier):
        changes["service_tier"] = tier
    if family is Family.OPENAI_RESPONSES and max_uses:
        most, given = sum(max_uses.values()), body.get("max_tool_calls")
        if type(given) is not int or not 0 <= given <= most:
            changes["max_tool_calls"] = most
    tools = body.get("tools")
    if family is Family.ANTHROPIC and tools and max_uses:
        limited = _with_max_uses(tools, max_uses)
        if limited != tools:
            changes["tools"] = limited
    return changes


def _dropped(family: Family, body: dict[str, Any]) -> frozenset[str]:
    dearer = _DEARER.get(family, frozenset())
    return frozenset(
        name
        for name in body
        if name in STEERING
        or name.startswith(_STEERING_PREFIXES)
        or (name in dearer and body[name] not in _LIST_PRICE)
    )


def rewritten(
    family: Family,
    body: dict[str, Any],
    facts: RequestFacts,
    *,
    output_limit: int | None,
    max_uses: Mapping[str, int],
    chat_limit_field: str = "max_completion_tokens",
) -> dict[str, Any] | None:
    """The body to send, or None when the client's own bytes can go unchanged.

    `body` must have passed `inspect` as `facts`. `output_limit` (tokens) replaces any limit of the client;
    None leaves it. `max_uses` gives a use limit per kind of provider tool that lacks one; the Responses
    format has one limit for all of them.
    `chat_limit_field` is the field that a chat provider reads. Keys keep their
    order, new ones follow; the model is never renamed and `body` is not changed.
    """
    changes = _policy_changes(family, body, facts, max_uses, chat_limit_field)
    if output_limit is not None:
        changes |= _limit_changes(family, body, output_limit, chat_limit_field)
    dropped = _dropped(family, body)
    if not changes and not dropped:
        return None
    kept = {name: changes.get(name, value) for name, value in body.items() if name not in dropped}
    return kept | changes
