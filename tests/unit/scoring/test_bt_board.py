"""Pages, columns, coverage, the arithmetic and the data of the board (S1-2 .. S1-4, S1-19 .. S1-32)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from bt_builders import Scores, boards, fitted, page, runs_of, table
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import screening

from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.leaderboard.arithmetic import explain_task, lines, task_lines
from scoring.leaderboard.board import Leaderboard, Level, Page, require_same_page
from scoring.leaderboard.board_data import as_data, board_data
from scoring.leaderboard.columns import (
    Column,
    TaskCosts,
    TaskTimes,
    cost_column,
    show_cost,
    show_time,
    time_column,
)
from scoring.leaderboard.elo import held_fixed
from scoring.leaderboard.entries import BoardRun, Place, sheet_of
from scoring.leaderboard.list_price import ListPrice, TokenUse
from scoring.leaderboard.pages import leaderboard_of, page_of
from scoring.numbers import fixed

PLACES = {"q1": Place("dev", frozenset({"x"})), "q2": Place("dev"), "q3": Place("office", frozenset({"x"}))}
SCORES = table(
    q1={"A": 3, "B": 2, "C": 1},
    q2={"A": 1, "B": 1, "C": 0},
    q3={"B": "1/2", "C": "1/2"},
)


def whole(scores: Scores = SCORES) -> Leaderboard:
    return leaderboard_of(runs_of(scores), PLACES)


def test_pages_are_overall_sub_boards_and_sub_categories() -> None:
    """S1-2: three levels; one sub-category name in two sub-boards is two pages; entrants without a result
    on a page are not shown there (S1-20)."""
    made = whole()
    assert [board.page.name for board in made.pages] == ["overall", "dev", "office", "dev/x", "office/x"]
    assert [board.page.level for board in made.pages] == [Level.OVERALL, *[Level.BOARD] * 2, *[Level.SUB] * 2]
    assert {row.entrant for row in made.page("office").rows} == {"B", "C"}
    assert made.page("dev/x").tasks == tuple(task for task in made.overall.tasks if task.task == "q1")
    with pytest.raises(MalformedInputError, match="no page"):
        made.page("law")


def test_references_come_unrounded_from_the_page_above() -> None:
    """S1-19, S1-20: 1000; then the own overall score; then the own sub-board score, to the last bit."""
    made = whole()
    assert {row.reference for row in made.overall.rows} == {1000.0}
    for name, above in (("dev", "overall"), ("office", "overall"), ("dev/x", "dev"), ("office/x", "office")):
        for row in made.page(name).rows:
            assert row.reference == made.page(above).row(row.entrant).score


def test_a_page_is_computed_from_its_own_scope_only() -> None:
    """S1-3: with the references given, the sub-board is the fit of its tasks alone."""
    made = whole()
    dev = {task: row for task, row in SCORES.items() if task != "q3"}
    references = {row.entrant: row.score for row in made.overall.rows}
    assert {row.entrant: row.score for row in made.page("dev").rows} == fitted(dev, references)


@given(boards(max_tasks=4))
def test_two_pages_with_the_same_runs_have_equal_time_and_cost(scores: Scores) -> None:
    """S1-32 and the document's first question: scores may differ by their references, the means may not."""
    runs = [
        replace(run, wall_ms=100 * place, cost_usd=Fraction(place, 1000))
        for place, run in enumerate(runs_of(scores))
    ]
    made = leaderboard_of(runs, {task: Place("only", frozenset({"s"})) for task in scores})
    means = [
        {row.entrant: (row.time, row.time_rank, row.cost, row.cost_rank) for row in board.rows}
        for board in made.pages
    ]
    assert means[0] == means[1] == means[2]


def test_rows_are_in_rank_order_with_shared_ranks() -> None:
    """S1-21, S1-22: highest first; 1, 1, 3; entrants of one rank by name."""
    made = page(table(q1={"D": 2, "A": 2, "C": 1}, q2={"D": 2, "A": 2, "C": 1}))
    assert [(row.rank, row.entrant) for row in made.rows] == [(1, "A"), (1, "D"), (3, "C")]


def test_a_valid_zero_counts_and_loses() -> None:
    """S1-4: 0 loses to any higher score and draws with another 0."""
    made = page(table(q={"A": 0, "B": "1/1000", "C": 0}))
    assert [(row.rank, row.entrant) for row in made.rows] == [(1, "B"), (2, "A"), (2, "C")]
    assert made.row("A").wins == Fraction(1, 4)


def test_an_invalid_result_is_absent_from_every_figure_but_coverage() -> None:
    """S1-4 and the consequence of section 2.3: a crash is no loss, and the page says valid of started."""
    base = runs_of(SCORES)
    crashed = BoardRun("A", "q3", None, wall_ms=999_000, cost_usd=Fraction(9))
    lost = BoardRun("A", "q3", None, started=False)
    with_crash = leaderboard_of([*base, crashed, lost], PLACES)
    plain = whole()
    for board, other in zip(plain.pages, with_crash.pages, strict=True):
        for row, again in zip(board.rows, other.rows, strict=True):
            assert again == replace(row, coverage=again.coverage)
    coverage = with_crash.overall.row("A").coverage
    assert (coverage.tasks_valid, coverage.tasks_started, coverage.tasks_planned) == (2, 3, 3)
    assert (coverage.runs_valid, coverage.runs_started, coverage.runs_planned) == (2, 3, 4)
    office = with_crash.page("office")
    assert [name for name, _ in office.without_result] == ["A"]
    assert "A: no score, 0 valid of 1 started runs" in lines(office)


def test_a_sub_board_without_valid_results_has_no_page() -> None:
    """Nothing valid on a page: no page; nothing valid at all: an overall page without rows."""
    made = leaderboard_of([BoardRun("A", "q1", Fraction(1)), BoardRun("A", "q3", None)], PLACES)
    assert [board.page.name for board in made.pages] == ["overall", "dev", "dev/x"]
    empty = leaderboard_of([BoardRun("A", "q1", None)], PLACES)
    assert [board.page.name for board in empty.pages] == ["overall"]
    assert empty.overall.rows == ()
    assert [name for name, _ in empty.overall.without_result] == ["A"]


def test_time_is_the_mean_of_every_run_and_cost_of_task_means() -> None:
    """S1-23, S1-29: repeats each count in time; in cost the repeats of a task are averaged first."""
    runs = [
        BoardRun("A", "q1", Fraction(1), 1_000, Fraction(1)),
        BoardRun("A", "q1", Fraction(0), 2_000, Fraction(3)),
        BoardRun("A", "q2", Fraction(1), 6_000, Fraction(10)),
    ]
    row = leaderboard_of(runs, PLACES).overall.row("A")
    assert row.time == Column(Fraction(3), 3, 3)
    assert row.cost == Column(Fraction(6), 3, 3)


def test_unknown_costs_are_skipped_with_coverage_and_a_dash_has_no_rank() -> None:
    """S1-25, S1-30, S1-31: n of m; None, never 0; ranks ascending among those that have a figure."""
    runs = [
        BoardRun("A", "q1", Fraction(1), 5_000, None),
        BoardRun("A", "q2", Fraction(1), None, Fraction(1, 2)),
        BoardRun("B", "q1", Fraction(1), 4_000, Fraction(1, 4)),
        BoardRun("C", "q1", Fraction(1), None, None),
        BoardRun("D", "q1", Fraction(1), 5_000, Fraction(1, 2)),
    ]
    rows = {row.entrant: row for row in leaderboard_of(runs, PLACES).overall.rows}
    assert rows["A"].cost == Column(Fraction(1, 2), 1, 2)
    assert rows["C"].cost == Column(None, 0, 1)
    assert {name: row.cost_rank for name, row in rows.items()} == {"A": 2, "B": 1, "C": None, "D": 2}
    assert {name: row.time_rank for name, row in rows.items()} == {"A": 2, "B": 1, "C": None, "D": 2}
    shown = {row["entrant"]: row for row in board_data(leaderboard_of(runs, PLACES).overall)["rows"]}
    assert shown["C"]["cost_usd"] == {"exact": None, "shown": "—", "rank": None, "known": 0, "runs": 1}
    assert shown["A"]["time_s"]["shown"] == "5.0"


@pytest.mark.parametrize(
    ("time", "cost", "want"),
    [
        (50, Fraction(5, 100_000), ("0.1", "0.0001")),
        (49, Fraction(4_999, 10**8), ("0.0", "0.0000")),
        (1_250, Fraction(1, 8), ("1.3", "0.1250")),
    ],
)
def test_columns_round_half_away_from_zero(time: int, cost: Fraction, want: tuple[str, str]) -> None:
    """G-2 on seconds with one decimal and USD with four."""
    times, costs = time_column([TaskTimes.of([time])]), cost_column([TaskCosts.of([cost])])
    assert (show_time(times.mean), show_cost(costs.mean)) == want


def test_the_worked_example_of_the_document() -> None:
    """S1-17: 1391 -> 1320 and 1391 -> 1380; the pull is 70.44 exactly, 71 only between rounded numbers."""
    raw, pulled = (
        held_fixed(Fraction(1200), Fraction(3), Fraction(4), with_reference=kept) for kept in (False, True)
    )
    assert [fixed(Fraction(value), 0) for value in (raw, pulled)] == ["1391", "1320"]
    assert fixed(Fraction(raw - pulled), 2) == "70.44"
    assert fixed(Fraction(held_fixed(Fraction(1200), Fraction(30), Fraction(40))), 0) == "1380"


def test_the_worked_example_is_not_the_board() -> None:
    """S1-17: with a free opponent the same record gives 1273 and 1127, not 1320."""
    scores = table(**{f"q{at}": {"A": at < 3, "B": at == 3} for at in range(4)})
    fit = fitted(scores, {"A": 1200.0, "B": 1200.0})
    assert [fixed(Fraction(fit[name]), 3) for name in "AB"] == ["1272.895", "1127.105"]


@pytest.mark.parametrize("games", [(3, 2), (-1, 2)])
def test_impossible_fixed_records_are_refused(games: tuple[int, int]) -> None:
    """Family 10; and an all-won record without the reference has no finite score."""
    with pytest.raises(MalformedInputError):
        held_fixed(Fraction(1000), Fraction(games[0]), Fraction(games[1]))
    with pytest.raises(MalformedInputError):
        held_fixed(Fraction(1000), Fraction(2), Fraction(2), with_reference=False)


def test_the_arithmetic_of_a_task_is_the_document_s_example() -> None:
    """S1-8, S1-9: four entrants, six comparisons of 1/3, weight 1 each."""
    made = explain_task(page(table(q={"A": 3, "B": 2, "C": 1, "D": 1})), "q")
    assert len(made.comparisons) == 6
    assert {one.weight for one in made.comparisons} == {Fraction(1, 3)}
    assert dict(made.wins) == {
        "A": 1,
        "B": Fraction(2, 3),
        "C": Fraction(1, 6),
        "D": Fraction(1, 6),
    }
    assert "  A 3 > 2 B: 1/3 to 0" in task_lines(page(table(q={"A": 3, "B": 2, "C": 1, "D": 1})), "q")
    with pytest.raises(MalformedInputError, match="no valid result"):
        explain_task(page(table(q={"A": 1})), "other")


@given(boards())
def test_the_arithmetic_of_all_tasks_adds_up_to_the_rows(scores: Scores) -> None:
    """What is explained is what was fitted: win weights by task sum to the row's, exactly."""
    made = page(scores)
    total = dict.fromkeys((row.entrant for row in made.rows), Fraction(0))
    for task in made.tasks:
        for name, won in explain_task(made, task.task).wins:
            total[name] += won
    assert total == {row.entrant: row.wins for row in made.rows}
    compared = {name: sum(name in row and len(row) > 1 for row in scores.values()) for name in total}
    assert compared == {row.entrant: row.compared for row in made.rows}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def test_the_data_hold_no_float_and_state_their_rounding() -> None:
    """Strings, integers and null only; scores to three decimals; each page carries id and input digest."""
    data = as_data(whole())
    assert not [leaf for leaf in leaves(data) if isinstance(leaf, float)]
    assert json.loads(json.dumps(data)) == data
    assert data["rounding"]["score"] == "three decimals, half away from zero"
    first = data["pages"][0]["rows"][0]
    assert (first["entrant"], first["to_first"]) == ("A", None)
    assert first["score"] == fixed(Fraction(whole().overall.row("A").score), 3)
    assert first["shown"] == fixed(Fraction(whole().overall.row("A").score), 0)
    gap = whole().overall.gap("C", "A")
    assert gap is not None
    assert data["pages"][0]["rows"][-1]["to_first"]["difference"] == fixed(Fraction(gap.difference), 3)
    assert {one["methodology"] for one in data["pages"]} == {"same-question-bt/1"}
    assert {one["inputs_digest"] for one in data["pages"]} == {data["inputs_digest"]}


def test_the_text_shows_record_reference_range_and_coverage() -> None:
    """`lines`: what a reader needs to redo a row, and every reading."""
    text = "\n".join(lines(whole().overall))
    assert "1. A: " in text
    assert "7/4 wins of weight 2, and 2 draws at its reference 1000.000" in text
    assert "valid on 2 of 2 tasks started, 2 planned" in text
    assert "rank 1 to 3 of 3" in text
    assert all(f"reading {reading.code}" in text for reading in whole().readings)


def test_boards_are_not_combined_with_anything() -> None:
    """G-4, S1-32, family 9: no arithmetic, no order, no mixing of ids, pages or inputs."""
    made = whole()
    card = screening("PPP").card()
    for act in (
        lambda: made.overall + card,
        lambda: 0 + made,
        lambda: card > made.overall,
        lambda: made.overall < made.page("dev"),
    ):
        with pytest.raises(TypeError):
            act()  # type: ignore[no-untyped-call]
    with pytest.raises(MethodologyMixError) as caught:
        _ = made.overall + card
    assert caught.value.code == "methodology-mix"
    other = leaderboard_of(runs_of(table(q1={"A": 1, "B": 0})), PLACES)
    for pair, code in (
        ((made.overall, card), "methodology-mix"),
        ((made.page("dev"), made.page("office")), "page-mix"),
        ((made.overall, other.overall), "inputs-mix"),
    ):
        with pytest.raises(MethodologyMixError) as caught:
            require_same_page(*pair)
        assert caught.value.code == code
    require_same_page(made.overall, whole().overall)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"score": 0.5}, "number"),
        ({"score": 1}, "number"),
        ({"score": True}, "number"),
        ({"wall_ms": -1}, "number"),
        ({"wall_ms": 1.5}, "number"),
        ({"wall_ms": True}, "number"),
        ({"cost_usd": Fraction(-1)}, "range"),
        ({"cost_usd": 0.1}, "number"),
        ({"cost_usd": float("nan")}, "number"),
        ({"started": False}, "not-started"),
    ],
)
def test_runs_that_cannot_be_are_refused(change: dict[str, Any], code: str) -> None:
    """Family 10: refused with a code, never coerced."""
    values: dict[str, Any] = {"entrant": "A", "task": "q", "score": Fraction(1)}
    with pytest.raises(MalformedInputError) as caught:
        BoardRun(**{**values, **change})
    assert caught.value.code == code


def test_tasks_and_entrants_must_be_placed() -> None:
    """S1-2: a task without a sub-board, an entrant without a reference."""
    with pytest.raises(MalformedInputError) as caught:
        leaderboard_of([BoardRun("A", "q9", Fraction(1))], PLACES)
    assert caught.value.code == "unplaced-task"
    with pytest.raises(MalformedInputError) as caught:
        page_of(Page(Level.BOARD, "dev"), sheet_of([BoardRun("A", "q1", Fraction(1))]), ["q1"], {}, "")
    assert caught.value.code == "unknown-entrant"
    with pytest.raises(MalformedInputError) as caught:
        whole().overall.gap("A", "Z")
    assert caught.value.code == "unknown-entrant"


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: TokenUse(1, 2, 0), "cached-above-input"),
        (lambda: TokenUse(-1, 0, 0), "number"),
        (lambda: TokenUse(True, 0, 0), "number"),
        (lambda: ListPrice(Fraction(-1), Fraction(0), Fraction(0)), "range"),
        (lambda: ListPrice(Fraction(1), 0.1, Fraction(0)), "number"),  # type: ignore[arg-type]
    ],
)
def test_tokens_and_prices_that_cannot_be_are_refused(build: Any, code: str) -> None:
    """Family 10 on S1-27."""
    with pytest.raises(MalformedInputError) as caught:
        build()
    assert caught.value.code == code


@given(st.lists(st.lists(st.none() | st.fractions(0, 5, max_denominator=1000), max_size=4), max_size=4))
def test_the_cost_column_is_the_mean_of_task_means(costs: list[list[Fraction | None]]) -> None:
    """S1-29, S1-31 against a plain definition."""
    means = [
        sum(known, Fraction(0)) / len(known)
        for known in ([cost for cost in task if cost is not None] for task in costs)
        if known
    ]
    column = cost_column(TaskCosts.of(task) for task in costs)
    assert column.mean == (sum(means, Fraction(0)) / len(means) if means else None)
    assert (column.known, column.runs) == (
        sum(cost is not None for task in costs for cost in task),
        sum(len(task) for task in costs),
    )
