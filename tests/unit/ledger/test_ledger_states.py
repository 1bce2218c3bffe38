"""The pure half: states that follow, for every outcome, number of re-runs and set of slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.ledger.states import (
    CLOSED_SCREENINGS,
    ENDED_SLOTS,
    OPEN_SLOTS,
    AttemptState,
    ScreeningState,
    SlotState,
    closing_state,
    ending_of,
    in_stopped_screening,
    interruption,
)
from scoring.vocabulary import Outcome


@given(st.sampled_from(Outcome), st.integers(0, 5), st.integers(0, 5))
def test_every_end_has_exactly_one_consequence(outcome: Outcome, reruns: int, limit: int) -> None:
    """4.2, transitions 5 to 7: what counts, and what runs again at most R times."""
    ending = ending_of(outcome, reruns, limit)
    counts = outcome in (Outcome.PASSED, Outcome.FAILED)
    assert (ending.attempt is AttemptState.RECORDED) == counts == (ending.slot is SlotState.RECORDED)
    assert ending.rerun == (outcome is Outcome.PLATFORM_FAULT and reruns < limit)
    assert ending.rerun == (ending.slot is SlotState.QUEUED) == (not ending.final)


def test_two_reruns_then_uncountable() -> None:
    """DESIGN section 7: re-run at most twice."""
    slots = [ending_of(Outcome.PLATFORM_FAULT, reruns).slot for reruns in (0, 1, 2)]
    assert slots == [SlotState.QUEUED, SlotState.QUEUED, SlotState.UNCOUNTABLE]


def test_an_interruption_is_never_a_rerun() -> None:
    """Stopping the process gives the slot back; it is nobody's fault."""
    ending = interruption()
    assert (ending.slot, ending.attempt, ending.rerun) == (SlotState.QUEUED, AttemptState.VOID, False)


@given(st.sampled_from(Outcome), st.integers(0, 3))
def test_nothing_goes_back_to_the_queue_of_a_stopped_screening(outcome: Outcome, reruns: int) -> None:
    """Transition 10: otherwise such a slot would stay open for ever; ends that count stay what they are."""
    for ending in (ending_of(outcome, reruns), interruption()):
        stopped = in_stopped_screening(ending)
        assert stopped.final and stopped.attempt is ending.attempt
        assert stopped == ending if ending.final else stopped.slot is SlotState.CANCELLED


_COUNTS = st.dictionaries(st.sampled_from(SlotState), st.integers(0, 4))


@given(_COUNTS, st.sampled_from([None, "cancelled", "cap_stopped"]), st.integers(0, 4))
def test_a_screening_closes_exactly_when_no_slot_is_open(
    counts: dict[SlotState, int], stop: str | None, not_evaluable: int
) -> None:
    """4.3 and invariant 1; complete means that every planned try was recorded, whoever stopped it."""
    closed = closing_state(counts, not_evaluable=not_evaluable, stop_reason=stop)
    if any(counts.get(state, 0) for state in OPEN_SLOTS):
        assert closed is None
        return
    assert closed in CLOSED_SCREENINGS
    lost = sum(counts.get(state, 0) for state in ENDED_SLOTS - {SlotState.RECORDED})
    assert (closed is ScreeningState.COMPLETE) == (lost == 0)
    if lost and stop:
        assert closed == stop


@pytest.mark.parametrize(
    ("recorded", "expected"), [(0, ScreeningState.NOT_EVALUABLE), (1, ScreeningState.PARTIAL)]
)
def test_not_evaluable_only_when_nothing_was_recorded(recorded: int, expected: ScreeningState) -> None:
    """An agent that ran once can be started; then the screening is partial."""
    counts = {SlotState.RECORDED: recorded, SlotState.UNCOUNTABLE: 2}
    assert closing_state(counts, not_evaluable=2, stop_reason=None) is expected
