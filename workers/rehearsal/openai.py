"""What the OpenAI families share: errors, the place of the key, and how function tools are offered."""

from __future__ import annotations

from typing import Any, Final

from workers.rehearsal.asked import Speaker
from workers.rehearsal.dialect import Refused, wait_headers

KEY_HEADERS: Final = ("authorization",)
REQUEST_ID_HEADER: Final = "x-request-id"

_KINDS: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    429: ("requests", "rate_limit_exceeded"),
}

_SPEAKERS: Final = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
}


def error_object(status: int, message: str) -> dict[str, Any]:
    """`{"error": {...}}` as OpenAI sends it for `status`."""
    fallback = ("server_error" if status >= 500 else "invalid_request_error", None)
    kind, code = _KINDS.get(status, fallback)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refused(status: int, message: str, retry_after_s: int | None) -> Refused:
    """An error answer; `retry_after_s` goes into the `retry-after` header."""
    return Refused(error_object(status, message), wait_headers(retry_after_s))


def speaker_of(role: object) -> Speaker:
    """The neutral speaker of a message's `role`."""
    return _SPEAKERS.get(role, Speaker.OTHER) if isinstance(role, str) else Speaker.OTHER
