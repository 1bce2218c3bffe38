"""Which headers pass, in both directions (reference/relay.md section 2; reports 15 and 16)."""

from __future__ import annotations

import pytest

from workers.relay.headers import betas_in, for_transcript, to_client, to_provider, tokens_in
from workers.relay.wire.family import Family

KEY = "sk-the-providers-key"
TOKEN = "the-lanes-token"
Pairs = list[tuple[str, str]]


def sent(given: Pairs, family: Family = Family.OPENAI_CHAT) -> Pairs:
    return to_provider(given, family, KEY)


@pytest.mark.parametrize(
    ("family", "carrier"),
    [
        (Family.OPENAI_CHAT, ("authorization", f"Bearer {KEY}")),
        (Family.OPENAI_RESPONSES, ("authorization", f"Bearer {KEY}")),
        (Family.OPENAI_EMBEDDINGS, ("authorization", f"Bearer {KEY}")),
        (Family.ANTHROPIC, ("x-api-key", KEY)),
        (Family.GOOGLE, ("x-goog-api-key", KEY)),
    ],
)
def test_the_providers_key_goes_where_its_family_reads_it_and_only_there(
    family: Family, carrier: tuple[str, str]
) -> None:
    """One carrier, and no compression, which would hide usage."""
    assert sent([], family) == [("accept-encoding", "identity"), carrier]


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "x-goog-api-key", "API-KEY"])
@pytest.mark.parametrize("family", list(Family))
def test_the_clients_token_never_goes_on(name: str, family: Family) -> None:
    """In no carrier, whatever the family."""
    assert not any(TOKEN in value for _, value in sent([(name, f"Bearer {TOKEN}")], family))


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"),
        *("Content-Length", "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding"),
        *("Cookie", "Forwarded", "Via", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Host"),
        *("OpenAI-Organization", "OpenAI-Project", "anthropic-organization-id", "x-goog-user-project"),
        *("X-Api-Base", "x-base-url", "x-litellm-api-base", "x-portkey-config", "Helicone-Auth"),
        *("cf-aig-authorization", "x-amz-security-token", "X-Original-URL", "X-HTTP-Method-Override"),
        "x-relay-anything",
    ],
)
def test_hop_and_steering_headers_are_dropped(name: str) -> None:
    """Neither another hop's own nor anything that would choose address, account or method."""
    assert sent([(name, "value")]) == sent([])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("anthropic-beta", "context-1m,other"),
        ("anthropic-version", "2023-06-01"),
        ("openai-beta", "responses=v1"),
        ("User-Agent", "agent/1.0"),
        ("X-Stainless-Lang", "python"),
        ("originator", "codex"),
        ("content-type", "application/json; charset=utf-8"),
        ("Accept", "text/event-stream"),
        ("session_id", "s-1"),
    ],
)
def test_everything_else_goes_on_as_it_is(name: str, value: str) -> None:
    """Beta headers are never stripped; names keep their case."""
    assert sent([(name, value)])[0] == (name, value)


def test_headers_named_by_connection_are_dropped() -> None:
    """They belong to one hop (RFC 9110, section 7.6.1), in any case, over several fields."""
    given = [
        ("Connection", "close, X-One"),
        ("connection", "x-TWO ,"),
        ("x-one", "1"),
        ("X-Two", "2"),
        ("x-three", "3"),
    ]
    assert sent(given) == [("x-three", "3"), *sent([])]
    assert to_client(given, decoded=False) == [("x-three", "3")]


def test_a_header_given_twice_stays_given_twice() -> None:
    """Values are not joined and their order stays."""
    given = [("anthropic-beta", "one"), ("x", "y"), ("anthropic-beta", "two")]
    assert sent(given)[:3] == given


@pytest.mark.parametrize(
    "name",
    [
        *("Set-Cookie", "openai-organization", "OpenAI-Project", "anthropic-organization-id"),
        *("Alt-Svc", "Strict-Transport-Security", "Report-To", "NEL"),
        *("Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Trailer"),
    ],
)
def test_what_names_the_operators_account_does_not_reach_the_agent(name: str) -> None:
    """Nor does what belongs to the hop."""
    assert to_client([(name, "v"), ("x-ratelimit-remaining", "9")], decoded=False) == [
        ("x-ratelimit-remaining", "9")
    ]


def test_the_content_encoding_goes_with_the_packing() -> None:
    """A body that was unpacked has none (report 17); one that was not keeps it."""
    given = [("Content-Encoding", "gzip"), ("content-type", "application/json")]
    assert to_client(given, decoded=True) == given[1:]
    assert to_client(given, decoded=False) == given


def test_the_transcript_keeps_a_few_headers_and_no_credential() -> None:
    """An allow-list: a new header with a secret is left out by default."""
    given = [
        ("Authorization", TOKEN),
        ("x-api-key", TOKEN),
        ("x-goog-api-key", TOKEN),
        ("api-key", TOKEN),
        ("Cookie", TOKEN),
        ("x-new-secret", TOKEN),
        ("Anthropic-Beta", "b"),
        ("Retry-After", "3"),
    ]
    assert for_transcript(given) == {"anthropic-beta": "b", "retry-after": "3"}


@pytest.mark.parametrize(
    ("given", "query", "tokens"),
    [
        ([("authorization", f"Bearer {TOKEN}")], None, [TOKEN]),
        ([("Authorization", f"bearer   {TOKEN} ")], None, [TOKEN]),
        ([("authorization", TOKEN)], None, [TOKEN]),
        ([("authorization", "Basic abc")], None, ["Basic abc"]),
        ([("X-Api-Key", TOKEN)], None, [TOKEN]),
        ([("x-goog-api-key", TOKEN)], None, [TOKEN]),
        ([("api-key", TOKEN)], None, [TOKEN]),
        ([], TOKEN, [TOKEN]),
        ([("x-api-key", "one"), ("authorization", "Bearer two")], "three", ["one", "two", "three"]),
        ([("x-other", TOKEN), ("cookie", TOKEN)], None, []),
    ],
)
def test_a_token_is_found_in_every_place_where_a_client_puts_an_api_key(
    given: Pairs, query: str | None, tokens: list[str]
) -> None:
    """The SDKs of all families, with the token as their key."""
    assert list(tokens_in(given, query)) == tokens


def test_betas_are_split_and_trimmed() -> None:
    """Several in one header, several headers, two families."""
    given = [("anthropic-beta", "a, b,,"), ("Anthropic-Beta", "c"), ("OpenAI-Beta", "d"), ("x-beta", "e")]
    assert betas_in(given) == {"a", "b", "c", "d"}
