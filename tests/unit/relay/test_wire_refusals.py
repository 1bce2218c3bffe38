"""Refusals of the relay: status, shape of the family, headers; and local model lists."""

from __future__ import annotations

import json

import pytest

from workers.relay.wire.family import Family
from workers.relay.wire.refusals import (
    STATUS,
    Refusal,
    Shape,
    model_entry,
    model_list,
    refusal_body,
    refusal_headers,
)

OPENAI = (None, Family.OPENAI_CHAT, Family.OPENAI_RESPONSES, Family.OPENAI_EMBEDDINGS)


def test_every_refusal_has_one_status() -> None:
    """402 for caps, 403 for policy; nothing that a client takes for a provider's own failure but 502."""
    assert set(STATUS) == set(Refusal)
    assert {code.value: STATUS[code] for code in Refusal} == {
        "cap_reached": 402,
        "step_limit": 403,
        "model_not_pinned": 403,
        "unpriced_model": 403,
        "provider_tool_denied": 403,
        "remote_url_denied": 403,
        "stored_input_denied": 403,
        "beta_denied": 403,
        "attempt_over": 403,
        "route_not_allowed": 404,
        "method_not_allowed": 405,
        "invalid_request": 400,
        "body_too_large": 413,
        "bad_token": 401,
        "websocket_not_supported": 426,
        "unsupported_encoding": 415,
        "provider_unreachable": 502,
        "platform_fault": 502,
        "rate_limited": 429,
    }


@pytest.mark.parametrize("family", OPENAI)
@pytest.mark.parametrize("code", Refusal)
def test_openai_clients_find_the_code_in_error_code(family: Family | None, code: Refusal) -> None:
    """So do clients of no known family."""
    error = json.loads(refusal_body(family, code, "why \u2013 so"))["error"]
    assert error == {"message": "why \u2013 so", "type": "assize_relay", "code": code.value, "param": None}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Refusal.CAP_REACHED, "billing_error"),
        (Refusal.BAD_TOKEN, "authentication_error"),
        (Refusal.STEP_LIMIT, "permission_error"),
        (Refusal.ROUTE_NOT_ALLOWED, "not_found_error"),
        (Refusal.INVALID_REQUEST, "invalid_request_error"),
        (Refusal.METHOD_NOT_ALLOWED, "invalid_request_error"),
        (Refusal.BODY_TOO_LARGE, "request_too_large"),
        (Refusal.RATE_LIMITED, "rate_limit_error"),
        (Refusal.PLATFORM_FAULT, "api_error"),
    ],
)
def test_anthropic_clients_get_their_error_types(code: Refusal, kind: str) -> None:
    """And our code beside them."""
    body = json.loads(refusal_body(Family.ANTHROPIC, code, "why"))
    assert body["type"] == "error"
    assert body["error"] == {"type": kind, "message": "why", "code": code.value}


@pytest.mark.parametrize(
    ("code", "status", "name"),
    [
        (Refusal.CAP_REACHED, 402, "RESOURCE_EXHAUSTED"),
        (Refusal.MODEL_NOT_PINNED, 403, "PERMISSION_DENIED"),
        (Refusal.ROUTE_NOT_ALLOWED, 404, "NOT_FOUND"),
        (Refusal.INVALID_REQUEST, 400, "INVALID_ARGUMENT"),
        (Refusal.BAD_TOKEN, 401, "UNAUTHENTICATED"),
        (Refusal.PROVIDER_UNREACHABLE, 502, "UNAVAILABLE"),
    ],
)
def test_google_clients_get_their_status_names(code: Refusal, status: int, name: str) -> None:
    """`error.code` is the HTTP status there, so that our code stands in the details."""
    error = json.loads(refusal_body(Family.GOOGLE, code, "why"))["error"]
    assert (error["code"], error["status"], error["message"]) == (status, name, "why")
    assert error["details"][0]["reason"] == code.value.upper()


@pytest.mark.parametrize("code", Refusal)
def test_only_passing_trouble_may_be_retried(code: Refusal) -> None:
    """`x-should-retry: false` on all other refusals, `retry-after` on none."""
    headers = refusal_headers(code)
    retried = code in (Refusal.RATE_LIMITED, Refusal.PROVIDER_UNREACHABLE)
    assert headers.get("x-should-retry") == (None if retried else "false")
    assert headers["content-type"] == "application/json"
    assert "retry-after" not in headers
    assert ("upgrade" in headers) == (STATUS[code] == 426)


def test_a_message_that_is_no_unicode_is_still_answered() -> None:
    """Half a surrogate pair in a quoted word must not turn a refusal into a crash."""
    assert json.loads(refusal_body(None, Refusal.INVALID_REQUEST, "\ud83d"))["error"]["message"] == "?"


def test_model_lists_have_the_shape_of_each_family() -> None:
    """Exactly the given models, in one page."""
    openai = json.loads(model_list("openai", ["b", "a"]))
    assert (openai["object"], [entry["id"] for entry in openai["data"]]) == ("list", ["b", "a"])
    anthropic = json.loads(model_list("anthropic", ["b", "a"]))
    assert (anthropic["first_id"], anthropic["last_id"], anthropic["has_more"]) == ("b", "a", False)
    assert {entry["type"] for entry in anthropic["data"]} == {"model"}
    google = json.loads(model_list("google", ["b"]))
    assert google["models"][0]["name"] == "models/b"
    assert "generateContent" in google["models"][0]["supportedGenerationMethods"]


@pytest.mark.parametrize(("shape", "key"), [("openai", "data"), ("anthropic", "data"), ("google", "models")])
def test_one_model_is_answered_as_in_the_list(shape: Shape, key: str) -> None:
    """And an empty list is a list."""
    assert json.loads(model_entry(shape, "m")) == json.loads(model_list(shape, ["m"]))[key][0]
    assert json.loads(model_list(shape, []))[key] == []
