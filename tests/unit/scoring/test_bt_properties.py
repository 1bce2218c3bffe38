"""Property family 7 of the board, with families 1, 10 and 15, and the cases that must not be asserted."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
from bt_builders import (
    ELO_TOLERANCE,
    NAMES,
    REFERENCES,
    Scores,
    boards,
    fitted,
    page,
    runs_of,
    table,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from scoring.leaderboard.board_data import as_data
from scoring.leaderboard.entries import BoardRun, Place
from scoring.leaderboard.pages import leaderboard_of

SHIFTS = st.integers(-500_000, 500_000).map(lambda milli: milli / 1000)
PAIRS = st.permutations(NAMES).map(lambda names: (names[0], names[1]))


def near(got: Mapping[str, float], want: Mapping[str, float]) -> bool:
    return got.keys() == want.keys() and all(abs(got[name] - want[name]) < ELO_TOLERANCE for name in got)


@given(boards(), REFERENCES, SHIFTS)
def test_shifting_all_references_shifts_all_scores(
    scores: Scores, references: dict[str, float], shift: float
) -> None:
    """Family 7: only differences to the reference are in the model."""
    moved = fitted(scores, {name: value + shift for name, value in references.items()})
    assert near(moved, {name: value + shift for name, value in fitted(scores, references).items()})


@given(boards(), REFERENCES, st.permutations(NAMES))
def test_renaming_entrants_renames_their_scores(
    scores: Scores, references: dict[str, float], names: list[str]
) -> None:
    """Family 7: a name, and the place in the alphabet that comes with it, has no influence."""
    new = dict(zip(NAMES, names, strict=True))
    renamed = {task: {new[name]: score for name, score in row.items()} for task, row in scores.items()}
    got = fitted(renamed, {new[name]: value for name, value in references.items()})
    assert near(got, {new[name]: value for name, value in fitted(scores, references).items()})


@given(boards(), REFERENCES)
def test_swapping_all_results_mirrors_all_scores(scores: Scores, references: dict[str, float]) -> None:
    """Family 7: negated results and references negate the scores."""
    swapped = {task: {name: -score for name, score in row.items()} for task, row in scores.items()}
    got = fitted(swapped, {name: -value for name, value in references.items()})
    assert near(got, {name: -value for name, value in fitted(scores, references).items()})


@given(boards(), REFERENCES, PAIRS)
def test_a_two_entrant_draw_never_widens_the_gap(
    scores: Scores, references: dict[str, float], pair: tuple[str, str]
) -> None:
    """Family 7."""
    present = {**scores, "both": dict.fromkeys(pair, Fraction(0))}
    before = fitted({**scores, "one": {pair[0]: Fraction(0)}, "two": {pair[1]: Fraction(0)}}, references)
    after = fitted(present, references)
    gaps = [abs(fit[pair[0]] - fit[pair[1]]) for fit in (before, after)]
    assert gaps[1] <= gaps[0] + ELO_TOLERANCE


@given(boards(), REFERENCES, PAIRS)
def test_a_two_entrant_win_never_hurts_the_winner(
    scores: Scores, references: dict[str, float], pair: tuple[str, str]
) -> None:
    """Family 7: the winner never falls and the loser never rises."""
    winner, loser = pair
    before = fitted({**scores, "one": {winner: Fraction(0)}, "two": {loser: Fraction(0)}}, references)
    after = fitted({**scores, "won": {winner: Fraction(1), loser: Fraction(0)}}, references)
    assert after[winner] >= before[winner] - ELO_TOLERANCE
    assert after[loser] <= before[loser] + ELO_TOLERANCE


def test_not_asserted_the_sole_winner_of_a_larger_task_may_fall() -> None:
    """With three entrants the winner's own result helps it, but an upset among the others moves an opponent
    that it is tied to. W and B drew ten times, B beat A three times; W wins a task in which A beats B."""
    draws = {f"d{place}": {"W": 1, "B": 1} for place in range(10)}
    upsets = {f"a{place}": {"B": 1, "A": 0} for place in range(3)}
    scores = table(**draws, **upsets)
    after = fitted({**scores, **table(new={"W": 2, "A": 1, "B": 0})})
    assert after["W"] < fitted(scores)["W"] - 4


@given(boards(), REFERENCES, st.randoms(use_true_random=False))
def test_order_has_no_effect_at_all(scores: Scores, references: dict[str, float], rng: random.Random) -> None:
    """Families 1 and 7, S1-12, S1-18: any order of tasks and runs gives the identical page, floats
    included."""
    rows = [(task, list(row.items())) for task, row in scores.items()]
    rng.shuffle(rows)
    for _, row in rows:
        rng.shuffle(row)
    assert page({task: dict(row) for task, row in rows}, references) == page(scores, references)


@given(boards(), REFERENCES)
def test_splitting_the_weight_of_every_task_changes_nothing(
    scores: Scores, references: dict[str, float]
) -> None:
    """Family 7: each comparison as two of half the weight is the same fit, at the level of solver rows."""
    import numpy as np

    from scoring.leaderboard.entries import TaskScores
    from scoring.leaderboard.pairs import PairWeights
    from scoring.leaderboard.solver import fit_rows

    kept = PairWeights(NAMES)
    for task, row in scores.items():
        kept.add(TaskScores.of(task, row))
    winners, losers, weights = kept.rows()
    held = np.array([references[name] for name in NAMES])
    whole = fit_rows(winners, losers, weights, held)
    halves = fit_rows(np.tile(winners, 2), np.tile(losers, 2), np.tile(weights / 2, 2), held)
    assert whole.scores == pytest.approx(halves.scores, abs=ELO_TOLERANCE)


@given(boards(), REFERENCES)
def test_an_entrant_without_comparisons_has_its_reference_exactly(
    scores: Scores, references: dict[str, float]
) -> None:
    """Family 7, S1-10, S1-16: alone on its only task, bit for bit."""
    alone = {task: {n: s for n, s in row.items() if n != "E"} for task, row in scores.items()}
    assert fitted({**alone, "own": {"E": Fraction(3)}}, references)["E"] == references["E"]


@given(boards())
def test_identical_records_have_equal_scores(scores: Scores) -> None:
    """Family 7: two entrants that score the same on the same tasks, under one reference, share the rank."""
    twins = {task: {**row, "T1": row["A"], "T2": row["A"]} for task, row in scores.items() if "A" in row}
    assume(twins)
    made = page(twins)
    assert made.row("T1").score == pytest.approx(made.row("T2").score, abs=ELO_TOLERANCE)
    assert made.row("T1").rank == made.row("T2").rank == made.row("A").rank


@given(boards())
def test_the_common_reference_is_the_mean_of_all_scores(scores: Scores) -> None:
    """With one reference r for all the fit is centred: what comparisons give one they take from another, so
    the reference draws must balance; an entrant is above r exactly by the others being below."""
    from math import log, tanh

    fit = fitted(scores)
    assert sum(tanh((score - 1000) * log(10) / 800) for score in fit.values()) == pytest.approx(0, abs=1e-8)


@given(boards(), REFERENCES, st.integers(1, 7), st.fractions(-3, 3))
def test_only_the_order_of_scores_counts(
    scores: Scores, references: dict[str, float], scale: int, offset: Fraction
) -> None:
    """Family 7: an increasing transform, another one on each task, gives the identical ranks and scores."""
    moved = {
        task: {name: (score**3) * scale * (place + 1) + offset for name, score in row.items()}
        for place, (task, row) in enumerate(scores.items())
    }
    assert fitted(moved, references) == fitted(scores, references)


@given(boards(max_tasks=4), st.randoms(use_true_random=False))
def test_recomputation_gives_the_same_data(scores: Scores, rng: random.Random) -> None:
    """Family 15: twice, and from a shuffled export: the same canonical data and input digest."""
    runs = runs_of(scores)
    places = {task: Place("x" if len(row) % 2 else "y", frozenset({"s"})) for task, row in scores.items()}
    first = leaderboard_of(runs, places)
    rng.shuffle(runs)
    again = leaderboard_of(runs, dict(sorted(places.items(), reverse=True)))
    assert json.dumps(as_data(first), sort_keys=True) == json.dumps(as_data(again), sort_keys=True)
    assert first == again


@given(boards(max_tasks=3))
def test_any_change_of_the_input_changes_the_digest(scores: Scores) -> None:
    """Family 15: the digest is of the input: also what no figure shows is in it."""
    runs, places = runs_of(scores), {task: Place("x") for task in scores}
    plain = leaderboard_of(runs, places).inputs_digest
    later = [replace(runs[0], wall_ms=1), *runs[1:]]
    cheaper = [replace(runs[0], cost_usd=Fraction(1, 10**9)), *runs[1:]]
    more = [*runs, BoardRun("A", runs[0].task, None, started=False)]
    moved = {**places, runs[0].task: Place("x", frozenset({"s"}))}
    others = [leaderboard_of(changed, places).inputs_digest for changed in (later, cheaper, more)]
    assert len({plain, leaderboard_of(runs, moved).inputs_digest, *others}) == 5
