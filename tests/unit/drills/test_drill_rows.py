"""The table of drills covers the fault tables, and says of each row what must come of it."""

from __future__ import annotations

import pytest

from orchestrator.drills import commanded
from orchestrator.drills.drill import chosen
from orchestrator.drills.metered import script
from orchestrator.drills.rows import Row, Scene
from orchestrator.drills.screened import batches
from orchestrator.drills.table import ROWS
from orchestrator.engine.breaker import HOST_REASONS, Breaker
from orchestrator.errors import NotFoundError
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome, Reason
from workers.faultline.blows import BLOWS
from workers.rehearsal.script import parse_script

IN_PROCESS = (Scene.PLAIN, Scene.METERED)


@pytest.mark.parametrize(("table", "rows"), [("sandbox", 19), ("harbor", 13), ("inspect", 9)])
def test_every_row_of_every_fault_table_is_drilled_or_said_to_be_impossible(table: str, rows: int) -> None:
    """Issue 6 deliver 7: sandbox.md section 5, harbor.md section 9 and inspect.md section 5, all rows."""
    covered = {source for row in ROWS for source in row.sources if source.startswith(f"{table} ")}
    assert covered == {f"{table} {number}" for number in range(1, rows + 1)}


def test_what_is_not_played_says_why() -> None:
    """Three rows at most, each with its reason; a row that is played gives none."""
    not_here = [row for row in ROWS if row.scene is Scene.NOT_HERE]
    assert len(not_here) == 3
    assert all(bool(row.why) == (row.scene is Scene.NOT_HERE) for row in ROWS)


def test_names_are_unique_and_evidence_is_named_in_words_of_the_vector() -> None:
    """A row promises observations that exist."""
    assert len({row.name for row in ROWS}) == len(ROWS)
    known = set(vars(Observations()))
    for row in ROWS:
        assert row.evidence and {*row.evidence, *row.seen} <= known, row.name


def test_every_blow_exists_on_its_side_and_is_used() -> None:
    """The table names blows as words; a word that nobody knows would strike nothing."""
    for scenes, known in ((IN_PROCESS, BLOWS), ((Scene.COMMAND, Scene.OWN_ENGINE), commanded.BLOWS)):
        used = {row.blow for row in ROWS if row.scene in scenes and row.blow is not None}
        assert used == set(known)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_a_row_promises_follows_from_its_class(row: Row) -> None:
    """Issue 6: platform faults are run again at most twice, failures never."""
    if row.outcome is not Outcome.PLATFORM_FAULT:
        assert (row.attempts, row.last_reason, row.uncountable) == (1, row.reason, False)
    elif row.uncountable:
        assert (row.attempts, row.last_reason) == (3, row.reason)
    else:
        assert row.attempts == row.blows + 1 and row.last_reason is row.last


def test_no_run_holds_more_host_faults_than_its_breaker_bears() -> None:
    """A run that stopped itself would leave rows unplayed."""
    rows = [row for row in ROWS if row.scene in IN_PROCESS]
    made = batches(rows)
    assert sorted(row.name for batch in made for row in batch) == sorted(row.name for row in rows)
    for batch in made:
        ends = sum(row.faults for row in batch if row.reason in HOST_REASONS)
        assert ends < Breaker().in_a_row


def test_the_providers_script_is_one() -> None:
    """Every conversation of it belongs to a metered row."""
    parsed = parse_script(script(), "drill")
    names = {row.name for row in ROWS if row.scene is Scene.METERED}
    assert {found.when for found in parsed.conversation} <= names


def test_rows_are_chosen_by_name() -> None:
    """In the order of the table; a name that no row has is refused with the way to the names."""
    assert [row.name for row in chosen(["sandbox-killed", "none"])] == ["none", "sandbox-killed"]
    assert chosen([]) == list(ROWS)
    with pytest.raises(NotFoundError, match="no row sandbox-kiled"):
        chosen(["sandbox-kiled"])


def test_agents_that_imitate_are_among_the_rows() -> None:
    """Issue 6: imitation of platform trouble, out of memory and time-outs gains nothing."""
    ends = {row.name: row.reason for row in ROWS}
    assert ends["platform-trouble-imitated"] is Reason.CRASH
    assert ends["memory-limit-death"] is Reason.OUT_OF_MEMORY
    assert ends["work-too-late"] is Reason.TIMEOUT
