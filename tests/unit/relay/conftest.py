"""A desk that decides on requests as a lane does, and a bench for one call, with no relay around them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from orchestrator.evidence.transcript import Kind, ledger_of, read
from orchestrator.prices.entry import ModelPrice, Rates, Tier
from orchestrator.prices.sheet import PriceSheet
from workers.relay.admission import Admission, Terms, examine
from workers.relay.budget import Budget
from workers.relay.config import LaneOrder, Pin, Policy, Provider
from workers.relay.errors import RefusedError
from workers.relay.exchange import Exchange
from workers.relay.gate import Gate
from workers.relay.history import History
from workers.relay.lane import Lane
from workers.relay.outbox import Head
from workers.relay.redact import Redactor
from workers.relay.routes import Purpose, Route
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness

AT: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
FIRST: Final = date(2026, 1, 1)
_CHAT: Final = Route(Family.OPENAI_CHAT, Purpose.GENERATE, "/chat/completions")
Found = TypeVar("Found")


def _rates(**nusd_per_token: int) -> Rates:
    return Rates(**{name: rate * 1_000_000 for name, rate in nusd_per_token.items()})


def _entry(provider: str, model: str, rates: Rates, **more: Any) -> ModelPrice:
    values = {"max_output_tokens": 4096, "valid_from": FIRST, "retrieved": FIRST, "source": "fictional"}
    return ModelPrice(provider=provider, ids=(model,), standard=rates, **{**values, **more})


def _sheet() -> PriceSheet:
    claude = _rates(input=3, output=15, cache_read=1, cache_write_5m=4, cache_write_1h=6)
    sound = _rates(input=2, output=8, audio_input=40, audio_output=80)
    long = Tier(above_input_tokens=1000, rates=_rates(input=4, output=20))
    entries = [
        _entry("openai", "plain", _rates(input=2, output=8, cache_read=1)),
        _entry("openai", "writing", _rates(input=2, output=8, cache_write_5m=5)),
        _entry("openai", "open-ended", _rates(input=2, output=8), max_output_tokens=None),
        _entry("openai", "sound", sound),
        _entry("openai", "vectors", _rates(input=2), max_output_tokens=None),
        _entry("openai", "retired", _rates(input=2, output=8), valid_to=date(2026, 6, 1)),
        _entry("openai", "inputless", _rates(output=8)),
        _entry("anthropic", "claude", claude, max_output_tokens=64_000, per_call={"web_search": 10_000}),
        _entry("google", "gem", _rates(input=2, output=10), tiers=(long,)),
        _entry("x-ai", "grok", _rates(input=2, output=8)),
        _entry("x-ai", "grok-open", _rates(input=2, output=8), max_output_tokens=None),
    ]
    return PriceSheet.of("tests", FIRST, entries)


_PROVIDERS: Final = {
    "openai": Provider("openai", "http://openai.test/v1", "k" * 20),
    "x-ai": Provider("x-ai", "http://xai.test/v1", "k" * 20, chat_limit_field="max_tokens"),
    "anthropic": Provider("anthropic", "http://anthropic.test", "k" * 20, families=(Family.ANTHROPIC,)),
    "google": Provider("google", "http://google.test", "k" * 20, families=(Family.GOOGLE,)),
}


class Desk:
    """One lane's admission. `asks` decides on a body and holds nothing, `refuses` gives a refusal's code."""

    at = AT

    def __init__(
        self,
        *,
        cap_nusd: int | None = 1_000_000_000,
        step_limit: int | None = None,
        policy: Policy | None = None,
        also_pinned: Mapping[str, str] | None = None,
        state_dir: Path = Path("state"),
    ) -> None:
        self.sheet = _sheet()
        pins = tuple(Pin(one.ids[0], one.provider) for one in self.sheet.entries)
        pins += tuple(Pin(model, provider) for model, provider in (also_pinned or {}).items())
        order = LaneOrder(
            "lane", "agent", state_dir, Path("socket"), pins, cap_nusd, step_limit, policy or Policy()
        )
        self.budget = Budget(cap_nusd, step_limit)
        self.history = History()
        self.terms = Terms(order, _PROVIDERS, self.sheet, self.history)
        self._calls = 0

    def price(self, model: str) -> ModelPrice:
        """The model's only entry."""
        return next(one for one in self.sheet.entries if model in one.ids)

    def asks(
        self,
        family: Family,
        body: Mapping[str, Any] | bytes,
        *,
        betas: tuple[str, ...] = (),
        model: str | None = None,
        purpose: Purpose = Purpose.GENERATE,
    ) -> Admission:
        raw = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        route = Route(family, purpose, "/somewhere", model)
        return examine(route, raw, betas, self.terms, self.budget, AT)

    def refuses(self, family: Family, body: Mapping[str, Any] | bytes, **how: Any) -> str:
        with pytest.raises(RefusedError) as caught:
            self.asks(family, body, **how)
        assert caught.value.message
        return caught.value.code.value

    def said(self, family: Family, body: Mapping[str, Any] | bytes, **how: Any) -> str:
        """The sentence of a refusal."""
        with pytest.raises(RefusedError) as caught:
            self.asks(family, body, **how)
        return caught.value.message

    def holds(self, admitted: Admission) -> int:
        """Let the call start; returns its number."""
        assert admitted.held is not None
        self._calls += 1
        self.budget.hold(self._calls, admitted.held.nusd)
        return self._calls

    def settles(self, call: int, cost_nusd: int) -> None:
        """The call's cost is exactly known."""
        self.budget.settle(call, Completeness.EXACT, cost_nusd)


class Content:
    """The pieces of a body; an exception among them is raised, an event is waited for."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = pieces

    async def iter_any(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, BaseException):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    def at_eof(self) -> bool:
        return True


class Answer:
    def __init__(self, status: int, headers: dict[str, str], pieces: list[Any]) -> None:
        self.status, self.headers, self.content = status, headers, Content(pieces)

    def close(self) -> None:
        """Nothing to give back."""

    release = close


class Scripted:
    """Stands for `Upstream`: one answer or one error for every call."""

    def __init__(self, providers: Mapping[str, Provider], given: Answer | Exception) -> None:
        self.gates = {name: Gate(provider) for name, provider in providers.items()}
        self._given = given

    async def send(self, provider: Provider, url: str, headers: Any, body: bytes) -> Answer:
        if isinstance(self._given, Exception):
            raise self._given
        return self._given


class ExchangeBench:
    """A lane with its transcript in a folder; `play` brings one admitted call to its end."""

    answer = Answer

    def __init__(self, desk: Desk, key: str) -> None:
        self._desk = desk
        terms = desk.terms
        self._providers = terms.providers
        self.lane = Lane(terms.order, terms.providers, terms.prices, Redactor([key]), lambda lane: None)
        self.held_nusd = 0

    def begin(self, route: Route) -> Exchange:
        """Admit a call as the handler does."""
        google = route.family is Family.GOOGLE
        body = {"contents": []} if google else {"model": "plain", "max_tokens": 50}
        admitted = replace(self._desk.asks(route.family, body, model=route.model), route=route)
        assert admitted.held is not None
        call, self.held_nusd = self.lane.next_call(), admitted.held.nusd
        shown = {"purpose": "generate", "model": admitted.pin.model, "provider": admitted.provider.name}
        self.lane.record(Kind.ADMIT, call, {**shown, "holdNusd": self.held_nusd})
        self.lane.budget.hold(call, self.held_nusd)
        return Exchange(self.lane, call, admitted, [])

    def upstream(self, given: Answer | Exception) -> Any:
        return Scripted(self._providers, given)

    def plays(self, given: Answer | Exception, route: Route = _CHAT) -> tuple[Head | None, bytes]:
        """Head and bytes that the client gets; the money on disk is then the money in memory."""

        async def play() -> tuple[Head | None, bytes]:
            exchange = self.begin(route)
            await exchange.run(self.upstream(given))
            return await self.seen(exchange)

        return self.run(play())

    def plays_on(self, given: Answer) -> tuple[Head | None, bool]:
        """The head, and whether the client saw the answer break off."""

        async def play() -> tuple[Head | None, bool]:
            exchange = self.begin(_CHAT)
            await exchange.run(self.upstream(given))
            return await exchange.outbox.head(), exchange.outbox.broken

        return self.run(play())

    async def seen(self, exchange: Exchange) -> tuple[Head | None, bytes]:
        """What the client gets of a call."""
        head, body = await exchange.outbox.head(), b""
        while (data := await exchange.outbox.take()) is not None:
            body += data
        return head, body if head is None or head.body is None else head.body

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """In a loop of its own, and not for ever."""
        return asyncio.run(asyncio.wait_for(work, 20))

    def raw(self) -> bytes:
        return (self.lane.order.state_dir / "transcript.jsonl").read_bytes()

    def of(self, kind: Kind) -> list[Mapping[str, Any]]:
        return [record for record in read(self.raw()).records if record["kind"] == kind]

    def payload(self) -> bytes:
        """Everything that was kept of the answer."""
        kept = (record["payload"] for record in self.of(Kind.BODY))
        return b"".join(
            base64.b64decode(one["base64"]) if "base64" in one else one["text"].encode() for one in kept
        )

    def money(self) -> tuple[int, int, int]:
        """Spent, held and steps, which the transcript alone must give as well."""
        budget = self.lane.budget
        assert ledger_of(read(self.raw()).records).spent_nusd == budget.spent_nusd + budget.held_nusd
        return budget.spent_nusd, budget.held_nusd, budget.steps


@pytest.fixture(scope="session")
def desk() -> Callable[..., Desk]:
    """Makes desks; every model of the sheet is pinned."""
    return Desk


@pytest.fixture(scope="session")
def exchange_bench() -> Callable[[Desk, str], ExchangeBench]:
    """Makes a bench of a desk and the key that must not be seen."""
    return ExchangeBench
