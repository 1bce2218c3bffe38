"""Which requests the relay knows: an allow-list of model calls, a few local answers, nothing else."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from workers.relay.errors import RefusedError
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import Refusal

Shape = Literal["openai", "anthropic", "google"]


class Purpose(StrEnum):
    """What a forwarded request is: a generation is metered and a step, a count is free."""

    GENERATE = "generate"
    COUNT = "count"


@dataclass(frozen=True)
class Route:
    """A request that is forwarded. `rest` is the path below the provider's base URL with its query."""

    family: Family
    purpose: Purpose
    rest: str
    model: str | None = None
    sse: bool | None = None


@dataclass(frozen=True)
class LocalModels:
    """A list of the pinned models, or one of them by name, answered by the relay itself."""

    shape: Shape
    name: str | None


@dataclass(frozen=True)
class LocalHello:
    """A liveness probe; needs no token."""


Resolved = Route | LocalModels | LocalHello

_FIXED: Final = {
    "/v1/chat/completions": (Family.OPENAI_CHAT, Purpose.GENERATE, "/chat/completions"),
    "/v1/responses": (Family.OPENAI_RESPONSES, Purpose.GENERATE, "/responses"),
    "/v1/embeddings": (Family.OPENAI_EMBEDDINGS, Purpose.GENERATE, "/embeddings"),
    "/v1/messages": (Family.ANTHROPIC, Purpose.GENERATE, "/v1/messages"),
    "/v1/messages/count_tokens": (Family.ANTHROPIC, Purpose.COUNT, "/v1/messages/count_tokens"),
}
_GOOGLE: Final = re.compile(r"/(v1|v1beta)/models/([^/:]+):([A-Za-z]+)")
_GOOGLE_VERBS: Final = {
    "generateContent": Purpose.GENERATE,
    "streamGenerateContent": Purpose.GENERATE,
    "countTokens": Purpose.COUNT,
}
_MODELS: Final = re.compile(r"/(v1|v1beta)/models(?:/(.+))?")
_HELLO: Final = ("/api/hello", "/")
_SECRET_QUERY: Final = frozenset({"key", "api_key", "api-key", "access_token", "token"})
_TAILS: Final = ("/chat/completions", "/responses", "/messages", "/embeddings", "/models")


def family_hint(path: str, anthropic: bool) -> Family | None:
    """Whose error shape an answer to this path should have."""
    if "/messages" in path or anthropic:
        return Family.ANTHROPIC
    if _GOOGLE.fullmatch(path) or path.startswith("/v1beta"):
        return Family.GOOGLE
    return Family.OPENAI_CHAT


def query_without_secrets(query: str) -> str:
    """The query with credentials taken out, everything else byte for byte."""
    kept = [
        part
        for part in query.split("&")
        if part and urllib.parse.unquote(part.partition("=")[0]).lower() not in _SECRET_QUERY
    ]
    return "&".join(kept)


def resolve(method: str, path: str, query: str, *, anthropic: bool, google: bool) -> Resolved:
    """Find the route of a request; `RefusedError` (`route_not_allowed`, `method_not_allowed`) if none.

    `path` is the decoded path without its query. `anthropic` and `google` say whether the request carries
    that family's version or key header: the model list has one path for three shapes.
    """
    kept = query_without_secrets(query)
    tail = f"?{kept}" if kept else ""
    if method in ("GET", "HEAD") and path in _HELLO:
        return LocalHello()
    found = _FIXED.get(path)
    if found is not None:
        family, purpose, rest = found
        return _posted(method, Route(family, purpose, rest + tail))
    call = _GOOGLE.fullmatch(path)
    if call is not None and call[3] in _GOOGLE_VERBS:
        streams = call[3] == "streamGenerateContent"
        tail = _google_tail(kept)
        sse = streams and tail == "?alt=sse"
        return _posted(
            method, Route(Family.GOOGLE, _GOOGLE_VERBS[call[3]], _quoted(path) + tail, model=call[2], sse=sse)
        )
    listed = _MODELS.fullmatch(path)
    if listed is not None and ":" not in (listed[2] or "") and method in ("GET", "HEAD"):
        shape: Shape = "anthropic" if anthropic else "openai"
        return LocalModels("google" if listed[1] == "v1beta" or google else shape, listed[2])
    raise RefusedError(Refusal.ROUTE_NOT_ALLOWED, _advice(method, path))


def _google_tail(query: str) -> str:
    """Of a query only the format of the answer is passed on.

    Google's other system parameters would take the usage out of it (`fields`), or stand in for headers.
    """
    wanted = [part for part in query.split("&") if part in ("alt=sse", "alt=json")]
    return f"?{wanted[-1]}" if wanted else ""


def _quoted(path: str) -> str:
    return urllib.parse.quote(path, safe="/:@!$&'()*+,;=")


def _posted(method: str, route: Route) -> Route:
    if method != "POST":
        raise RefusedError(Refusal.METHOD_NOT_ALLOWED, f"{method} is not possible here; model calls are POST")
    return route


def _advice(method: str, path: str) -> str:
    if path.startswith("/v1/v1"):
        return (
            f"{path} has /v1 twice: this client adds /v1 itself, so its base URL is http://127.0.0.1:8080 "
            "without /v1"
        )
    if path in _TAILS or any(path == f"{tail}/" for tail in _TAILS):
        return f"{path} lacks /v1: the base URL of this client is http://127.0.0.1:8080/v1"
    return f"the relay forwards model calls only; {method} {path[:200]} is not one of them"
