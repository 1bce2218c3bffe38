"""A desk that decides on requests as a lane does, with a small price sheet and no relay around it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.prices.entry import ModelPrice, Rates, Tier
from orchestrator.prices.sheet import PriceSheet
from workers.relay.admission import Admission, Terms, examine
from workers.relay.budget import Budget
from workers.relay.config import LaneOrder, Pin, Policy, Provider
from workers.relay.errors import RefusedError
from workers.relay.history import History
from workers.relay.routes import Purpose, Route
from workers.relay.wire.family import Family
from workers.relay.wire.usage import Completeness

AT: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
FIRST: Final = date(2026, 1, 1)


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
    """One lane's admission. `asks` decides on a body and holds nothing; `refuses` gives the refusal's code."""

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


@pytest.fixture(scope="session")
def desk() -> Callable[..., Desk]:
    """Makes desks; every model of the sheet is pinned."""
    return Desk
