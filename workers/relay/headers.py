"""Which headers pass the relay: everything that is not a credential, a hop's own or a way to steer it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from workers.relay.wire.family import Family

_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "expect",
    }
)
CREDENTIALS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_STEERING: Final = frozenset(
    {
        *CREDENTIALS,
        "cookie",
        "forwarded",
        "via",
        "from",
        "x-real-ip",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
        "x-goog-user-project",
        "x-api-base",
        "x-base-url",
        "accept-encoding",
        "content-encoding",
        "x-http-method-override",
    }
)
_STEERING_PREFIXES: Final = (
    "x-forwarded-",
    "x-original-",
    "proxy-",
    "x-litellm-",
    "x-portkey-",
    "helicone-",
    "cf-aig-",
    "x-amz-",
    "x-relay-",
)
_OPERATOR: Final = frozenset(
    {
        "set-cookie",
        "openai-organization",
        "openai-project",
        "anthropic-organization-id",
        "alt-svc",
        "strict-transport-security",
        "report-to",
        "nel",
    }
)
_NOT_FORWARDED: Final = _HOP | _STEERING
_NOT_RETURNED: Final = _HOP | _OPERATOR
_KEPT_IN_TRANSCRIPT: Final = frozenset(
    {
        "content-type",
        "content-encoding",
        "user-agent",
        "anthropic-version",
        "anthropic-beta",
        "openai-beta",
        "originator",
        "retry-after",
        "x-should-retry",
        "x-request-id",
        "request-id",
    }
)

Headers = Iterable[tuple[str, str]]


def _named_by_connection(headers: list[tuple[str, str]]) -> frozenset[str]:
    values = [value for name, value in headers if name.lower() == "connection"]
    if not values:
        return frozenset()
    return frozenset(part.strip().lower() for value in values for part in value.split(","))


def to_provider(headers: Headers, family: Family, key: str) -> list[tuple[str, str]]:
    """Headers of the forwarded request: the client's, then our encoding wish and the provider's key."""
    given = list(headers)
    named = _named_by_connection(given)
    kept = [
        (name, value)
        for name, value in given
        if (lower := name.lower()) not in _NOT_FORWARDED
        and lower not in named
        and not lower.startswith(_STEERING_PREFIXES)
    ]
    kept.append(("accept-encoding", "identity"))
    if family is Family.ANTHROPIC:
        kept.append(("x-api-key", key))
    elif family is Family.GOOGLE:
        kept.append(("x-goog-api-key", key))
    else:
        kept.append(("authorization", f"Bearer {key}"))
    return kept


def to_client(headers: Headers, *, decoded: bool) -> list[tuple[str, str]]:
    """Headers of the answer: the provider's without hop headers and without what names its customer.

    `decoded` says that the body is passed on unpacked, so that its encoding no longer holds.
    """
    given = list(headers)
    dropped = _named_by_connection(given)
    if decoded:
        dropped |= {"content-encoding"}
    return [
        (name, value)
        for name, value in given
        if (lower := name.lower()) not in _NOT_RETURNED and lower not in dropped
    ]


def for_transcript(headers: Headers) -> dict[str, str]:
    """The few headers that explain a call; never a credential."""
    return {name.lower(): value for name, value in headers if name.lower() in _KEPT_IN_TRANSCRIPT}


def tokens_in(headers: Headers, query_key: str | None) -> Iterator[str]:
    """Every token that a request carries, wherever its client puts an API key."""
    for name, value in headers:
        lower = name.lower()
        if lower == "authorization":
            scheme, _, rest = value.partition(" ")
            yield rest.strip() if scheme.lower() == "bearer" else value
        elif lower in CREDENTIALS:
            yield value
    if query_key is not None:
        yield query_key


def betas_in(headers: Headers) -> frozenset[str]:
    """Names in the client's beta headers."""
    values = [value for name, value in headers if name.lower() in ("anthropic-beta", "openai-beta")]
    return frozenset(part.strip() for value in values for part in value.split(",") if part.strip())
