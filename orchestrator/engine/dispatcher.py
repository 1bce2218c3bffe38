"""Which slot a free worker takes next, and how it waits when there is none."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from orchestrator.engine.base import Settings, Waiting
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.providers import ProviderFullError
from orchestrator.ledger.queries import Outlook, outlook
from orchestrator.ledger.transitions import Claim, claim, queue, stop_at_cap

_LEAST_WINDOW: Final = 32
"""Slots moved to the queue in one unit at least, so that dispatch costs next to nothing per try."""


class Dispatcher:
    """Shared by the workers of one run: takes turns between screenings, one claim at a time each.

    A worker that finds nothing waits on a condition until an attempt ends or the next start is due. Only
    what other processes do has to be looked for: that is done with every heartbeat, and every `idle_ms`
    while nothing but their attempts is left or a provider has no place. `waits` is told of the latter.
    """

    def __init__(
        self,
        ledger: Ledger,
        owner_id: str,
        screening_ids: Sequence[str],
        settings: Settings,
        parallel: int,
        waits: Callable[[Waiting], None],
    ) -> None:
        self._ledger = ledger
        self._owner_id = owner_id
        self._ids = tuple(screening_ids)
        self._settings = settings
        self._window = max(2 * parallel, _LEAST_WINDOW)
        self._condition = threading.Condition()
        self._turns = deque(screening_ids)
        self._waits = waits
        self._dry: set[str] = set()
        self._said: set[Waiting] = set()
        self._changes = 0
        self._running = 0
        self._stopping = False

    def next_claim(self) -> Claim | None:
        """Block until a slot could be claimed; None when there is nothing left to do."""
        while True:
            with self._condition:
                if self._stopping:
                    return None
                seen = self._changes
                turns = [one for one in self._turns if one not in self._dry]
                self._turns.rotate(-1)
            for screening_id in turns:
                held = self._take(screening_id)
                if held is not None:
                    self._begun()
                    return held
            if not self._wait(seen):
                return None

    def _take(self, screening_id: str) -> Claim | None:
        lease_ms = self._settings.lease_ms
        try:
            held = claim(self._ledger, screening_id, self._owner_id, lease_ms=lease_ms)
            if held is None and queue(self._ledger, screening_id, self._window, who=self._owner_id):
                held = claim(self._ledger, screening_id, self._owner_id, lease_ms=lease_ms)
        except ProviderFullError as full:
            # Not dry: any end, here or elsewhere, may make the place that it needs.
            self._say(Waiting(screening_id, full.provider, full.most))
            return None
        if held is None:
            with self._condition:
                self._dry.add(screening_id)
        return held

    def _begun(self) -> None:
        with self._condition:
            if self._running == 0:
                self._said.clear()
            self._running += 1

    def _say(self, waiting: Waiting) -> None:
        with self._condition:
            new = waiting not in self._said
            self._said.add(waiting)
        if new:
            self._waits(waiting)

    def _wait(self, seen: int) -> bool:
        """Wait for a change; False when no slot is open any more."""
        view = outlook(self._ledger, self._ids)
        if not view.waiting and not view.running:
            return False
        if not view.running and self._due(view) and self._stop_at_cap():
            return True
        with self._condition:
            if self._changes != seen or self._stopping:
                return True
            if not self._condition.wait(self._patience(view)):
                self._dry.clear()
        return True

    def _stop_at_cap(self) -> int:
        return sum(stop_at_cap(self._ledger, screening_id) for screening_id in self._ids)

    def _due(self, view: Outlook) -> bool:
        return view.next_start_ms is not None and view.next_start_ms <= self._now_ms()

    def _now_ms(self) -> int:
        with self._ledger.reading() as connection:
            return self._ledger.clock(connection)

    def _patience(self, view: Outlook) -> float | None:
        """Seconds to wait; None when only this process can change anything."""
        waits = []
        if view.next_start_ms is not None:
            ahead = view.next_start_ms - self._now_ms()
            waits.append(ahead / 1000 if ahead > 0 else self._settings.idle_ms / 1000)
        if view.running > self._running:
            waits.append(self._settings.idle_ms / 1000)
        return min(waits, default=None)

    def ended(self, held: Claim, *, requeued: bool) -> None:
        """An attempt of this process has ended; its slot may be claimable again."""
        with self._condition:
            self._running -= 1
            self._changes += 1
            if requeued:
                self._dry.discard(held.screening_id)
            self._condition.notify_all()

    def look_again(self) -> None:
        """Something may have changed outside this process."""
        with self._condition:
            self._changes += 1
            self._dry.clear()
            self._condition.notify_all()

    def stop(self) -> None:
        """Hand out no more claims; waiting workers return at once."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
