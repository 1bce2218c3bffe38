"""Agents that want more calls than the cap pays for, another try's budget, or a transcript without end."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from workers.relay.state import LaneState

if TYPE_CHECKING:
    from types import ModuleType

    from tests.assets.relayed.house import House
    from tests.assets.relayed.provider import Provider

pytestmark = pytest.mark.docker

EXACT_NUSD = 30_000
ROOM_FOR_ONE_NUSD = 700_000
"""A call of these tests holds some 400,000 nano-USD."""
AT_ONCE = 32
PASSED = ("passed", "all_checks_passed")

PARALLEL = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(32) as pool:
    show(sorted(pool.map(ask, ["late parallel"] * 32)))
show([ask("after")])
done()
"""
SWAP = """
status, answer = send(body_of("swap " + TOKEN))
other = json.loads(answer)["choices"][0]["message"]["content"]
assert other != TOKEN and len(other) == 64
ways = ({"authorization": "Bearer " + other}, {"x-api-key": other}, {"x-goog-api-key": other})
show([send(body_of("stolen"), headers={"authorization": "", **way})[0] for way in ways])
show([send(body_of("stolen"), CHAT + "?key=" + other, token="")[0]])
show([ask("own")])
done()
"""
STORM = """
def many(data, count, path=CHAT, token=TOKEN):
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    seen = set()
    for _ in range(count):
        connection.request("POST", path, data, head_of(token))
        answer = connection.getresponse()
        answer.read()
        seen.add(answer.status)
    return sorted(seen)
show(many(body_of("x" * 1000, model="side-model"), 1200))
show(many(body_of("stolen"), 300, token="0" * 64))
show(many(body_of("lost"), 300, path="/v1/files"))
show(many(body_of("count"), 300, path="/v1/messages/count_tokens"))
show([ask("after")])
done()
"""


def _all_refused_but_one(state: LaneState) -> bool:
    return bool(state.tally["refusals"].get("cap_reached", 0) == AT_ONCE - 1)


def test_of_32_calls_with_room_for_one_one_reaches_the_provider(house: House, provider: Provider) -> None:
    """Issue 4: admission checks and holds in one step; what the one call leaves can be spent again."""
    order = house.order(PARALLEL, cap_nusd=ROOM_FOR_ONE_NUSD)
    gate = provider.gates["parallel"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.run, order)
        assert gate.arrived.wait(60)
        state = house.lanes[order.attempt_id].wait_for(_all_refused_but_one, 60)
        assert state.spent_nusd == 0 and 0 < state.held_nusd <= ROOM_FOR_ONE_NUSD
        gate.go.set()
        ran = running.result(60)
    assert ran.shown == [[200, *[402] * (AT_ONCE - 1)], [200]]
    assert provider.texts() == ["late parallel", "after"]
    assert ran.report.spent_nusd == ran.money.spent_nusd == 2 * EXACT_NUSD
    assert ran.denied() == ["cap_reached"] * (AT_ONCE - 1)
    assert ran.end == ("failed", "cost_cap"), "a try that was refused money has failed by it"


def test_a_token_is_worth_nothing_on_another_lane(house: House, provider: Provider, relayed: Any) -> None:
    """relay.md section 2: socket and token name the try together. The two agents meet at the provider."""
    shared: ModuleType = relayed("provider")
    tokens: list[str] = []

    def answer(taken: Any) -> Any:
        word, _, token = taken.text.partition(" ")
        if word != "swap":
            return provider.usual(taken)
        tokens.append(token)
        gate = provider.gates["both"]
        if len(tokens) == 2:
            gate.go.set()
        gate.wait()
        other = next(one for one in tokens if one != token)
        return shared.Answer(parts=(json.dumps(shared.completion(other)).encode(),))

    provider.answer = answer
    ran = house.run_all({"one": house.order(SWAP), "other": house.order(SWAP)})
    assert {name: one.end for name, one in ran.items()} == {"one": PASSED, "other": PASSED}
    for one in ran.values():
        assert one.shown == [[401, 401, 401], [401], [200]]
        assert one.report.spent_nusd == one.money.spent_nusd == 2 * EXACT_NUSD
    assert sorted(provider.texts())[:2] == ["own", "own"] and len(provider.taken) == 4


def test_a_storm_of_refusals_leaves_a_short_transcript(house: House, provider: Provider) -> None:
    """Refused requests are counted; so many of them are not recorded, and none with its text."""
    ran = house.run(house.order(STORM))
    assert ran.shown == [[403], [401], [404], [200, 429], [200]]
    denied = ran.denied()
    assert len(denied) == 1000 and set(denied) == {"model_not_pinned"}
    (close,) = ran.records("close")
    assert close["data"]["tally"]["refusals"] == {
        "bad_token": 300,
        "model_not_pinned": 1200,
        "rate_limited": 60,
        "route_not_allowed": 300,
    }
    assert close["data"]["denied"] == 1260
    assert len(ran.files["relay/transcript.jsonl"]) < 2_000_000
    assert provider.texts() == ["count"] * 240 + ["after"]
    assert ran.report.spent_nusd == ran.money.spent_nusd == EXACT_NUSD and ran.seen["relay_calls"] == 1
    assert ran.end == PASSED
