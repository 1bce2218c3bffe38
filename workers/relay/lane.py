"""One lane: who may call what for how much, and everything that was counted."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from orchestrator.evidence.transcript import Kind
from orchestrator.prices.sheet import PriceSheet
from workers.relay.admission import Terms
from workers.relay.budget import Budget
from workers.relay.config import LaneOrder, Provider
from workers.relay.errors import RefusedError
from workers.relay.history import History
from workers.relay.intake import Intake
from workers.relay.outbox import Head
from workers.relay.redact import Redactor
from workers.relay.state import LEASE_LOST, LaneState, LaneSummary, Tally
from workers.relay.transcript import Transcript
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import STATUS, Refusal, refusal_body, refusal_headers

TOKEN_BYTES: Final = 32
REPORT_S: Final = 0.01
"""The worker is told of a change this much later, and of all that happened in between at once: two reports
for each call took a tenth of the relay's time (measured), and calls waited for them."""
_DENIES_KEPT: Final = 1_000
"""Denied requests that are recorded one by one; a storm beyond that is counted only."""


class Lane:
    """State of a lane in the relay's event loop; nothing here waits.

    `over` is set in the moment the attempt ends: from then on every request is refused. `served` names the
    models that have answered with an exact usage, `released` counts the calls that failed without cost.
    """

    def __init__(
        self,
        order: LaneOrder,
        providers: Mapping[str, Provider],
        prices: PriceSheet,
        redactor: Redactor,
        changed: Callable[[Lane], None],
    ) -> None:
        self.order = order
        self.token: Final = secrets.token_hex(TOKEN_BYTES)
        self.budget = Budget(order.cap_nusd, order.step_limit)
        self.history = History()
        self.terms = Terms(order, providers, prices, self.history)
        self.redactor = redactor
        self.tally = Tally()
        self.over = False
        self.calls_until = order.calls_until
        self.served: set[str] = set()
        self.intake = Intake()
        self.released = 0
        self.calls: dict[int, asyncio.Task[None]] = {}
        self._changed = changed
        self._report: asyncio.TimerHandle | None = None
        self._count = 0
        self._denied = 0
        self._transcript = Transcript(order.state_dir, order.lane_id)
        self.record(Kind.OPEN, 0, self._terms_shown(prices))

    def _terms_shown(self, prices: PriceSheet) -> dict[str, Any]:
        """The lane's terms, and where its providers are: a name alone could mean any address."""
        order = self.order.as_data()
        shown = {
            name: order[name] for name in ("kind", "pins", "cap_nusd", "step_limit", "policy", "rehearsal")
        }
        named = sorted({pin.provider for pin in self.order.pins} & self.terms.providers.keys())
        return {
            **shown,
            "providers": {name: self.terms.providers[name].address for name in named},
            "prices": {"id": prices.id, "date": prices.date.isoformat(), "digest": prices.digest},
        }

    def knows(self, tokens: Iterable[str]) -> bool:
        """Whether one of these is the lane's token."""
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in tokens)

    def require_lease(self) -> None:
        """Refuse a call that would start after the attempt's lease was last known to be good.

        The bound is a moment, not a command to stop: a worker that is frozen or dead says nothing.
        """
        if self.calls_until is None or time.monotonic() < self.calls_until:
            return
        if self.tally.platform_fault is None:
            self.tally.platform_fault = LEASE_LOST
        self.changed()
        raise RefusedError(Refusal.PLATFORM_FAULT, "this host has lost touch with its ledger; the try ends")

    def next_call(self) -> int:
        """The number of a new call, from 1."""
        self._count += 1
        return self._count

    def now_us(self) -> int:
        """Microseconds since the lane was opened."""
        return self._transcript.since_open_us()

    def record(
        self,
        kind: Kind,
        call: int,
        data: Mapping[str, Any],
        payload: bytes | None = None,
        *,
        with_next: bool = False,
    ) -> None:
        """Append to the transcript (see `Transcript.add`); `OSError` is the caller's to handle."""
        self._transcript.add(kind, call, data, payload, with_next=with_next)

    def deny(self, call: int, code: Refusal, message: str, request: Mapping[str, Any], body: bytes) -> None:
        """Count and record a refusal; the body's digest stays, its text does not."""
        self.tally.refused(code, self.now_us())
        self._denied += 1
        if self._denied <= _DENIES_KEPT:
            data = {"code": code.value, "message": message, "request": dict(request)}
            self._transcript.add(Kind.DENY, call, data, self.redactor.scrub(body), keep=False)
        self.changed()

    def note(self, flags: Iterable[str], served: str | None, asked: str) -> None:
        """Count what was odd about an answer; a model of another name is normal, and shown."""
        self.tally.flags.update(flags)
        if served is not None and served != asked:
            self.tally.served_models[served[:200]] += 1

    def refusal_head(self, family: Family | None, code: Refusal, message: str) -> Head:
        """A refusal in the family's own error shape."""
        return Head(STATUS[code], list(refusal_headers(code).items()), refusal_body(family, code, message))

    def started(self, call: int, task: asyncio.Task[None]) -> None:
        """A call is under way."""
        self.calls[call] = task
        self.changed()

    def finished(self, call: int) -> None:
        """A call has come to its end."""
        self.calls.pop(call, None)
        self.changed()

    def changed(self) -> None:
        """Tell the worker, soon."""
        if self._report is None:
            self._report = asyncio.get_running_loop().call_later(REPORT_S, self._tell)

    def _tell(self) -> None:
        self._report = None
        self._changed(self)

    def state(self) -> LaneState:
        """A snapshot for the worker."""
        return LaneState(
            lane_id=self.order.lane_id,
            steps=self.budget.steps,
            spent_nusd=self.budget.spent_nusd,
            held_nusd=self.budget.held_nusd,
            overrun_nusd=self.budget.overrun_nusd,
            open_calls=len(self.calls),
            tally=self.tally.as_data(),
        )

    async def drain(self, drain_s: float) -> None:
        """Read open calls to their end, at most `drain_s`; then what they cost stays unknown."""
        open_calls = list(self.calls.values())
        if open_calls:
            await asyncio.wait(open_calls, timeout=drain_s)
        for task in open_calls:
            task.cancel()
        await asyncio.gather(*open_calls, return_exceptions=True)

    def close(self) -> LaneSummary:
        """Write the last record and give the summary; nothing may be recorded afterwards."""
        if self._report is not None:
            self._report.cancel()
        state = self.state()
        prices = self.terms.prices
        closing = {name: value for name, value in state.as_data().items() if name != "lane_id"}
        self.record(Kind.CLOSE, 0, {**closing, "denied": self._denied})
        self._transcript.close()
        return LaneSummary(
            state,
            self._transcript.head,
            self._transcript.records,
            prices.id,
            prices.date.isoformat(),
            prices.digest,
        )
