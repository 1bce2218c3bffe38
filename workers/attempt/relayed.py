"""The metered side of one attempt: lane and pod up, watched while the agent works, closed, summed up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orchestrator.attempts import AttemptOrder, RelayTerms
from orchestrator.evidence.transcript import ledger_of, read_whole
from workers.attempt.pods import open_pod
from workers.relay.errors import RelayError
from workers.relay.hub import RelayHub, lane_folder
from workers.relay.process import OpenLane
from workers.relay.state import LEASE_LOST, LaneState, LaneSummary
from workers.relay.transcript import FILE_NAME
from workers.relay.watch import Ending, due, ending
from workers.sandbox.pod import Ground, Pod
from workers.sandbox.station import Station

_CLOSE_S: Final = 120.0


def _unbounded() -> None:
    """Nobody else can have the attempt."""


@dataclass
class Relayed:
    """An open lane with its pod (none for an agent that is driven from outside of the sandbox).

    `calls_until` is asked at every look and passed on to the relay when it has moved.
    """

    terms: RelayTerms
    lane: OpenLane
    folder: Path
    pod: Pod | None = None
    ends_since: float | None = None
    summary: LaneSummary | None = None
    pod_lost: bool = False
    names: list[str] | None = None
    calls_until: Callable[[], float | None] = _unbounded
    _told: float | None = None
    _closing: Future[LaneSummary] | None = field(default=None, repr=False)

    @classmethod
    def open(
        cls,
        hub: RelayHub,
        station: Station,
        order: AttemptOrder,
        terms: RelayTerms,
        *,
        pod: bool,
        ground: Ground | None = None,
        calls_until: Callable[[], float | None] = _unbounded,
    ) -> Relayed:
        """Open the lane, then the pod, on the `ground` of a task with services.

        Raises `RelayError`, `PodError` or an engine error, and then left nothing open.
        """
        until = calls_until()
        lane = hub.open(terms, order.attempt_id, calls_until=until)
        folder = lane_folder(terms.state_root, order.attempt_id, "agent")
        opened = cls(terms, lane, folder, calls_until=calls_until, _told=until)
        if not pod:
            return opened
        try:
            opened.pod = open_pod(
                station,
                order,
                image=terms.forwarder_image,
                socket_dir=lane.socket.parent,
                ground=ground,
                note_names=terms.note_names,
            )
        except BaseException:
            lane.close()
            raise
        return opened

    @property
    def url(self) -> str:
        """The relay's address as the sandbox sees it; without a pod nothing inside may call it."""
        return "" if self.pod is None else self.pod.relay_url

    def keep(self) -> None:
        """Tell the relay when the lease was renewed."""
        until = self.calls_until()
        if until != self._told:
            self._told = until
            self.lane.renew(until)

    def over(self) -> bool:
        """Whether the relay's reports end the try now; looked at many times a second."""
        self.keep()
        state = self.lane.state()
        if ending(state) is None:
            return not self.lane.alive or (self.pod is not None and self.pod.died())
        now = time.monotonic()
        if self.ends_since is None:
            self.ends_since = now
        return due(state, int((now - self.ends_since) * 1000))

    def end(self, station: Station) -> None:
        """Kill the token in the moment the agent is killed; open calls are read to their end meanwhile."""
        if self._closing is None:
            self.pod_lost = self.pod is not None and not self.pod.is_alive()
            if self.pod is not None and self.terms.note_names:
                self.names = self.pod.names_asked()
            self._closing = station.pool.submit(self.lane.close)

    def settle(self) -> None:
        """Wait for the summary; a relay that is lost leaves None, and its transcript."""
        if self._closing is None or self.summary is not None:
            return
        try:
            self.summary = self._closing.result(_CLOSE_S)
        except (RelayError, TimeoutError):
            self.summary = None

    def dispose(self) -> None:
        """Remove the pod; its sandbox is gone or goes first."""
        if self.pod is not None:
            self.pod.close()

    def transcript(self) -> bytes:
        """The transcript as it is on disk; empty if nothing was ever written."""
        path = self.folder / FILE_NAME
        return path.read_bytes() if path.exists() else b""

    def facts(self) -> dict[str, Any]:
        """Observations for `orchestrator.faults`; call after `settle`."""
        if self.summary is None:
            return {"relay_fault": True}
        return facts_of(self.summary.state, pod_lost=self.pod_lost)

    def spent_nusd(self) -> int:
        """What counts against caps: exact costs and every hold whose cost is not exactly known."""
        if self.summary is not None:
            return self.summary.state.spent_nusd
        return ledger_of(read_whole(self.transcript())).spent_nusd

    def report(self) -> Mapping[str, Any]:
        """For the sandbox report: the lane's closing figures."""
        state = None if self.summary is None else self.summary.state.as_data()
        return {
            "lane": state,
            "pricesDigest": self.terms.prices_digest,
            "rehearsal": self.terms.rehearsal is not None,
            **({} if self.names is None else {"namesAsked": self.names}),
        }


def facts_of(state: LaneState, *, pod_lost: bool) -> dict[str, Any]:
    """What a lane's last state says about how the attempt ended: pure."""
    tally, found = state.tally, ending(state)
    lease_lost = tally["platformFault"] == LEASE_LOST
    first = tally["firstCallUs"]
    return {
        "cost_cap_hit": found is Ending.COST_CAP,
        "step_cap_hit": found is Ending.STEP_CAP,
        "relay_fault": (found is Ending.PLATFORM and not lease_lost) or pod_lost,
        "lease_lost": lease_lost,
        "provider_outage": tally["lastGeneration"] == "provider",
        "relay_calls": state.steps,
        "relay_first_call_ms": None if first is None else first // 1000,
        "provider_failures": tally["providerFailures"],
    }
