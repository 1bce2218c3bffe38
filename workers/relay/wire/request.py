"""Requests of every family, read for admission; the door to this package's request side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.relay.wire.body import parse_body
from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.facts import ProviderTool, RequestFacts
from workers.relay.wire.family import Family
from workers.relay.wire.parts import survey
from workers.relay.wire.rewrite import CHAT_LIMIT_FIELDS, STEERING, hides_usage_chunk, rewritten
from workers.relay.wire.tools import provider_tools

__all__ = [
    "ProviderTool",
    "RequestFacts",
    "hides_usage_chunk",
    "inspect",
    "parse_body",
    "rewritten",
]

MOST_CHOICES: Final = 128

_HISTORY: Final[Mapping[Family, str]] = {
    Family.OPENAI_CHAT: "messages",
    Family.OPENAI_RESPONSES: "input",
    Family.OPENAI_EMBEDDINGS: "input",
    Family.ANTHROPIC: "messages",
    Family.GOOGLE: "contents",
}
_DECIDING: Final = frozenset(
    {
        *("model", "models", "stream", "stream_options", "store", "background", "service_tier", "n"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "thinking", "tools", "mcp_servers"),
        *("previous_response_id", "conversation", "prompt", "messages", "system", "input", "contents"),
        *("generationConfig", "generation_config", "cachedContent", "cached_content"),
        *("container", "web_search_options", "search_parameters", "plugins", "anthropic_beta"),
        *STEERING,
    }
)
_DECIDING_FOLDED: Final = frozenset(name.casefold() for name in _DECIDING)
_MOST_TOKENS: Final = 10**9


def _refuse_disguises(body: dict[str, Any]) -> None:
    """A field in other letters (`Model`): some providers' decoders ignore case, and would read that one.

    Folded, for such decoders take the long s and the Kelvin sign for letters too.
    """
    for name in body:
        if name not in _DECIDING and name.casefold() in _DECIDING_FOLDED:
            raise BadRequestError(f"{name[:40]} is not the spelling of this field")


def _one_spelling(holder: dict[str, Any], *names: str) -> Any:
    """The value of a field with several spellings; raises `BadRequestError` when more than one is used."""
    given = [name for name in names if holder.get(name) is not None]
    if len(given) > 1:
        raise BadRequestError(f"{given[0]} and {given[1]} name the same field")
    return holder[given[0]] if given else None


def _whole(value: Any, what: str, least: int = 0) -> int | None:
    """A whole number of at least `least`, None for null; raises `BadRequestError` otherwise."""
    if value is None:
        return None
    if type(value) is not int or not least <= value <= _MOST_TOKENS:
        raise BadRequestError(f"{what} is not a whole number from {least} to {_MOST_TOKENS}")
    return value


def _google_config(body: dict[str, Any]) -> dict[str, Any]:
    config = _one_spelling(body, "generationConfig", "generation_config")
    if config is not None and not isinstance(config, dict):
        raise BadRequestError("generationConfig is not an object")
    return config or {}


def _output_limit(family: Family, body: dict[str, Any]) -> int | None:
    if family is Family.OPENAI_EMBEDDINGS:
        return 0
    if family is Family.OPENAI_CHAT:
        given = [_whole(body.get(name), name) for name in CHAT_LIMIT_FIELDS]
        return max((limit for limit in given if limit is not None), default=None)
    if family is Family.OPENAI_RESPONSES:
        return _whole(body.get("max_output_tokens"), "max_output_tokens")
    if family is Family.ANTHROPIC:
        return _whole(body.get("max_tokens"), "max_tokens")
    config = _google_config(body)
    return _whole(_one_spelling(config, "maxOutputTokens", "max_output_tokens"), "maxOutputTokens")


def _least_output(family: Family, body: dict[str, Any]) -> int:
    """Anthropic refuses a limit that is not above its thinking budget."""
    thinking = body.get("thinking")
    if family is not Family.ANTHROPIC or not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return 0
    budget = _whole(thinking.get("budget_tokens"), "budget_tokens")
    return 0 if budget is None else budget + 1


def _choices(family: Family, body: dict[str, Any]) -> int:
    value: Any = None
    if family is Family.OPENAI_CHAT:
        value = _whole(body.get("n"), "n", 1)
    elif family is Family.GOOGLE:
        count = _one_spelling(_google_config(body), "candidateCount", "candidate_count")
        value = _whole(count, "candidateCount", 1)
    if value is not None and value > MOST_CHOICES:
        raise BadRequestError(f"more than {MOST_CHOICES} choices")
    return value or 1


def _model(family: Family, body: dict[str, Any]) -> str | None:
    model = body.get("model")
    if family is Family.GOOGLE or model is None:
        return None
    if not isinstance(model, str):
        raise BadRequestError("model is not a string")
    return model


def _stream(family: Family, body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise BadRequestError("stream_options is not an object")
    stream = body.get("stream")
    if stream is not None and not isinstance(stream, bool):  # a lenient provider would stream, uncounted
        raise BadRequestError("stream is neither true nor false")
    return family not in (Family.GOOGLE, Family.OPENAI_EMBEDDINGS) and stream is True


def _betas(body: dict[str, Any]) -> tuple[str, ...]:
    found = body.get("anthropic_beta")
    names = found if isinstance(found, list) else [found]
    return tuple(name for name in names if isinstance(name, str))


def inspect(family: Family, body: dict[str, Any]) -> RequestFacts:
    """Everything that admission decides by; `body` as `parse_body` gave it.

    Raises `BadRequestError` where a field that decides has no usable form. Whether any of it is allowed is
    not asked here.
    """
    _refuse_disguises(body)
    found = survey(family, body)
    history = body.get(_HISTORY[family])
    return RequestFacts(
        model=_model(family, body),
        stream=_stream(family, body),
        output_limit=_output_limit(family, body),
        least_output=_least_output(family, body),
        choices=_choices(family, body),
        cache_ttls=frozenset(found.cache_ttls),
        media_parts=found.media_parts,
        long_media=found.long_media,
        provider_tools=provider_tools(family, body),
        remote_urls=tuple(found.remote_urls),
        stored=found.stored,
        history=history if isinstance(history, list) else [] if history is None else [history],
        betas=_betas(body),
    )
