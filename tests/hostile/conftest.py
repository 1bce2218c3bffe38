"""Runs hostile attempts beside an honest one and checks what must hold whatever the hostile agents do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.attempts import AttemptOrder, AttemptReport
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from scoring.vocabulary import Outcome, Reason

if TYPE_CHECKING:
    from workers.attempt.runner import AttemptRunner
    from workers.sandbox.client import Engine

CANARY = "canary-3fb1c0"
WANT_DONE = (
    'if [ "$(cat /tmp/out.txt 2>/dev/null)" = done ]; then echo 1; else echo 0; fi'
    f" > /logs/verifier/reward.txt # {CANARY}"
)
"""The usual hidden test; the hostile agents do not do the work, so that a pass is always stolen."""

WANT_CANARY = f"if grep -qs {CANARY} /tmp/out.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"
"""A hidden test that only somebody can pass who can read it."""

AT_ONCE = 4


class Quiet:
    """An attempt's control that never cancels."""

    def phase(self, phase: object) -> None:
        pass

    def cancelled(self) -> bool:
        return False

    def calls_until(self) -> float | None:
        return None


@dataclass
class Siege:
    """Runs hostile orders, a few at a time, beside one honest attempt on the same worker."""

    engine: Engine
    runner: AttemptRunner
    make_order: Callable[..., AttemptOrder]

    def run_all(self, orders: Mapping[str, AttemptOrder]) -> dict[str, AttemptReport]:
        """Reports by name; asserts L1-L4 and L6 of the acceptance suite for every one of them."""
        honest = self.make_order("echo done > /tmp/out.txt", WANT_DONE)
        with ThreadPoolExecutor(AT_ONCE + 1) as pool:
            sibling = pool.submit(self.runner, honest, Quiet())
            running = {name: pool.submit(self.runner, order, Quiet()) for name, order in orders.items()}
            reports = {name: future.result() for name, future in running.items()}
        assert sibling.result().decision.outcome is Outcome.PASSED, "the honest sibling did not pass"
        assert self.runner.settle() == []
        for name, order in orders.items():
            self._nothing_left(order)
            self._evidence_keeps_secrets(order, reports[name])
        return reports

    def run(self, order: AttemptOrder) -> AttemptReport:
        """One hostile order."""
        return self.run_all({"it": order})["it"]

    def all_fail(self, orders: Mapping[str, AttemptOrder], reasons: Collection[Reason]) -> None:
        """Every attempt is the agent's own failure for one of `reasons` (L5, L7)."""
        ends = {name: report.decision for name, report in self.run_all(orders).items()}
        wrong = {
            name: (end.outcome.value, end.reason.value, end.rule)
            for name, end in ends.items()
            if end.outcome is not Outcome.FAILED or end.reason not in reasons
        }
        assert wrong == {}

    def fails(self, order: AttemptOrder, reasons: Collection[Reason]) -> AttemptReport:
        """`all_fail` for one order; returns its report."""
        report = self.run(order)
        end = report.decision
        assert (end.outcome, end.reason in reasons) == (Outcome.FAILED, True), (end, report.observations)
        return report

    def _nothing_left(self, order: AttemptOrder) -> None:
        label = {"label": f"assize.attempt={order.slot_id}/{order.token}"}
        assert self.engine.api.containers(all=True, filters=label) == []
        assert self.engine.api.images(filters=label) == []

    def _evidence_keeps_secrets(self, order: AttemptOrder, report: AttemptReport) -> None:
        assert report.manifest_digest is not None
        store = EvidenceStore(order.evidence_root)
        manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, 1 << 20))
        paths = [file.path for file in manifest.files]
        assert {"sandbox-report.json", "observations.json", "agent/command.json"} <= set(paths)
        for file in manifest.files:
            if file.sha256 is not None and not file.path.startswith("grader/"):
                assert CANARY.encode() not in store.read(file.sha256, 1 << 28), file.path


@pytest.fixture
def siege(engine: Engine, runner: AttemptRunner, make_order: Callable[..., AttemptOrder]) -> Siege:
    return Siege(engine, runner, make_order)


@pytest.fixture
def hostile(make_order: Callable[..., AttemptOrder]) -> Callable[..., AttemptOrder]:
    """An order for a hostile script; `wall_ms` shortens the agent's time."""

    def make(
        script: str,
        test: str = WANT_DONE,
        *,
        python: bool = False,
        wall_ms: int | None = None,
        **changes: Any,
    ) -> AttemptOrder:
        solve = f"exec python3 - <<'HOSTILE'\n{script}\nHOSTILE" if python else script
        order = make_order(solve, test, **changes)
        if wall_ms is None:
            return order
        return replace(order, caps=replace(order.caps, agent_wall_ms=wall_ms))

    return make


@pytest.fixture
def want_canary() -> str:
    """A hidden test that passes only for somebody who can read hidden tests."""
    return WANT_CANARY
