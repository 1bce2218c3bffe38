"""`assize drill` without an engine: its lists, its exit codes, and how it shows what came of a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.cli import drill as command
from orchestrator.cli import exits
from orchestrator.drills.drill import Report
from orchestrator.drills.judge import SeenAttempt, SeenTry, Verdict
from orchestrator.drills.table import ROWS
from scoring.vocabulary import OUTCOME_OF, Reason

BY_NAME = {row.name: row for row in ROWS}


def test_the_rows_are_listed(cli: Callable[..., Any]) -> None:
    """What is injected, what must come of it, its evidence and its source; and what cannot be played."""
    ran = cli("drill", "--list")
    assert (ran.code, ran.err) == (exits.DONE, "")
    for row in ROWS:
        assert any(line.startswith(row.name) for line in ran.out.splitlines())
    assert "not here: broker-gone: the local engine has no broker" in ran.out


def test_the_list_for_programs(cli: Callable[..., Any]) -> None:
    """CLI-2: one object with a schema; chosen rows only."""
    found = json.loads(cli("drill", "sandbox-killed", "--list", "--json").out)
    assert found["schema"] == "assize.drill-rows/1"
    (row,) = found["rows"]
    assert row["expected"] == {
        "outcome": "platform_fault",
        "reason": "sandbox_lost",
        "suspect": False,
        "attempts": 2,
        "evidence": ["agent_death"],
    }
    assert row["sources"] == ["sandbox 12", "harbor 6", "inspect 4"] and row["why_not_here"] is None


def test_a_name_that_no_row_has(cli: Callable[..., Any]) -> None:
    """CLI-9: what is wrong, and what to do next."""
    ran = cli("drill", "sandbox-kiled")
    assert ran.code == exits.WRONG_INPUT
    assert "there is no row sandbox-kiled" in ran.err and "assize drill --list" in ran.err


def test_without_an_engine_nothing_is_played(cli: Callable[..., Any]) -> None:
    """CLI-4: it cannot run here, which is no verdict on any row."""
    ran = cli("drill", "none")
    assert ran.code == exits.CANNOT
    assert "the fault line cannot start" in ran.err and "assize doctor" in ran.err


class _Line:
    """A fault line that is never asked for anything."""

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def verdict(name: str, *reasons: Reason, **changes: Any) -> Verdict:
    attempts = [
        SeenAttempt(
            OUTCOME_OF[reason],
            reason,
            False,
            {"agent_death": "removed", "agent_started": True, "start_error": None},
            {},
            None,
        )
        for reason in reasons
    ]
    tries = (SeenTry(attempts, "recorded", "passed"),) if reasons else ()
    return Verdict(BY_NAME[name], tries, **changes)


LOST = verdict("sandbox-killed", Reason.SANDBOX_LOST, Reason.ALL_CHECKS_PASSED)
WRONG = verdict("sandbox-killed", Reason.CRASH, problems=("ended crash; expected sandbox_lost",))
NOT_RUN = verdict("broker-gone", not_run="the local engine has no broker")


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (Report((LOST,), ()), exits.DONE),
        (Report((LOST, NOT_RUN), ()), exits.NOT_IN_FULL),
        (Report((WRONG, NOT_RUN), ()), exits.REFUSED),
        (Report((LOST,), ("container 0123456789ab (exited)",)), exits.REFUSED),
    ],
)
def test_exit_codes(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, report: Report, code: int
) -> None:
    """0 as it must, 3 not all of it played, 1 whenever anything differs or is left behind."""
    monkeypatch.setattr(command, "load_faultline", _Line)
    monkeypatch.setattr(command, "drill", lambda *_, **__: report)
    ran = cli("drill")
    assert ran.code == code
    for problem in (*report.problems, *(one for verdict in report.verdicts for one in verdict.problems)):
        assert problem in ran.out
    data = json.loads(cli("drill", "--json").out)
    assert data["schema"] == "assize.drill/1" and data["holds"] is not report.differs
    assert [one["row"] for one in data["rows"]] == [one.row.name for one in report.verdicts]


def test_what_was_seen_is_shown(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected class, every attempt's end, the evidence with its values, and the two sums."""
    monkeypatch.setattr(command, "load_faultline", _Line)
    monkeypatch.setattr(command, "drill", lambda *_, **__: Report((LOST, NOT_RUN), ()))
    out = cli("drill").out
    assert "platform_fault (sandbox_lost)" in out and "sandbox_lost, all_checks_passed" in out
    assert "agent_death=removed, agent_started=true, start_error=not observed" in out
    assert (
        "1 of 1 rows as they must, 1 not run; platform faults scored: 0, agent failures run again: 0" in out
    )
