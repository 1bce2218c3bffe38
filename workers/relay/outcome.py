"""What an answer that is no 2xx means, and what of it the client may see: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from workers.relay.state import Fault

_PROVIDERS_OWN: Final = frozenset({404, 408, 409, 425, 429})
_BAD_KEY: Final = ("API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "invalid_api_key")
_NO_MONEY: Final = ("insufficient_quota", "credit balance is too low", "billing_hard_limit_reached")


@dataclass(frozen=True)
class Failure:
    """Whose trouble it is; `shown` says whether the client gets the provider's own answer."""

    fault: Fault | None
    shown: bool


def _says(body: bytes, words: tuple[str, ...]) -> bool:
    text = body[:65536].decode("utf-8", "replace")
    return any(word in text for word in words)


def judge(status: int, body: bytes) -> Failure:
    """Classify an answer outside of 2xx.

    Our own key refused or our own account empty is the platform's; a 400 about the request is the agent's
    business (None); throttling, overload and outages are the provider's.
    """
    if status in (401, 402, 403, 407) or _says(body, _BAD_KEY):
        return Failure("platform", shown=False)
    if _says(body, _NO_MONEY):
        return Failure("platform", shown=False)
    if 300 <= status < 400:
        return Failure("provider", shown=False)
    if status in _PROVIDERS_OWN or status >= 500:
        return Failure("provider", shown=True)
    return Failure(None, shown=True)
