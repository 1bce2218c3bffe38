"""The way to an agent's own endpoint: one address, no redirects, limits on calls, bytes and time.

What is refused here is answered like a refusal of the relay, so that the loop ends on it as on one.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from orchestrator.agents.endpoint import address_of
from workers.adapters.endpoint.address import Address
from workers.adapters.endpoint.stream import BoundedConnection, BoundedStream
from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.errors import DeadlinePassedError, LinkBrokenError
from workers.adapters.shell.transport import OURS, Answer, encoded, read_answer

ANSWER_LIMIT_BYTES: Final = 4 << 20
TRY_LIMIT_BYTES: Final = 64 << 20
"""All answers of one try together."""
CALL_LIMIT_S: Final = 600.0
SESSION_HEADER: Final = "x-assize-session"


class Limit(StrEnum):
    """Which limit of ours a call was refused for."""

    STEPS = "step_limit"
    BYTES = "byte_limit"
    LEASE = "platform_fault"


@dataclass(frozen=True)
class Target:
    """An endpoint as it is called in one try. `session` tells its calls from those of other tries."""

    url: str
    address: Address
    tls: ssl.SSLContext | None
    session: str
    step_limit: int | None
    key: str | None = field(default=None, repr=False)


def _unbounded() -> None:
    """Nobody else can have the attempt."""


class EndpointLink:
    """A `Link` to one endpoint for one try; `reached` says which limit was hit, `answered` counts answers.

    `calls_until` is asked before each call: when the last one may start, on the monotonic clock.
    """

    def __init__(self, target: Target, calls_until: Callable[[], float | None] = _unbounded) -> None:
        self._target = target
        self._calls_until = calls_until
        self._left_bytes = TRY_LIMIT_BYTES
        self.answered = 0
        self.reached: Limit | None = None
        parts = urlsplit(target.url)
        self._host = address_of(target.url)
        self._name = parts.hostname or ""
        self._path = f"{parts.path.rstrip('/')}/chat/completions"

    def post(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds) -> Answer:
        """See `Link`; `path` and the key in `headers` are those of a relay, and count for nothing here."""
        until = self._calls_until()
        if until is not None and time.monotonic() >= until:
            return self._refuse(Limit.LEASE, "this host has lost touch with its ledger; the try ends")
        limit = self._target.step_limit
        if limit is not None and self.answered >= limit:
            return self._refuse(Limit.STEPS, f"this try has {limit} calls")
        if self._left_bytes <= 0:
            return self._refuse(Limit.BYTES, f"the answers of a try have at most {TRY_LIMIT_BYTES} bytes")
        hurried = replace(bounds, deadline=min(bounds.deadline, bounds.now() + CALL_LIMIT_S))
        try:
            answer = self._exchange(encoded(body), hurried)
        except (OSError, http.client.HTTPException) as error:
            raise LinkBrokenError(f"no whole answer from the endpoint ({type(error).__name__})") from None
        except DeadlinePassedError:
            bounds.check()
            raise LinkBrokenError(f"no answer from the endpoint within {CALL_LIMIT_S:.0f} s") from None
        if 300 <= answer.status < 400:
            return _refusal("redirect", "the endpoint redirects, which is not followed")
        self.answered += 200 <= answer.status < 300
        return answer

    def _exchange(self, raw: bytes, bounds: Bounds) -> Answer:
        target = self._target
        stream = BoundedStream.open(target.address, bounds, target.tls, self._name)
        connection = BoundedConnection(self._host, stream)
        try:
            connection.request("POST", self._path, raw, self._headers())
            with connection.getresponse() as response:
                return read_answer(response, min(ANSWER_LIMIT_BYTES, self._left_bytes))
        finally:
            self._left_bytes -= stream.received_bytes
            connection.close()
            stream.hang_up()

    def _headers(self) -> dict[str, str]:
        target = self._target
        ours = {**OURS, "user-agent": "assize/1", "connection": "close", SESSION_HEADER: target.session}
        return ours if target.key is None else {**ours, "authorization": f"Bearer {target.key}"}

    def _refuse(self, limit: Limit, message: str) -> Answer:
        self.reached = limit
        return _refusal(limit.value, message)


def _refusal(code: str, message: str) -> Answer:
    return Answer(403, {}, {"error": {"code": code, "message": message}})
