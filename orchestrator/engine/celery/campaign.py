"""`Engine` over workers of many hosts: starts, keeps and watches a campaign that goes on without it.

An interrupt leaves: the campaign is the ledger's and the workers', and the same command comes back to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from orchestrator.engine.base import Left, Planned, Progress, Resumed, RunResult
from orchestrator.engine.celery.follower import Follower
from orchestrator.engine.celery.keeper import Keeper
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.states import OPEN_SCREENINGS, EngineName, ScreeningState, SlotState
from orchestrator.ledger.transitions import hand_to, start

LOOK_S: Final = 0.5


class Campaign:
    """Watches screenings until they are closed; `keeper` is this process's own part in it.

    `each_look` is called at every look, for the signer; the run is over when it says that nothing is left.
    """

    def __init__(
        self,
        ledger: Ledger,
        keeper: Keeper,
        *,
        each_look: Callable[[], bool],
        progress: Callable[[Progress], None],
        who: str,
        share: int = 1,
        look_s: float = LOOK_S,
    ) -> None:
        self._ledger = ledger
        self._keeper = keeper
        self._each_look = each_look
        self._progress = progress
        self._who = who
        self._share = share
        self._look_s = look_s
        self._leaving = threading.Event()

    def interrupt(self) -> None:
        """Stop watching. Safe in a signal handler."""
        self._leaving.set()

    def run(self, screening_ids: Sequence[str], parallel: int) -> RunResult:
        """Have every open slot run by workers, whatever their number; `parallel` is theirs to choose."""
        follower = Follower(self._ledger, screening_ids)
        for screening_id in screening_ids:
            self._open(screening_id)
        self._keeper.start()
        try:
            while not self._done(screening_ids) and not self._leaving.wait(self._look_s):
                for event in follower.news():
                    self._progress(event)
            for event in follower.news():
                self._progress(event)
        finally:
            self._keeper.stop()
        states = self._states(screening_ids)
        left = any(state in OPEN_SCREENINGS for state in states.values())
        if left:
            open_ = sum(queries.status(self._ledger, one).open for one in screening_ids)
            self._progress(Left(open_))
        return RunResult(states, left, 0)

    def _open(self, screening_id: str) -> None:
        hand_to(self._ledger, screening_id, EngineName.CELERY, who=self._who, share=self._share)
        state = queries.screening(self._ledger, screening_id)["state"]
        view = queries.status(self._ledger, screening_id)
        if state == ScreeningState.PLANNED and start(self._ledger, screening_id, who=self._who):
            self._progress(Planned(screening_id, view.total))
            return
        resumed = Resumed(
            screening_id=screening_id,
            recorded=view.slots[SlotState.RECORDED],
            uncountable=view.slots[SlotState.UNCOUNTABLE],
            lost=0,
            to_go=view.open,
            used_nusd=view.used_nusd,
            cap_nusd=view.cap_nusd,
        )
        self._progress(resumed)

    def _done(self, screening_ids: Sequence[str]) -> bool:
        if not self._each_look():
            return False
        return not any(state in OPEN_SCREENINGS for state in self._states(screening_ids).values())

    def _states(self, screening_ids: Sequence[str]) -> dict[str, str]:
        return {one: str(state) for one, state in queries.states_of(self._ledger, screening_ids).items()}
