"""Retries of the reference agent's model calls: what is waited out, how long, and what ends it at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from workers.adapters.shell.asking import MOST_RETRIES, GivenUpError, ask, judge, pause_s
from workers.adapters.shell.bounds import TICK_S, Bounds
from workers.adapters.shell.ending import Why
from workers.adapters.shell.errors import DeadlinePassedError, LinkBrokenError, StoppedError
from workers.adapters.shell.transport import Answer, parsed
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import STATUS, Refusal, refusal_body, refusal_headers

GOOD = Answer(200, {}, {"choices": []})
NOT_REFUSALS = {Refusal.PROVIDER_UNREACHABLE, Refusal.PLATFORM_FAULT, Refusal.RATE_LIMITED}


@dataclass
class Scene:
    """A clock that moves only when somebody waits, and a link that plays answers."""

    script: list[Answer | LinkBrokenError]
    deadline: float = 10_000.0
    stop_at: float = float("inf")
    now_s: float = 0.0
    naps: list[float] = field(default_factory=list)
    calls_at: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.naps.append(seconds)
        self.now_s += seconds

    def bounds(self) -> Bounds:
        return Bounds(self.deadline, lambda: self.now_s >= self.stop_at, lambda: self.now_s, self.sleep)

    def post(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any], bounds: Bounds) -> Answer:
        self.calls_at.append(self.now_s)
        found = self.script.pop(0)
        if isinstance(found, LinkBrokenError):
            raise found
        return found

    def ask(self) -> Mapping[str, Any]:
        return ask(self, "/", {}, {}, self.bounds())


def status(code: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(code, named, {"error": {"message": "busy", "type": "overloaded"}})


TROUBLES: dict[str, Callable[[], Answer | LinkBrokenError]] = {
    "429": lambda: status(429),
    "500": lambda: status(500),
    "502": lambda: status(502),
    "529": lambda: status(529),
    "a redirect": lambda: status(302),
    "a broken connection": lambda: LinkBrokenError("gone"),
    "an unreadable body": lambda: Answer(200, {}, None),
    "an error inside a 200": lambda: status(200),
}


@pytest.mark.parametrize("name", list(TROUBLES))
def test_passing_trouble_is_waited_out(name: str) -> None:
    """Two failures, then the answer: 1 s and 2 s of waiting."""
    make = TROUBLES[name]
    scene = Scene([make(), make(), GOOD])
    assert scene.ask() == GOOD.body
    assert scene.calls_at == pytest.approx([0, 1, 3])


@pytest.mark.parametrize("name", list(TROUBLES))
def test_lasting_trouble_ends_after_six_retries(name: str) -> None:
    """Seven calls, each pause twice the one before; the reason is whose trouble it was."""
    scene = Scene([TROUBLES[name]() for _ in range(MOST_RETRIES + 5)])
    with pytest.raises(GivenUpError, match="6 retries") as caught:
        scene.ask()
    assert scene.calls_at == pytest.approx([0, 1, 3, 7, 15, 31, 63])
    assert caught.value.why is (Why.RELAY if name == "a broken connection" else Why.PROVIDER)


def test_every_wait_is_cut_into_ticks() -> None:
    """`stop` is looked at after each nap, so no nap may be longer than a tick."""
    scene = Scene([status(529), GOOD])
    scene.ask()
    assert max(scene.naps) <= TICK_S
    assert sum(scene.naps) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("value", "waited"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        ("", 1.0),
        ("-3", 1.0),
        ("soon", 1.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0),
        ("1e3", 1.0),
        ("٣", 1.0),
    ],
)
def test_retry_after_decides_when_it_is_in_seconds(value: str, waited: float) -> None:
    """Anything else falls back to the doubling pause."""
    scene = Scene([status(429, retry_after=value), GOOD])
    scene.ask()
    assert scene.calls_at[1] == pytest.approx(waited)


def test_no_retry_that_could_not_start_before_the_deadline() -> None:
    """Nothing is gained by waiting then; the trouble stays the provider's."""
    scene = Scene([status(429, retry_after="60")], deadline=60.0)
    with pytest.raises(GivenUpError, match="no time is left") as caught:
        scene.ask()
    assert caught.value.why is Why.PROVIDER
    assert scene.naps == []


def test_the_deadline_is_looked_at_before_a_call() -> None:
    """No call is begun without time for it."""
    scene = Scene([GOOD], deadline=0.0)
    with pytest.raises(DeadlinePassedError):
        scene.ask()
    assert scene.calls_at == []


def test_a_cancel_ends_a_pause_within_a_tick() -> None:
    """Not at its end."""
    scene = Scene([status(500), status(500), status(500), status(500), GOOD], stop_at=9.05)
    with pytest.raises(StoppedError):
        scene.ask()
    assert scene.now_s <= scene.stop_at + TICK_S


@pytest.mark.parametrize("family", [Family.OPENAI_CHAT, Family.ANTHROPIC, Family.GOOGLE])
@pytest.mark.parametrize("code", [code for code in Refusal if code not in NOT_REFUSALS])
def test_a_refusal_of_the_relay_ends_it_at_once(code: Refusal, family: Family) -> None:
    """In every family's error shape; the reason is told with its code."""
    body = parsed(refusal_body(family, code, "the cap is reached"))
    scene = Scene([Answer(STATUS[code], refusal_headers(code), body)])
    with pytest.raises(GivenUpError) as caught:
        scene.ask()
    assert caught.value.why is Why.REFUSED
    assert caught.value.detail == f"status {STATUS[code]} ({code.value}): the cap is reached"


def test_trouble_of_the_platform_is_neither_repeated_nor_the_providers() -> None:
    """The relay says so in its refusal; the whole try ends then."""
    code = Refusal.PLATFORM_FAULT
    answer = Answer(STATUS[code], refusal_headers(code), parsed(refusal_body(None, code, "trouble")))
    scene = Scene([answer])
    with pytest.raises(GivenUpError) as caught:
        scene.ask()
    assert caught.value.why is Why.RELAY


def test_an_unreachable_provider_is_asked_again() -> None:
    """The relay's answer for it has a 5xx status and asks for no end."""
    code = Refusal.PROVIDER_UNREACHABLE
    answer = Answer(STATUS[code], refusal_headers(code), parsed(refusal_body(None, code, "no answer")))
    assert Scene([answer, GOOD]).ask() == GOOD.body


def test_a_provider_that_wants_no_retry_gets_none() -> None:
    """`x-should-retry: false` on a 429."""
    scene = Scene([status(429, x_should_retry="False")])
    with pytest.raises(GivenUpError) as caught:
        scene.ask()
    assert caught.value.why is Why.PROVIDER


@pytest.mark.parametrize("code", [400, 401, 402, 403, 404, 413, 415, 422, 426])
def test_other_client_errors_end_it_at_once(code: int) -> None:
    """A request that was refused will be refused again."""
    with pytest.raises(GivenUpError) as caught:
        Scene([status(code)]).ask()
    assert caught.value.why is Why.REFUSED


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"error": None},
        {"error": "no"},
        {"error": []},
        {"error": {"message": 5, "code": 5}},
        {"error": {"details": "x", "code": None}},
        {"error": {"details": [5], "message": "y" * 100_000}},
    ],
)
@pytest.mark.parametrize("code", [199, 304, 400, 500])
def test_any_error_body_can_be_described(body: Any, code: int) -> None:
    """The shape of an error is not relied on, and its text is bounded."""
    found = judge(Answer(code, {}, body))
    assert not isinstance(found, Mapping)
    assert found.detail.startswith(f"status {code}") and len(found.detail) < 2000


def test_pauses_double() -> None:
    """From one second on."""
    pauses = [pause_s(retry, None) for retry in range(1, MOST_RETRIES + 1)]
    assert pauses[0] == 1.0
    assert all(after == 2 * before for before, after in itertools.pairwise(pauses))
