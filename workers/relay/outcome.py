"""What an answer that is no 2xx means, and what of it the client may see: pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from workers.relay.state import Fault

_PROVIDERS_OWN: Final = frozenset({404, 408, 409, 425, 429})
_ABOUT_THE_REQUEST: Final = frozenset({403, 404, 409})
"""Also said of one request: of its content, its route, its features. See `judge`."""
_OUR_ACCOUNT: Final = frozenset(
    {
        *("api_key_invalid", "api_key_service_blocked", "invalid_api_key"),
        *("insufficient_quota", "billing_hard_limit_reached"),
    }
)
_NO_CREDIT: Final = "Your credit balance is too low"
"""How Anthropic's message begins; its code says no more than that the request was invalid."""


@dataclass(frozen=True)
class Failure:
    """Whose trouble it is; `shown` says whether the client gets the provider's own answer."""

    fault: Fault | None
    shown: bool


def _error(body: bytes) -> dict[str, Any]:
    """The error object of an answer; empty where there is none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, list):  # Google's streams
        found = found[0] if found else None
    error = found.get("error") if isinstance(found, dict) else None
    return error if isinstance(error, dict) else {}


def _codes(error: dict[str, Any]) -> Iterator[str]:
    details = error.get("details")
    for entry in (error, *(details if isinstance(details, list) else ())):
        for name in ("code", "type", "reason"):
            value = entry.get(name) if isinstance(entry, dict) else None
            if isinstance(value, str):
                yield value.lower()


def _about_our_account(body: bytes) -> bool:
    """By the error's own codes only: messages repeat what the agent sent, and it may send such a code."""
    error = _error(body)
    message = error.get("message")
    no_credit = isinstance(message, str) and message.startswith(_NO_CREDIT)
    return no_credit or not _OUR_ACCOUNT.isdisjoint(_codes(error))


def judge(status: int, body: bytes, *, served: bool = False) -> Failure:
    """Classify an answer outside of 2xx.

    Our own key refused or our own account empty is the platform's; a 400 about the request is the agent's
    business (None); throttling, overload and outages are the provider's. `served`: this model has answered
    this lane before, so that key and model are good, and a 403, 404 or 409 is about what was asked.
    """
    if _about_our_account(body):
        return Failure("platform", shown=False)
    if served and status in _ABOUT_THE_REQUEST:
        return Failure(None, shown=True)
    if status in (401, 402, 403, 407):
        return Failure("platform", shown=False)
    if 300 <= status < 400:
        return Failure("provider", shown=False)
    if status in _PROVIDERS_OWN or status >= 500:
        return Failure("provider", shown=True)
    return Failure(None, shown=True)
