"""Reading the ledger: status, prefixes, order of certification, start hours; on a large plan too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.errors import NotFoundError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.records import CertificateKind, add_certificate, all_summarised
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import AttemptEnd, claim, end_attempt, queue, start
from scoring.vocabulary import Outcome, Reason

MakeEnd = Callable[..., AttemptEnd]


EXPLAIN = {"sqlite": "EXPLAIN QUERY PLAN ", "postgresql": "EXPLAIN "}
BY_INDEX = {
    # Neither a scan of the table nor a sort, in the words of each database.
    "sqlite": (("USING COVERING INDEX ix_try_slot_status",), ("INDEX ix_try_slot_order",)),
    "postgresql": (("Index", "ix_try_slot_status"), ("Index", "ix_try_slot_order")),
}


def _plan(ledger: Ledger, query: str) -> str:
    with ledger.reading() as connection:
        rows = connection.exec_driver_sql(EXPLAIN[ledger.engine.dialect.name] + query).all()
    return "\n".join(str(row[-1]) for row in rows)


def test_ten_thousand_slots_are_planned_and_read_by_index(ledger: Ledger, owner_id: str) -> None:
    """The campaign of section 6 (c): one plan; status and claim read an index, however large it is."""
    ended = [plan_stub(ledger, [f"task-{n}" for n in range(2500)], tries=4, name=f"s{m}") for m in range(2)]
    screening = ended[0]
    status = queries.status(ledger, screening)
    assert (status.total, status.open) == (10_000, 10_000)
    start(ledger, screening, who="test")
    assert queue(ledger, screening, 64) == 64
    if ledger.engine.dialect.name == "postgresql":
        with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE try_slot")
    counting = _plan(
        ledger,
        f"SELECT state, outcome, count(*) FROM try_slot WHERE screening_id = '{screening}'"
        " GROUP BY state, outcome",
    )
    claiming = _plan(
        ledger,
        f"SELECT id FROM try_slot WHERE screening_id = '{screening}' AND state = 'queued'"
        " AND not_before_ms <= 5 ORDER BY start_order LIMIT 1",
    )
    for plan, words in zip((counting, claiming), BY_INDEX[ledger.engine.dialect.name], strict=True):
        assert all(word in plan for word in words), plan
        assert "Seq Scan" not in plan and "SCAN try_slot" not in plan, plan
    assert "Sort" not in claiming and "TEMP B-TREE" not in claiming, claiming


def test_ids_accept_a_unique_prefix(ledger: Ledger) -> None:
    """CLI-10: any case; several candidates are listed, none is said with the listing to look at."""
    first, second = plan_stub(ledger, ["a"], name="one"), plan_stub(ledger, ["a"], name="two")
    assert queries.find_screening(ledger, first) == first
    assert queries.find_screening(ledger, first[:-1].lower()) in (first, second)
    with pytest.raises(NotFoundError, match="several") as caught:
        queries.find_screening(ledger, first[:5])
    assert first in caught.value.message and second in caught.value.message and caught.value.hint
    for wrong in ("ZZZZ", "", "a b", "x%"):
        with pytest.raises(NotFoundError) as none:
            queries.find_screening(ledger, wrong)
        assert none.value.hint
    slot = queries.tries(ledger, first)[0].row["id"]
    assert queries.find_try(ledger, slot) == slot
    with pytest.raises(NotFoundError):
        queries.find_attempt(ledger, slot)


def test_what_is_certified_next(ledger: Ledger, owner_id: str, end: MakeEnd, clock: Any) -> None:
    """Ended attempts without certificate, by slot order and attempt; a live attempt is none of them."""
    screening = plan_stub(ledger, ["a", "b", "c"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 5)
    helds = [claim(ledger, screening, owner_id, lease_ms=1000) for _ in range(3)]
    reasons = (Reason.ENGINE_ERROR, Reason.WRONG_OUTPUT)
    for held, reason in reversed(list(zip(helds, reasons, strict=False))):
        assert held is not None
        end_attempt(ledger, held, end(reason, digest=reason[0] * 64), back_off_ms=0)
        clock.now_ms += 1
    again = claim(ledger, screening, owner_id, lease_ms=1000)
    assert again is not None and helds[0] is not None and helds[1] is not None
    end_attempt(ledger, again, end(Reason.ALL_CHECKS_PASSED, digest="9" * 64))
    expected = [helds[0].attempt_id, again.attempt_id, helds[1].attempt_id]
    assert queries.certifiable(ledger) == queries.certifiable(ledger, [screening]) == expected
    assert queries.certifiable(ledger, ["other"]) == []


def test_a_try_is_shown_with_every_attempt(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """DESIGN section 7: every attempt is kept and shown, with evidence and who paid."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 5)
    for reason in (Reason.SANDBOX_LOST, Reason.TIMEOUT):
        held = claim(ledger, screening, owner_id, lease_ms=1000)
        assert held is not None
        end_attempt(ledger, held, end(reason, digest=reason[0] * 64), back_off_ms=0)
    assert held is not None
    view = queries.show_try(ledger, held.slot_id)
    assert view.row["outcome"] == "failed"
    assert [attempt.manifest_digest for attempt in view.attempts] == ["s" * 64, "t" * 64]
    assert [attempt.spend for attempt in view.attempts] == [(("platform", 7),), (("agent", 7),)]
    assert queries.show_attempt(ledger, held.attempt_id) == view.attempts[1]
    assert [view.row["k"] for view in queries.tries(ledger, screening, outcome=Outcome.FAILED)] == [1]
    assert queries.tries(ledger, screening, state=SlotState.RUNNING, task_id="a") == []
    kinds = [event["kind"] for event in queries.history(ledger, screening, held.slot_id)]
    assert kinds == ["queued", "claimed", "ended", "claimed", "ended"]


def test_realised_start_hours(ledger: Ledger, owner_id: str, clock: Any) -> None:
    """Seed 004: when tries really started, hour of the day in UTC."""
    screening = plan_stub(ledger, ["a", "b"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 5)
    midnight = clock.now_ms - clock.now_ms % 86_400_000
    for hour in (0, 23):
        clock.now_ms = midnight + 86_400_000 + hour * 3_600_000 + 5
        assert claim(ledger, screening, owner_id, lease_ms=1000)
    assert queries.start_hours(ledger, screening) == {0: 1, 23: 1}


def test_unknown_ids_are_said(ledger: Ledger) -> None:
    """No traceback for something that is not there."""
    for look in (queries.status, queries.screening, queries.show_try, queries.show_attempt):
        with pytest.raises(NotFoundError, match="there is no"):
            look(ledger, "nothing")


def test_screenings_of_one_identity(ledger: Ledger) -> None:
    """How the same command finds what it resumes."""
    screening = plan_stub(ledger, ["a"], name="one")
    plan_stub(ledger, ["a"], name="two")
    identity = queries.screening(ledger, screening)["identity"]
    assert [row["id"] for row in queries.screenings(ledger, identity=identity)] == [screening]
    assert len(queries.screenings(ledger)) == 2


def test_many_screenings_are_asked_for_at_once(ledger: Ledger) -> None:
    """What a watcher asks at every look: each one's state, and whether every closing statement is signed."""
    first, second = (plan_stub(ledger, ["a"], name=name) for name in ("one", "two"))
    start(ledger, first, who="test")
    both = [first, second]
    assert queries.states_of(ledger, [*both, "absent"]) == {first: "running", second: "planned"}
    for count, screening in enumerate(both):
        assert all_summarised(ledger, both[:count]) and not all_summarised(ledger, both)
        add_certificate(
            ledger,
            screening_id=screening,
            kind=CertificateKind.SUMMARY,
            digest=f"{count}" * 64,
            envelope=b"x",
            who="test",
        )
    assert all_summarised(ledger, both) and queries.states_of(ledger, []) == {}
