"""What a lane shows its worker while it runs, and its totals at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.usage import Completeness

Fault = Literal["provider", "platform"]
LastCall = Literal["ok", "agent", "provider", "platform"]

LEASE_LOST: Final = "lease"
"""The `platform_fault` of a lane that was not told in time that its attempt is still held."""


@dataclass
class Tally:
    """Counters of one lane, written by the relay's event loop only. Times are microseconds since it opened.

    `last_generation` says whose trouble the last ended model call was; `provider_failures` counts those in
    a row that failed by the provider. `platform_fault` names trouble of the house itself.
    """

    first_call_us: int | None = None
    cap_refused_us: int | None = None
    step_refused_us: int | None = None
    refusals: Counter[str] = field(default_factory=Counter)
    answered_locally: int = 0
    exact: int = 0
    bounded: int = 0
    unknown: int = 0
    used: Buckets = field(default_factory=Buckets)
    list_nusd: int = 0
    standard_nusd: int = 0
    last_generation: LastCall | None = None
    provider_failures: int = 0
    platform_fault: str | None = None
    flags: Counter[str] = field(default_factory=Counter)
    served_models: Counter[str] = field(default_factory=Counter)

    def called(self, at_us: int) -> None:
        """The client asked for a model call, admitted or not."""
        if self.first_call_us is None:
            self.first_call_us = at_us

    def refused(self, code: Refusal, at_us: int) -> None:
        """The relay itself answered no."""
        self.refusals[code.value] += 1
        if code is Refusal.CAP_REACHED and self.cap_refused_us is None:
            self.cap_refused_us = at_us
        if code is Refusal.STEP_LIMIT and self.step_refused_us is None:
            self.step_refused_us = at_us

    def ended(self, last: LastCall) -> None:
        """A model call came to its end, one way or another."""
        self.last_generation = last
        self.provider_failures = self.provider_failures + 1 if last == "provider" else 0

    def settled(
        self,
        completeness: Completeness,
        used: Buckets | None,
        list_nusd: int | None,
        standard_nusd: int | None,
    ) -> None:
        """Add up a call that the provider answered; without both costs it is not exact."""
        if used is not None and list_nusd is not None and standard_nusd is not None:
            self.exact += 1
            self.used += used
            self.list_nusd += list_nusd
            self.standard_nusd += standard_nusd
        elif completeness is Completeness.BOUNDED:
            self.bounded += 1
        else:
            self.unknown += 1

    @property
    def complete(self) -> bool:
        """Whether every cost is exactly known; only then is a cost published."""
        return not (self.bounded or self.unknown)

    def as_data(self) -> dict[str, Any]:
        """Plain data for the worker and for the closing record."""
        return {
            "firstCallUs": self.first_call_us,
            "capRefusedUs": self.cap_refused_us,
            "stepRefusedUs": self.step_refused_us,
            "refusals": dict(sorted(self.refusals.items())),
            "answeredLocally": self.answered_locally,
            "exact": self.exact,
            "bounded": self.bounded,
            "unknown": self.unknown,
            "complete": self.complete,
            "usage": {**self.used.tokens(), "calls": dict(sorted(self.used.calls.items()))},
            "listNusd": self.list_nusd if self.complete else None,
            "standardNusd": self.standard_nusd if self.complete else None,
            "lastGeneration": self.last_generation,
            "providerFailures": self.provider_failures,
            "platformFault": self.platform_fault,
            "flags": dict(sorted(self.flags.items())),
            "servedModels": dict(sorted(self.served_models.items())),
        }


@dataclass(frozen=True)
class LaneState:
    """A snapshot of a lane as its worker sees it.

    `tally` is `Tally.as_data()`. `spent_nusd` holds the holds of calls that are not exactly known;
    `steps` counts model calls that a provider took.
    """

    lane_id: str
    steps: int
    spent_nusd: int
    held_nusd: int
    overrun_nusd: int
    open_calls: int
    tally: Mapping[str, Any]

    def as_data(self) -> dict[str, Any]:
        """Plain data for the pipe."""
        return {**vars(self), "tally": dict(self.tally)}


@dataclass(frozen=True)
class LaneSummary:
    """The end of a lane: its last state, and the transcript that it rests on.

    `head` is the hash of the last record, `records` their number. `prices_digest` names the price sheet.
    """

    state: LaneState
    head: str
    records: int
    prices_id: str
    prices_date: str
    prices_digest: str

    def as_data(self) -> dict[str, Any]:
        """Plain data for the pipe."""
        return {**vars(self), "state": self.state.as_data()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LaneSummary:
        """The inverse of `as_data`."""
        return cls(**{**data, "state": LaneState(**data["state"])})
