"""`assize try` of agents that call models: how many calls, and an agent that never reached the relay."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.migrate import open_ledger

CALLS: Mapping[str, tuple[int, int | None]] = {
    "silent": (0, None),
    "refused": (0, 250),
    "talker": (7, 61_000),
}
"""Calls that a provider took, and milliseconds to the first one that was asked for."""


class Metered:
    """Scripted attempts with what a relay saw of them; that of the task `bare` had none."""

    def __init__(self) -> None:
        self._attempt = StubAttempt(script={})

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        report = self._attempt(order, control)
        if order.task_id not in CALLS:
            return report
        taken, first_ms = CALLS[order.task_id]
        seen = {**report.observations, "relay_calls": taken, "relay_first_call_ms": first_ms}
        return replace(report, observations=seen)


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory, databases: str) -> tuple[Path, dict[str, str]]:
    """A home, and its tries by task."""
    home = Home(tmp_path_factory.mktemp("metered") / "home").prepare()
    ledger = open_ledger(home.database_url)
    try:
        screening = plan_stub(ledger, [*CALLS, "bare"], name="metered")
        callbacks = Callbacks(attempt=Metered(), order_for=stub_order)
        LocalEngine(ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test").run([screening], 2)
        rows = queries.tries(ledger, screening)
        return home.root, {one.row["task_id"]: one.row["id"] for one in rows if one.row["k"] == 1}
    finally:
        ledger.close()


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("silent", "model calls  none: the agent never reached the relay"),
        ("refused", "model calls  0 taken by a provider, the first asked for after 0.2s"),
        ("talker", "model calls  7 taken by a provider, the first asked for after 1:01"),
    ],
)
def test_model_calls_are_shown(cli: Any, metered: tuple[Path, dict[str, str]], task: str, line: str) -> None:
    """Issue 4 deliver 3: an agent that never reaches the relay is reported as such."""
    home, tries = metered
    shown = cli("try", tries[task], home=home).out.splitlines()
    assert line in [one.strip() for one in shown], shown
    taken, first_ms = CALLS[task]
    attempt = json.loads(cli("try", tries[task], "--json", home=home).out)["attempts"][0]
    assert attempt["model_calls"] == {"taken": taken, "first_ms": first_ms}


def test_without_a_relay_nothing_is_said_of_it(cli: Any, metered: tuple[Path, dict[str, str]]) -> None:
    """No call of an agent that could make none is no news."""
    home, tries = metered
    assert "model calls" not in cli("try", tries["bare"], home=home).out
    attempt = json.loads(cli("try", tries["bare"], "--json", home=home).out)["attempts"][0]
    assert attempt["model_calls"] is None


def test_a_try_of_a_rehearsal_says_so(cli: Any, home: Home, databases: str) -> None:
    """Its green mark is that of scripted answers (seed 003: simulated, never a pass)."""
    ledger = open_ledger(home.database_url)
    try:
        screening = plan_stub(ledger, ["bare"], tries=1, conditions={"rehearsal_digest": "a" * 64})
        callbacks = Callbacks(attempt=Metered(), order_for=stub_order)
        LocalEngine(ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test").run([screening], 1)
        (one,) = queries.tries(ledger, screening)
    finally:
        ledger.close()
    assert (
        "a rehearsal with scripted answers: it never counts as a pass"
        in cli("try", one.row["id"], home=home.root).out
    )
    assert json.loads(cli("try", one.row["id"], "--json", home=home.root).out)["simulated"] is True
