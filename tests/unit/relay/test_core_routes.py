"""The allow-list of requests (reference/relay.md section 2 rule 1, agents.md sections 0 to 2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.errors import RefusedError
from workers.relay.routes import (
    LocalHello,
    LocalModels,
    Purpose,
    Resolved,
    Route,
    family_hint,
    query_without_secrets,
    resolve,
)
from workers.relay.wire.family import Family

CHAT, RESPONSES, EMBEDDINGS = Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS
ANTHROPIC, GOOGLE = Family.ANTHROPIC, Family.GOOGLE


def found(
    method: str, path: str, query: str = "", *, anthropic: bool = False, google: bool = False
) -> Resolved:
    return resolve(method, path, query, anthropic=anthropic, google=google)


def refused(method: str, path: str, query: str = "") -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        found(method, path, query)
    return caught.value


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/chat/completions", Route(CHAT, Purpose.GENERATE, "/chat/completions")),
        ("/v1/responses", Route(RESPONSES, Purpose.GENERATE, "/responses")),
        ("/v1/embeddings", Route(EMBEDDINGS, Purpose.GENERATE, "/embeddings")),
        ("/v1/messages", Route(ANTHROPIC, Purpose.GENERATE, "/v1/messages")),
        ("/v1/messages/count_tokens", Route(ANTHROPIC, Purpose.COUNT, "/v1/messages/count_tokens")),
        (
            "/v1beta/models/g-2:generateContent",
            Route(GOOGLE, Purpose.GENERATE, "/v1beta/models/g-2:generateContent", "g-2", False),
        ),
        (
            "/v1/models/g-2:countTokens",
            Route(GOOGLE, Purpose.COUNT, "/v1/models/g-2:countTokens", "g-2", False),
        ),
    ],
)
def test_every_model_call_has_its_route(path: str, route: Route) -> None:
    """OpenAI paths go on below the provider's version folder, the others with theirs."""
    assert found("POST", path) == route


@pytest.mark.parametrize(
    ("query", "sse", "rest"),
    [
        ("", False, ""),
        ("alt=sse", True, "?alt=sse"),
        ("key=t&alt=sse", True, "?alt=sse"),
        ("alt=sse&key=t", True, "?alt=sse"),
        ("alt=json", False, "?alt=json"),
        ("xalt=sse", False, ""),
        ("alt=sse&fields=candidates", True, "?alt=sse"),
    ],
)
def test_a_gemini_stream_is_events_only_with_alt_sse(query: str, sse: bool, rest: str) -> None:
    """Without it the answer is one JSON array that grows."""
    path = "/v1beta/models/g:streamGenerateContent"
    assert found("POST", path, query) == Route(GOOGLE, Purpose.GENERATE, path + rest, "g", sse)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "post", "CONNECT"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1beta/models/g:generateContent"])
def test_model_calls_are_posted(method: str, path: str) -> None:
    """Another method on a known path is told so, in one word."""
    assert refused(method, path).code.value == "method_not_allowed"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/batches",
        "/v1/messages/batches",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/completions",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/realtime",
        "/v1/chat/completions/",
        "/v1/chat/completions/x",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/./chat/completions",
        "/v1/files/../chat/completions",
        "/V1/chat/completions",
        "/v1beta/cachedContents",
        "/v1beta/files",
        "/upload/v1beta/files",
        "/v1beta/models/g:batchGenerateContent",
        "/v1beta/models/g:predict",
        "/v1beta/models/g:GENERATECONTENT",
        "/v1beta/models/g:generateContent/",
        "/v1beta/models/g:generateContent:generateContent",
        "/v1beta/models/:generateContent",
        "/v1beta/models/a/b:generateContent",
        "/v1beta/models/../files:generateContent",
        "/v1beta/tunedModels/g:generateContent",
        "/v1alpha/models/g:generateContent",
        "/v1beta//models/g:generateContent",
        "http://elsewhere.example/v1/chat/completions",
        "",
        "*",
    ],
)
def test_everything_else_is_refused(path: str) -> None:
    """An allow-list: near misses, other endpoints and other hosts are no model calls."""
    assert refused("POST", path).code.value == "route_not_allowed"


@pytest.mark.parametrize("name", ["..", ".", "a b", "g?x=1", "g#f", "g%2Fh", "g\\..\\x", "é"])
def test_an_odd_gemini_model_name_stays_one_quoted_segment(name: str) -> None:
    """The provider sees one segment after `models/`, never a query, a fragment or another folder.

    What it would make of the name does not matter: a name that is not pinned goes nowhere.
    """
    route = found("POST", f"/v1beta/models/{name}:generateContent")
    assert isinstance(route, Route)
    assert route.model == name
    assert route.rest.count("/") == 3
    assert not set(route.rest) & set("?# \\")
    assert route.rest.isascii()


@pytest.mark.parametrize("path", ["/", "/api/hello"])
def test_a_liveness_probe_is_answered_here(path: str) -> None:
    """Agents probe with HEAD or GET before they call; neither is a model call."""
    assert found("HEAD", path) == found("GET", path) == LocalHello()
    assert refused("POST", path).code.value == "route_not_allowed"


@pytest.mark.parametrize(
    ("path", "anthropic", "google", "answer"),
    [
        ("/v1/models", False, False, LocalModels("openai", None)),
        ("/v1/models", True, False, LocalModels("anthropic", None)),
        ("/v1/models", False, True, LocalModels("google", None)),
        ("/v1/models/gpt-5", False, False, LocalModels("openai", "gpt-5")),
        ("/v1/models/claude", True, False, LocalModels("anthropic", "claude")),
        ("/v1/models/openai/gpt-5", False, False, LocalModels("openai", "openai/gpt-5")),
        ("/v1beta/models", False, False, LocalModels("google", None)),
        ("/v1beta/models/gem", False, False, LocalModels("google", "gem")),
    ],
)
def test_model_lists_are_answered_here_in_the_shape_of_the_asker(
    path: str, anthropic: bool, google: bool, answer: LocalModels
) -> None:
    """One path serves three families; the header tells which."""
    for method in ("GET", "HEAD"):
        assert found(method, path, anthropic=anthropic, google=google) == answer


@pytest.mark.parametrize("path", ["/v1/models/", "/v1/models/g:generateContent", "/v1/model"])
def test_what_is_no_model_list_is_refused(path: str) -> None:
    """Nothing that is read is passed on."""
    assert refused("GET", path).code.value in ("route_not_allowed", "method_not_allowed")


def test_a_doubled_version_folder_is_explained() -> None:
    """The most common wrong base URL (agents.md): the message says which one is right."""
    said = refused("POST", "/v1/v1/messages").message
    assert "http://127.0.0.1:8080 without /v1" in said


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/messages", "/embeddings", "/models/"])
def test_a_missing_version_folder_is_explained(path: str) -> None:
    """The other one."""
    assert "http://127.0.0.1:8080/v1" in refused("POST", path).message


def test_a_long_path_does_not_make_a_long_message() -> None:
    """What the agent sent is not sent back without end."""
    assert len(refused("POST", "/x" * 50_000).message) < 400


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("", ""),
        ("key=secret", ""),
        ("key=secret&alt=sse", "alt=sse"),
        ("alt=sse&key=secret", "alt=sse"),
        ("a=1&KEY=s&b=2", "a=1&b=2"),
        ("%6Bey=s&a=1", "a=1"),
        ("k%65y=s", ""),
        ("api_key=s&api-key=s&access_token=s&token=s", ""),
        ("key", ""),
        ("key=a&key=b&x", "x"),
        ("monkey=1&keyboard=2", "monkey=1&keyboard=2"),
        ("beta=true&x=%20%2f%2F+", "beta=true&x=%20%2f%2F+"),
        ("a=key=b", "a=key=b"),
        ("&&a&&b&&", "a&b"),
    ],
)
def test_credentials_leave_a_query_and_the_rest_stays(query: str, kept: str) -> None:
    """Every spelling of a key goes (report 15); other parameters keep their bytes and order."""
    assert query_without_secrets(query) == kept


@given(st.lists(st.text("ab%=2f+ké", min_size=1, max_size=8), max_size=6))
def test_other_parameters_pass_byte_for_byte(parts: list[str]) -> None:
    """No unquoting and quoting again: a signature over the query would break."""
    assert query_without_secrets("&".join([*parts, "key=secret"])) == "&".join(parts)


@pytest.mark.parametrize(
    ("path", "anthropic", "hint"),
    [
        ("/v1/messages", False, ANTHROPIC),
        ("/v1/v1/messages", False, ANTHROPIC),
        ("/v1/models", True, ANTHROPIC),
        ("/v1beta/files", False, GOOGLE),
        ("/v1/models/g:generateContent", False, GOOGLE),
        ("/v1/chat/completions", False, CHAT),
        ("/nonsense", False, CHAT),
    ],
)
def test_a_refusal_before_any_route_has_the_shape_of_its_asker(
    path: str, anthropic: bool, hint: Family
) -> None:
    """Clients read errors in their own family's shape only."""
    assert family_hint(path, anthropic) is hint
