"""The scorer of the board: from opening statements and verified tries to runs (S1-1, S1-4, S1-26)."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import FAIL, FAULT, LOST_CERTIFICATE, PASS, REPO, TIMEOUT, Slot, Spec, attest, plan_of

from scoring.classify import View
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.facts import ModelUse, PriceSheet, Provenance, TaskTags
from scoring.leaderboard.board import METHODOLOGY, Leaderboard
from scoring.leaderboard.board_data import as_data
from scoring.leaderboard.entries import Place
from scoring.leaderboard.list_price import ListPrice
from scoring.leaderboard.score import Screening, score_board
from scoring.registry import find
from scoring.tries import CertificateState, SandboxLevel
from scoring.vocabulary import Reason

MODEL = (ModelUse("main", "model-1", None),)
NAME = {agent: f"{agent}@1 + model-1" for agent in ("ann", "bob", "cyd")}
PRIVATE = replace(PASS, public=False, certificate=CertificateState.MISSING)


def screen(
    agent: str, tasks: Mapping[str, list[Spec | None]], changes: Mapping[Slot, Any] | None = None, **plan: Any
) -> Screening:
    """One agent's screening of a pack: task -> what became of each planned slot; `changes` by slot."""
    values: dict[str, Any] = {
        "screening_id": f"scr-{agent}",
        "agent_id": agent,
        "agent_digest": hashlib.sha256(agent.encode()).hexdigest(),
        "agent_version": "1",
        "models": MODEL,
        **plan,
    }
    made = plan_of({task: len(slots) for task, slots in tasks.items()}, **values)
    tries = []
    for task, slots in tasks.items():
        for index, spec in enumerate(slots, 1):
            if spec is None:
                continue
            own = (changes or {}).get((task, index), {})
            digest = None
            if spec.certificate is not CertificateState.MISSING:
                text = f"{made.screening_id}\0{task}\0{index}"
                digest = hashlib.sha256(text.encode()).hexdigest()
            tries.append(attest(made, (task, index), spec, **{"certificate_digest": digest, **own}))
    return made, tries


def scored(*screenings: Screening, view: View = View.PUBLIC, **options: Any) -> Leaderboard:
    return score_board(screenings, view=view, **options)


def means(board: Leaderboard) -> dict[str, dict[str, Fraction]]:
    """task -> entrant -> the score that is compared."""
    return {t.task: dict(zip(t.entrants, t.scores, strict=True)) for t in board.overall.tasks}


def test_tries_become_same_question_comparisons() -> None:
    """S1-5, S1-10: three tries of a task are one result, their mean; the pairing is the entrant (S1-1)."""
    board = scored(
        screen("ann", {"t1": [PASS, PASS, FAIL], "t2": [PASS]}),
        screen("bob", {"t1": [PASS, FAIL, FAIL], "t2": [PASS]}),
    )
    ann, bob = NAME["ann"], NAME["bob"]
    assert means(board) == {
        "coding-core/t1": {ann: Fraction(2, 3), bob: Fraction(1, 3)},
        "coding-core/t2": {ann: Fraction(1), bob: Fraction(1)},
    }
    assert [(row.rank, row.entrant, row.wins) for row in board.overall.rows] == [
        (1, ann, Fraction(3, 2)),
        (2, bob, Fraction(1, 2)),
    ]


def test_the_same_model_in_another_harness_is_another_entrant() -> None:
    """S1-1: and the same harness with another model too."""
    other = (ModelUse("main", "model-2", "model-2-2026-01-01"),)
    board = scored(
        screen("ann", {"t1": [PASS]}),
        screen("bob", {"t1": [FAIL]}),
        screen("ann", {"t1": [FAIL]}, models=other, agent_digest="f" * 64, screening_id="scr-4"),
    )
    names = {row.entrant for row in board.overall.rows}
    assert names == {"ann@1 + model-1", "bob@1 + model-1", "ann@1 + model-2-2026-01-01"}


def test_two_screenings_of_one_revision_are_one_entrant() -> None:
    """More tries of the same pairing are repeats (S1-10), in one pack or in several."""
    again = screen("ann", {"t1": [FAIL]}, screening_id="scr-again")
    board = scored(screen("ann", {"t1": [PASS]}), again, screen("bob", {"t1": [FAIL]}))
    assert means(board)["coding-core/t1"][NAME["ann"]] == Fraction(1, 2)


INVALID = {
    "timeout": TIMEOUT,
    "cost cap": Spec(Reason.COST_CAP),
    "network rule": Spec(Reason.NETWORK_VIOLATION),
    "crash": Spec(Reason.CRASH),
    "tool error": Spec(Reason.TOOL_ERROR),
    "out of memory": Spec(Reason.OUT_OF_MEMORY),
    "no verdict": Spec(Reason.NO_VERDICT),
    "platform fault": FAULT,
    "not startable": Spec(Reason.AGENT_NOT_STARTABLE),
    "unverified pass": replace(PASS, level=SandboxLevel.UNVERIFIED),
    "simulated pass": replace(PASS, level=SandboxLevel.SIMULATED),
    "pass without certificate": LOST_CERTIFICATE,
    "pass with an invalid certificate": replace(PASS, certificate=CertificateState.INVALID),
}


@pytest.mark.parametrize("spec", INVALID.values(), ids=INVALID)
def test_only_finished_verified_results_count(spec: Spec) -> None:
    """S1-4: absent from score, time and cost; only coverage shows that it started."""
    rest = screen("bob", {"t1": [FAIL], "t2": [FAIL]})
    board = scored(screen("ann", {"t1": [PASS], "t2": [spec]}), rest)
    plain = scored(screen("ann", {"t1": [PASS], "t2": [None]}), rest)
    ann, without = board.overall.row(NAME["ann"]), plain.overall.row(NAME["ann"])
    assert replace(ann, coverage=without.coverage) == without
    assert (ann.coverage.runs_valid, ann.coverage.runs_started, ann.coverage.runs_planned) == (1, 2, 2)
    assert without.coverage.runs_started == 1


def test_tampering_is_a_valid_zero() -> None:
    """`TAMPERING_IS_ZERO`: it loses, also on a graded task, instead of being absent."""
    slots = {("t1", 1): {"reward": Fraction(9, 10)}}
    board = scored(
        screen("ann", {"t1": [Spec(Reason.TAMPERING)]}, slots),
        screen("bob", {"t1": [FAIL]}, {("t1", 1): {"reward": Fraction(1, 10)}}),
    )
    assert means(board)["coding-core/t1"] == {NAME["ann"]: 0, NAME["bob"]: Fraction(1, 10)}


def test_rewards_are_compared_where_every_valid_run_has_one() -> None:
    """S1-6, `SCORE_SCALE`: 7/10 beats 3/10 though both failed; one missing reward makes the task pass or
    fail."""
    high, low = {("t1", 1): {"reward": Fraction(7, 10)}}, {("t1", 1): {"reward": Fraction(3, 10)}}
    graded = scored(screen("ann", {"t1": [FAIL]}, high), screen("bob", {"t1": [FAIL]}, low))
    assert [row.rank for row in graded.overall.rows] == [1, 2]
    partly = scored(
        screen("ann", {"t1": [FAIL]}, high), screen("bob", {"t1": [FAIL]}, low), screen("cyd", {"t1": [PASS]})
    )
    assert means(partly)["coding-core/t1"] == {NAME["ann"]: 0, NAME["bob"]: 0, NAME["cyd"]: 1}


def test_default_places_are_pack_and_use_cases() -> None:
    """`DEFAULT_PLACES`, S1-2; stated places take their place."""
    tags = {"t1": TaskTags(("debugging",), None)}
    pair = [screen(name, {"t1": [PASS], "t2": [FAIL]}, tags=tags) for name in ("ann", "bob")]
    names = [board.page.name for board in scored(*pair).pages]
    assert names == ["overall", "coding-core", "coding-core/debugging"]
    places = {("coding-core", "t1"): Place("dev"), ("coding-core", "t2"): Place("ops", frozenset({"db"}))}
    names = [board.page.name for board in scored(*pair, places=places).pages]
    assert names == ["overall", "dev", "ops", "ops/db"]
    with pytest.raises(MalformedInputError) as caught:
        scored(*pair, places={("coding-core", "t1"): Place("dev")})
    assert caught.value.code == "unplaced-task"


USE = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 200}
PRICE = ListPrice(Fraction(3), Fraction(3, 10), Fraction(15))


def test_one_price_table_prices_every_entrant() -> None:
    """S1-27, S1-28: tokens x the stated table, whatever the relay computed; a run that the table or the meter
    does not know is skipped (S1-31)."""
    slots = {("t1", 1): USE, ("t2", 1): {**USE, "output_tokens": None}}
    unknown = (ModelUse("main", "model-9", None),)
    board = scored(
        screen("ann", {"t1": [PASS], "t2": [PASS]}, slots),
        screen("bob", {"t1": [PASS]}, {("t1", 1): USE}, models=unknown),
        prices={"model-1": PRICE},
    )
    ann, bob = board.overall.rows
    assert (ann.cost.mean, ann.cost.known, ann.cost.runs) == (Fraction(123, 25000), 1, 2)
    assert (bob.cost.mean, bob.cost_rank) == (None, None)


def test_two_models_have_no_single_price() -> None:
    """Tokens are not known by model, so a harness with two models has no cost at a table; never a guess."""
    both = (*MODEL, ModelUse("judge", "model-2", None))
    board = scored(
        screen("ann", {"t1": [PASS]}, {("t1", 1): USE}, models=both),
        prices={"model-1": PRICE, "model-2": PRICE},
    )
    assert board.overall.rows[0].cost.mean is None


def test_list_cost_of_the_relay_is_used_without_a_table() -> None:
    """S1-26: the entrant's model calls at list price, in exact USD."""
    row = scored(screen("ann", {"t1": [replace(PASS, cost_nusd=123_456_789)]})).overall.rows[0]
    assert row.cost.mean == Fraction(123_456_789, 10**9)


PAIR = (screen("ann", {"t1": [PASS]}), screen("bob", {"t1": [FAIL]}))


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (screen("bob", {"t1": [FAIL]}, pack_version="2", pack_digest="c" * 64), "pack-mix"),
        (screen("bob", {"t1": [FAIL]}, pack_digest="c" * 64), "pack-mix"),
        (screen("bob", {"t1": [FAIL]}, judge="model-j@2026-01-01"), "judge-mix"),
        (
            screen(
                "bob", {"t1": [FAIL]}, {("t1", 1): {"price_sheet": PriceSheet("p", "2026-01-01", "d" * 64)}}
            ),
            "price-mix",
        ),
    ],
)
def test_what_may_not_be_mixed_raises(second: Screening, code: str) -> None:
    """Family 9: pack versions, judges and price sheets; a type error, not a warning."""
    with pytest.raises(MethodologyMixError) as caught:
        scored(PAIR[0], second)
    assert caught.value.code == code


def test_provenance_labels_are_never_mixed(conditions: Any) -> None:
    """S4-1 through family 9: independent and publisher-reported results do not meet on one board."""
    ours = screen("ann", {"t1": [PASS]}, conditions=conditions)
    theirs = replace(conditions, provenance=Provenance.PUBLISHER)
    with pytest.raises(MethodologyMixError) as caught:
        scored(ours, screen("bob", {"t1": [FAIL]}, conditions=theirs))
    assert caught.value.code == "provenance-mix"
    assert len(scored(ours, screen("bob", {"t1": [FAIL]}, conditions=conditions)).overall.rows) == 2


@pytest.fixture
def conditions() -> Any:
    from scoring.facts import Conditions

    return Conditions(
        suite_version="1",
        timeouts_ms=(("t1", 1000),),
        step_limit=None,
        network_policy="none",
        permitted_tools=None,
        hardware_class="small",
        runtime="runc",
        repeats=1,
        provenance=Provenance.INDEPENDENT,
    )


@pytest.mark.parametrize(
    ("screenings", "code"),
    [
        ((), "no-screening"),
        ((PAIR[0], PAIR[0]), "duplicate-screening"),
        (
            (PAIR[0], screen("ann", {"t1": [FAIL]}, agent_digest="e" * 64, screening_id="other")),
            "entrant-mix",
        ),
        (
            (
                PAIR[0],
                screen(
                    "bob",
                    {"t1": [PASS]},
                    {("t1", 1): {"certificate_digest": PAIR[0][1][0].certificate_digest}},
                ),
            ),
            "duplicate-certificate",
        ),
        (((PAIR[0][0], [*PAIR[0][1], *PAIR[0][1]]),), "duplicate-slot"),
        (((PAIR[0][0], PAIR[1][1]),), "foreign-screening"),
        (((PAIR[0][0], ["pass"]),), "not-a-verified-try"),
    ],
)
def test_input_that_no_screening_produces_is_refused(screenings: Any, code: str) -> None:
    """Family 10 at the scorer."""
    with pytest.raises(MalformedInputError) as caught:
        score_board(screenings, view=View.PUBLIC)
    assert caught.value.code == code


def test_a_view_is_a_view() -> None:
    """Family 10: text is not coerced."""
    with pytest.raises(MalformedInputError):
        score_board(PAIR, view="public")  # type: ignore[arg-type]


def test_the_public_board_is_a_function_of_public_tries() -> None:
    """Family 11: private tries change nothing there; the owner's board counts them and says so."""
    ann = screen("ann", {"t1": [PASS, PRIVATE], "t2": [PRIVATE]})
    hidden = (ann[0], [try_ for try_ in ann[1] if try_.public])
    assert as_data(scored(ann, PAIR[1])) == as_data(scored(hidden, PAIR[1]))
    owner = scored(ann, PAIR[1], view=View.OWNER)
    assert owner.non_public_runs == 2
    assert owner.overall.row(NAME["ann"]).coverage.runs_valid == 3
    assert scored(ann, PAIR[1]).non_public_runs == 0


SPECS = st.sampled_from([PASS, FAIL, TIMEOUT, FAULT, LOST_CERTIFICATE, None])
TASKS = st.dictionaries(st.sampled_from(["t1", "t2", "t3"]), st.lists(SPECS, max_size=3), min_size=1)


@given(TASKS, TASKS, TASKS, st.randoms(use_true_random=False))
def test_order_and_recomputation_give_the_same_board(
    ann: Any, bob: Any, cyd: Any, rng: random.Random
) -> None:
    """Families 1 and 15: shuffled screenings and tries give equal results, data and digests."""
    made = [screen(name, tasks) for name, tasks in (("ann", ann), ("bob", bob), ("cyd", cyd))]
    first = scored(*made)
    shuffled = [(plan, rng.sample(list(tries), len(tries))) for plan, tries in made]
    rng.shuffle(shuffled)
    again = scored(*shuffled)
    assert first == again
    assert json.dumps(as_data(first), sort_keys=True) == json.dumps(as_data(again), sort_keys=True)


def test_an_added_platform_fault_changes_coverage_only() -> None:
    """Family 3 as the board reads it: a fault is absent from every figure."""
    before = scored(PAIR[0], PAIR[1])
    after = scored(PAIR[0], screen("bob", {"t1": [FAIL, FAULT]}))
    for row, again in zip(before.overall.rows, after.overall.rows, strict=True):
        assert replace(again, coverage=row.coverage) == row


def test_the_registry_knows_the_board() -> None:
    """G-4: one entry, its id, this scorer, its readings."""
    entry = find(METHODOLOGY)
    assert entry.scorer is score_board
    assert entry.readings == scored(*PAIR).readings
    assert dict(entry.constants)["reference_draws"] == 2


def test_importing_the_scorer_does_not_import_numpy_or_sparse() -> None:
    """The board's own modules are light until a page is computed, so that a CLI starts fast."""
    modules = "scoring.leaderboard.score, scoring.leaderboard.board_data, scoring.leaderboard.arithmetic"
    code = f"import sys, {modules}; sys.exit('numpy' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPO, check=False).returncode == 0
