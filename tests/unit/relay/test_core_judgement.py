"""Whose trouble a failed call is, what an answered one is booked at, and when reports end a try."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.config import Policy
from workers.relay.outcome import Failure, judge
from workers.relay.settlement import Settlement, settlement
from workers.relay.state import LaneState, Tally
from workers.relay.watch import GRACE_MS, Ending, due, ending
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.usage import Completeness, Reading

EXACT, BOUNDED, UNKNOWN = Completeness.EXACT, Completeness.BOUNDED, Completeness.UNKNOWN
Desks = Callable[..., Any]
HELLO = [{"role": "user", "content": "hello"}]


def error(**fields: Any) -> bytes:
    return json.dumps({"error": fields}).encode()


@pytest.mark.parametrize(
    ("status", "fault", "shown"),
    [
        (400, None, True),
        (401, "platform", False),
        (402, "platform", False),
        (403, "platform", False),
        (404, "provider", True),
        (405, None, True),
        (407, "platform", False),
        (408, "provider", True),
        (409, "provider", True),
        (413, None, True),
        (415, None, True),
        (422, None, True),
        (425, "provider", True),
        (429, "provider", True),
        (301, "provider", False),
        (302, "provider", False),
        (307, "provider", False),
        (500, "provider", True),
        (502, "provider", True),
        (503, "provider", True),
        (504, "provider", True),
        (529, "provider", True),
        (599, "provider", True),
    ],
)
def test_a_status_says_whose_trouble_it_is(status: int, fault: Any, shown: bool) -> None:
    """Our key or account: the platform's, hidden. A bad request: the agent's. The rest: the provider's."""
    assert judge(status, b"{}") == Failure(fault, shown=shown)
    assert judge(status, b"\xff not json") == Failure(fault, shown=shown)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error(code=400, status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}])),
        (400, error(type="invalid_request_error", message="Your credit balance is too low to go on.")),
        (400, error(code="billing_hard_limit_reached")),
        (429, error(type="insufficient_quota", code="insufficient_quota")),
        (500, error(code="invalid_api_key")),
        (400, b"[" + error(code=400, details=[{"reason": "API_KEY_SERVICE_BLOCKED"}]) + b"]"),
    ],
)
def test_an_account_that_is_refused_or_empty_is_the_platforms_whatever_the_status(
    status: int, body: bytes
) -> None:
    """Providers say it with 400 and 429 too; the agent did nothing and sees nothing of it."""
    assert judge(status, body) == Failure("platform", shown=False)


@pytest.mark.parametrize(
    "body",
    [
        error(message="unknown field insufficient_quota"),
        error(message="bad text: Your credit balance is too low"),
        b"invalid_api_key",
        error(param="api_key_invalid"),
        b"[[]]",
        b'{"error": "invalid_api_key"}',
        b"[" * 100_000,
    ],
)
def test_words_that_the_agent_may_have_sent_are_no_code(body: bytes) -> None:
    """An agent that makes the provider repeat them must not become a platform fault."""
    assert judge(400, body) == Failure(None, shown=True)


def state(**tally: Any) -> LaneState:
    return LaneState("lane", 0, 0, 0, 0, 0, {**Tally().as_data(), **tally})


@pytest.mark.parametrize(
    ("tally", "reason"),
    [
        ({}, None),
        ({"refusals": {"model_not_pinned": 500}}, None),
        ({"lastGeneration": "provider", "providerFailures": 9}, None),
        ({"capRefusedUs": 5}, Ending.COST_CAP),
        ({"stepRefusedUs": 5}, Ending.STEP_CAP),
        ({"capRefusedUs": 5, "stepRefusedUs": 6}, Ending.COST_CAP),
        ({"capRefusedUs": 6, "stepRefusedUs": 5}, Ending.STEP_CAP),
        ({"capRefusedUs": 5, "stepRefusedUs": 5}, Ending.COST_CAP),
        ({"capRefusedUs": 0}, Ending.COST_CAP),
        ({"stepRefusedUs": 0}, Ending.STEP_CAP),
        ({"platformFault": "x", "capRefusedUs": 1}, Ending.PLATFORM),
    ],
)
def test_what_ends_a_try(tally: dict[str, Any], reason: Ending | None) -> None:
    """The first refusal for money or steps does; other refusals and a provider's trouble do not."""
    assert ending(state(**tally)) is reason


@pytest.mark.parametrize(
    ("tally", "since_ms", "now"),
    [
        ({}, None, False),
        ({}, 10**9, False),
        ({"capRefusedUs": 5}, None, False),
        ({"capRefusedUs": 5}, 0, False),
        ({"capRefusedUs": 5}, GRACE_MS - 1, False),
        ({"capRefusedUs": 5}, GRACE_MS, True),
        ({"stepRefusedUs": 5}, GRACE_MS, True),
        ({"platformFault": "x"}, None, False),
        ({"platformFault": "x"}, 0, True),
    ],
)
def test_a_cap_leaves_a_grace_and_trouble_of_the_house_none(
    tally: dict[str, Any], since_ms: int | None, now: bool
) -> None:
    """An agent may still write down what it has; a house in trouble judges nobody."""
    assert due(state(**tally), since_ms) is now


def test_before_the_first_report_nothing_ends() -> None:
    """A lane without a call has not reported."""
    assert ending(None) is None
    assert not due(None, 10**9)


def test_only_the_first_refusal_of_a_kind_is_timed() -> None:
    """The grace runs from it, however often the agent asks again."""
    tally = Tally()
    for at_us, code in enumerate(
        [Refusal.MODEL_NOT_PINNED, Refusal.CAP_REACHED, Refusal.CAP_REACHED, Refusal.STEP_LIMIT], 10
    ):
        tally.refused(code, at_us)
    assert (tally.cap_refused_us, tally.step_refused_us) == (11, 13)
    assert tally.refusals == {"model_not_pinned": 1, "cap_reached": 2, "step_limit": 1}


def test_failures_of_the_provider_are_counted_in_a_row() -> None:
    """One answer in between starts the count again."""
    tally = Tally()
    counted = []
    for last in ("provider", "provider", "ok", "provider", "agent", "provider", "platform"):
        tally.ended(last)
        counted.append(tally.provider_failures)
    assert counted == [1, 2, 0, 1, 0, 1, 0]


def test_one_call_that_is_not_exact_leaves_no_total() -> None:
    """A cost is published when all of it is known (section 2, two costs per call)."""
    tally = Tally()
    tally.settled(EXACT, Buckets(input=1), 5, 4)
    assert (tally.as_data()["listNusd"], tally.as_data()["standardNusd"]) == (5, 4)
    tally.settled(BOUNDED, Buckets(input=9), None, None)
    assert (tally.bounded, tally.as_data()["complete"]) == (1, False)
    assert (tally.as_data()["listNusd"], tally.as_data()["standardNusd"]) == (None, None)
    assert tally.as_data()["usage"]["input"] == 1


def reading(used: Buckets | None, how: Completeness = EXACT, **more: Any) -> Reading:
    return replace(Reading(how, used, (), "stop", "claude", False, True), **more)


def admitted(desk: Desks, **changes: Any) -> Any:
    lane = desk(policy=Policy(frozenset({"web_search"})))
    body = {"model": "claude", "max_tokens": 100, "messages": HELLO, **changes}
    return lane.asks(Family.ANTHROPIC, body)


def test_an_exact_usage_is_priced_both_ways_with_its_fees(desk: Desks) -> None:
    """Fees are inside of both costs and shown apart."""
    tool = {"type": "web_search_20250305", "name": "web_search"}
    used = Buckets(input=10, cache_read=20, cache_write_5m=30, output=40, calls={"web_search": 2})
    found = settlement(reading(used), admitted(desk, tools=[tool]))
    tokens = 10 * 3 + 20 * 1 + 30 * 4 + 40 * 15
    assert found == Settlement(reading(used), EXACT, (), tokens + 20_000, tokens + 20_000, fees_nusd=20_000)


def test_the_long_context_tier_is_in_the_list_price_and_not_in_the_standard(desk: Desks) -> None:
    """Standard is the base tier, list is what the provider charges (seeds 001 and 004)."""
    call = desk().asks(Family.GOOGLE, {"contents": []}, model="gem")
    found = settlement(reading(Buckets(input=2000, output=10)), call)
    assert (found.list_nusd, found.standard_nusd) == (2000 * 4 + 10 * 20, 2000 * 2 + 10 * 10)


@pytest.mark.parametrize("how", [BOUNDED, UNKNOWN])
@pytest.mark.parametrize("used", [None, Buckets(input=5)])
def test_what_is_not_exact_has_no_cost(desk: Desks, how: Completeness, used: Buckets | None) -> None:
    """Not even an estimate, which somebody would add up."""
    found = settlement(reading(used, how, flags=("cut",)), admitted(desk))
    assert (found.completeness, found.flags) == (how, ("cut",))
    assert found.list_nusd is found.standard_nusd is found.fees_nusd is None


@pytest.mark.parametrize("used", [Buckets(audio_input=1), Buckets(input=1, calls={"code_execution": 1})])
def test_a_dimension_without_a_price_makes_the_call_bounded(desk: Desks, used: Buckets) -> None:
    """It was used, so it is paid, and nobody here knows how much: never zero (report 7)."""
    found = settlement(reading(used, flags=("odd",)), admitted(desk))
    assert (found.completeness, found.flags) == (BOUNDED, ("odd", "unpriced_dimension"))
    assert found.list_nusd is None


def test_a_cost_above_its_hold_is_flagged_and_booked_in_full(desk: Desks) -> None:
    """The alarm that a bound was too small (section 8); the true cost stands."""
    call = admitted(desk)
    most = settlement(reading(Buckets(output=call.held.nusd // 15)), call)
    assert "above_hold" not in most.flags
    over = settlement(reading(Buckets(output=call.held.nusd // 15 + 1)), call)
    assert (over.completeness, over.flags) == (EXACT, ("above_hold",))
    assert over.list_nusd is not None and over.list_nusd > call.held.nusd


def test_a_settlement_record_has_every_figure(desk: Desks) -> None:
    """What the ledger is derived from later."""
    data = settlement(reading(Buckets(input=10, output=2)), admitted(desk)).as_data(60, "")
    assert data["usage"]["input"] == 10
    assert (data["listNusd"], data["standardNusd"], data["feesNusd"], data["bookedNusd"]) == (60, 60, 0, 60)
    assert (data["completeness"], data["fault"], data["finish"]) == ("exact", None, "stop")
    blamed = settlement(reading(None, UNKNOWN, provider_fault=True), admitted(desk)).as_data(7, "gone")
    assert (blamed["usage"], blamed["fault"], blamed["problem"]) == (None, "provider", "gone")
