"""The money of a lane (reference/relay.md section 2): held before it is spent, never above the cap."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from workers.relay.budget import Budget
from workers.relay.wire.usage import Completeness

EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN
AMOUNT = st.integers(0, 100)


class Money(RuleBasedStateMachine):
    """Random calls against a cap and a step limit, beside a plain model of both.

    Providers keep to their maximum here, so the cap holds without any exception.
    """

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(None, None)
        self.open: dict[int, int] = {}
        self.spent_nusd = 0
        self.steps = 0
        self.calls = 0

    @initialize(cap=st.none() | st.integers(0, 300), steps=st.none() | st.integers(0, 12))
    def begin(self, cap: int | None, steps: int | None) -> None:
        self.budget = Budget(cap, steps)

    @rule(nusd=AMOUNT)
    def admit(self, nusd: int) -> None:
        """What fits by the rule may start, what does not may not."""
        cap = self.budget.cap_nusd
        room = cap is None or (cap > 0 and self.spent_nusd + sum(self.open.values()) + nusd <= cap)
        assert self.budget.fits(nusd) == room
        if room and self.budget.steps_left() != 0:
            self.calls += 1
            self.budget.hold(self.calls, nusd)
            self.open[self.calls] = nusd
            self.steps += 1

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 99), share=st.integers(0, 100), how=st.sampled_from(Completeness))
    def settle(self, pick: int, share: int, how: Completeness) -> None:
        """An exact cost replaces the hold; anything else keeps all of it."""
        call = sorted(self.open)[pick % len(self.open)]
        held = self.open.pop(call)
        cost = held * share // 100
        booked = self.budget.settle(call, how, cost if how is EXACT else None)
        assert booked == (cost if how is EXACT else held)
        self.spent_nusd += booked

    @precondition(lambda self: self.open)
    @rule(pick=st.integers(0, 99), times=st.integers(1, 3))
    def release(self, pick: int, times: int) -> None:
        """A call without an answer costs nothing and is no step, however often that is said."""
        call = sorted(self.open)[pick % len(self.open)]
        for _ in range(times):
            self.budget.release(call)
        del self.open[call]
        self.steps -= 1

    @invariant()
    def never_above_the_cap(self) -> None:
        budget = self.budget
        assert budget.cap_nusd is None or budget.spent_nusd + budget.held_nusd <= budget.cap_nusd
        assert budget.step_limit is None or budget.steps <= budget.step_limit

    @invariant()
    def as_the_model_says(self) -> None:
        budget = self.budget
        assert (budget.spent_nusd, budget.held_nusd) == (self.spent_nusd, sum(self.open.values()))
        assert budget.steps == self.steps
        assert budget.overrun_nusd == 0
        assert all(budget.is_open(call) for call in self.open)


TestMoney = Money.TestCase


class Overrun(RuleBasedStateMachine):
    """Providers that bill more than the maximum they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(500, None)
        self.calls = 0

    @rule(nusd=AMOUNT, more=st.integers(0, 50))
    def call(self, nusd: int, more: int) -> None:
        if self.budget.fits(nusd):
            self.calls += 1
            self.budget.hold(self.calls, nusd)
            self.budget.settle(self.calls, EXACT, nusd + more)

    @invariant()
    def the_excess_is_counted(self) -> None:
        """Above the cap is only what is shown as overrun, and then nothing more fits."""
        budget = self.budget
        assert budget.spent_nusd <= 500 + budget.overrun_nusd
        if budget.spent_nusd >= 500:
            assert not budget.fits(1)
            assert budget.left_nusd() == 0


TestOverrun = Overrun.TestCase


def test_a_cap_of_zero_lets_not_even_a_free_call_start() -> None:
    """Zero is a cap, not the absence of one (report 6 of section 5)."""
    budget = Budget(0, None)
    assert not budget.fits(0)
    assert budget.left_nusd() == 0


def test_without_a_cap_everything_fits() -> None:
    """None is the absence of a cap."""
    budget = Budget(None, None)
    assert budget.fits(10**15)
    assert budget.left_nusd() is None
    assert budget.steps_left() is None


def test_a_call_of_exactly_what_is_left_fits_and_one_more_does_not() -> None:
    """Refused is what is above the cap, not what reaches it."""
    budget = Budget(100, None)
    budget.hold(1, 40)
    assert budget.fits(60)
    assert not budget.fits(61)


def test_open_calls_count_as_steps() -> None:
    """Parallel calls cannot pass a step limit together."""
    budget = Budget(None, 2)
    budget.hold(1, 0)
    assert budget.steps_left() == 1
    budget.hold(2, 0)
    assert budget.steps_left() == 0
    budget.release(1)
    assert budget.steps_left() == 1


@pytest.mark.parametrize("how", [BOUNDED, UNKNOWN])
def test_what_is_not_exactly_known_costs_its_hold(how: Completeness) -> None:
    """Even a cost that was computed is not booked for such a call."""
    budget = Budget(100, None)
    budget.hold(1, 70)
    assert budget.settle(1, how, 3) == 70
    assert (budget.spent_nusd, budget.held_nusd, budget.overrun_nusd) == (70, 0, 0)


def test_an_exact_call_without_a_cost_costs_its_hold() -> None:
    """No price means no cheaper booking."""
    budget = Budget(100, None)
    budget.hold(1, 70)
    assert budget.settle(1, EXACT, None) == 70


def test_a_call_is_settled_once() -> None:
    """A second settlement would count money twice; it is an error of ours and shows as one."""
    budget = Budget(100, None)
    budget.hold(1, 70)
    budget.settle(1, EXACT, 10)
    with pytest.raises(KeyError):
        budget.settle(1, EXACT, 10)
    budget.release(1)
    assert (budget.spent_nusd, budget.steps) == (10, 1)
