"""One model call until it is answered, refused or given up: which trouble is waited out, and how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.conversation import first, mapped
from workers.adapters.shell.ending import Why
from workers.adapters.shell.errors import LinkBrokenError, ShellError
from workers.adapters.shell.texts import shortened
from workers.adapters.shell.transport import Answer, Link
from workers.relay.wire.refusals import Refusal

MOST_RETRIES: Final = 6
FIRST_PAUSE_S: Final = 1.0

_SECONDS: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_DETAIL_BYTES: Final = 1 << 10


@dataclass(frozen=True)
class Trouble:
    """A call without a usable answer. `again`: it is worth another try, after `pause_s` if that is given."""

    why: Why
    detail: str
    again: bool
    pause_s: float | None = None


class GivenUpError(ShellError):
    """No further call makes sense."""

    def __init__(self, why: Why, detail: str) -> None:
        super().__init__(f"{why}: {detail}")
        self.why = why
        self.detail = detail


def judge(answer: Answer) -> Mapping[str, Any] | Trouble:
    """The body of a good answer, or what is wrong with the answer."""
    body = answer.body
    if 200 <= answer.status < 300:
        if body is None:
            return Trouble(Why.PROVIDER, f"status {answer.status}, body unreadable", again=True)
        if not body.get("error"):
            return body
        return Trouble(Why.PROVIDER, _described(answer), again=True)
    if 400 <= answer.status < 500 and answer.status != 429:
        return Trouble(Why.REFUSED, _described(answer), again=False)
    why = Why.RELAY if _code(answer) == Refusal.PLATFORM_FAULT else Why.PROVIDER
    again = answer.headers.get("x-should-retry", "").strip().lower() != "false"
    return Trouble(why, _described(answer), again, _retry_after_s(answer.headers))


def pause_s(retry: int, wanted_s: float | None) -> float:
    """Seconds before retry `retry` (from 1): what the provider wants, else twice as long every time."""
    return FIRST_PAUSE_S * 2 ** (retry - 1) if wanted_s is None else wanted_s


def ask(
    link: Link, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds
) -> Mapping[str, Any]:
    """The answer's body; at most `MOST_RETRIES` retries, none that could not start before the deadline.

    Raises `GivenUpError`, and `StoppedError` or `DeadlinePassedError` by `bounds`.
    """
    retry = 0
    while True:
        bounds.check()
        found = _once(link, path, headers, body, bounds)
        if not isinstance(found, Trouble):
            return found
        retry += 1
        if not found.again:
            raise GivenUpError(found.why, found.detail)
        if retry > MOST_RETRIES:
            raise GivenUpError(found.why, f"{found.detail}; {MOST_RETRIES} retries did not help")
        pause = pause_s(retry, found.pause_s)
        if pause >= bounds.left_s():
            raise GivenUpError(found.why, f"{found.detail}; no time is left for a retry")
        bounds.pause(pause)


def _once(
    link: Link, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds
) -> Mapping[str, Any] | Trouble:
    try:
        return judge(link.post(path, headers, body, bounds))
    except LinkBrokenError as error:
        return Trouble(Why.RELAY, str(error), again=True)


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds; a date or nonsense counts as nothing."""
    found = _SECONDS.fullmatch(headers.get("retry-after", "").strip())
    return None if found is None else float(found[0])


def _code(answer: Answer) -> str:
    """The code of an error, wherever its family puts it; empty without one."""
    error = mapped(mapped(answer.body).get("error"))
    reason = first(error.get("details")).get("reason")
    for value in (reason, *(error.get(name) for name in ("code", "type", "status"))):
        if isinstance(value, str):
            return value.lower()
    return ""


def _described(answer: Answer) -> str:
    code = _code(answer)
    error = mapped(answer.body).get("error")
    message = mapped(error).get("message", error)
    said = f": {message}" if isinstance(message, str) else ""
    return shortened(f"status {answer.status}{f' ({code})' if code else ''}{said}", _DETAIL_BYTES)
