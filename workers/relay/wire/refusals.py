"""What the relay answers itself: refusals in the family's own error shape, and model lists."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal

from workers.relay.wire.family import Family

Shape = Literal["openai", "anthropic", "google"]


class Refusal(StrEnum):
    """Why the relay did not pass a request on; part of evidence and of every refusal's body."""

    CAP_REACHED = "cap_reached"
    STEP_LIMIT = "step_limit"
    MODEL_NOT_PINNED = "model_not_pinned"
    UNPRICED_MODEL = "unpriced_model"
    PROVIDER_TOOL_DENIED = "provider_tool_denied"
    REMOTE_URL_DENIED = "remote_url_denied"
    STORED_INPUT_DENIED = "stored_input_denied"
    ROUTE_NOT_ALLOWED = "route_not_allowed"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    INVALID_REQUEST = "invalid_request"
    BODY_TOO_LARGE = "body_too_large"
    BAD_TOKEN = "bad_token"
    ATTEMPT_OVER = "attempt_over"
    WEBSOCKET_NOT_SUPPORTED = "websocket_not_supported"
    BETA_DENIED = "beta_denied"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    PROVIDER_UNREACHABLE = "provider_unreachable"
    PLATFORM_FAULT = "platform_fault"
    RATE_LIMITED = "rate_limited"


STATUS: Final[Mapping[Refusal, int]] = MappingProxyType(
    {
        Refusal.CAP_REACHED: 402,
        Refusal.STEP_LIMIT: 403,
        Refusal.MODEL_NOT_PINNED: 403,
        Refusal.UNPRICED_MODEL: 403,
        Refusal.PROVIDER_TOOL_DENIED: 403,
        Refusal.REMOTE_URL_DENIED: 403,
        Refusal.STORED_INPUT_DENIED: 403,
        Refusal.BETA_DENIED: 403,
        Refusal.ATTEMPT_OVER: 403,  # 410 would fit, but some clients repeat it
        Refusal.ROUTE_NOT_ALLOWED: 404,
        Refusal.METHOD_NOT_ALLOWED: 405,
        Refusal.INVALID_REQUEST: 400,
        Refusal.BODY_TOO_LARGE: 413,
        Refusal.BAD_TOKEN: 401,
        Refusal.WEBSOCKET_NOT_SUPPORTED: 426,
        Refusal.UNSUPPORTED_ENCODING: 415,
        Refusal.PROVIDER_UNREACHABLE: 502,
        Refusal.PLATFORM_FAULT: 502,
        Refusal.RATE_LIMITED: 429,
    }
)
"""HTTP status by refusal."""

_ANTHROPIC_TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        502: "api_error",
    }
)
_GOOGLE_STATUSES: Final[Mapping[int, str]] = MappingProxyType(
    {
        401: "UNAUTHENTICATED",
        402: "RESOURCE_EXHAUSTED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        426: "FAILED_PRECONDITION",
        429: "RESOURCE_EXHAUSTED",
        502: "UNAVAILABLE",
    }
)
_WORTH_A_RETRY: Final = frozenset({Refusal.RATE_LIMITED, Refusal.PROVIDER_UNREACHABLE})
_GOOGLE_METHODS: Final = ("generateContent", "streamGenerateContent", "countTokens")
_UNKNOWN_DATE: Final = "1970-01-01T00:00:00Z"


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def refusal_body(family: Family | None, code: Refusal, message: str) -> bytes:
    """The JSON body of a refusal; `family` None (no route matched) gives the OpenAI shape."""
    status = STATUS[code]
    if family is Family.ANTHROPIC:
        kind = _ANTHROPIC_TYPES.get(status, "invalid_request_error")
        error = {"type": kind, "message": message, "code": code.value}
        return _dump({"type": "error", "error": error, "request_id": None})
    if family is Family.GOOGLE:
        detail = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": code.value.upper(),
            "domain": "assize.relay",
        }
        name = _GOOGLE_STATUSES.get(status, "INVALID_ARGUMENT")
        return _dump({"error": {"code": status, "message": message, "status": name, "details": [detail]}})
    error_of_ours = {"message": message, "type": "assize_relay", "code": code.value, "param": None}
    return _dump({"error": error_of_ours})


def refusal_headers(code: Refusal) -> dict[str, str]:
    """Headers of a refusal, names in lower case. Never `retry-after`: clients would wait for nothing."""
    headers = {"content-type": "application/json"}
    if code not in _WORTH_A_RETRY:
        headers["x-should-retry"] = "false"
    if code is Refusal.WEBSOCKET_NOT_SUPPORTED:
        headers["upgrade"] = "HTTP/1.1"  # RFC 9110 wants one with a 426: plain HTTP is what is served here
    return headers


def _entry(shape: Shape, model_id: str) -> dict[str, Any]:
    if shape == "openai":
        return {"id": model_id, "object": "model", "created": 0, "owned_by": "assize"}
    if shape == "anthropic":
        return {"type": "model", "id": model_id, "display_name": model_id, "created_at": _UNKNOWN_DATE}
    name = f"models/{model_id}"
    return {"name": name, "displayName": model_id, "supportedGenerationMethods": list(_GOOGLE_METHODS)}


def model_list(shape: Shape, ids: Sequence[str]) -> bytes:
    """The local answer to a model listing: exactly `ids`, in their order, in one page."""
    entries = [_entry(shape, model_id) for model_id in ids]
    if shape == "openai":
        return _dump({"object": "list", "data": entries})
    if shape == "anthropic":
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        return _dump({"data": entries, "has_more": False, "first_id": first, "last_id": last})
    return _dump({"models": entries})


def model_entry(shape: Shape, id: str) -> bytes:
    """The local answer to a question for one model."""
    return _dump(_entry(shape, id))
