"""How attempts with a relay end: caps, silence, trouble of the provider, of the account and of the pod."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.assets.services.own import wait_until
from tests.conftest import Control
from workers.relay.process import OpenLane
from workers.sandbox.client import Engine

if TYPE_CHECKING:
    from tests.assets.relayed.house import House
    from tests.assets.relayed.provider import Provider

pytestmark = pytest.mark.docker

FOR_EVER = "\nwhile True: ask('again')"
EXACT_NUSD = 30_000
OUTAGE = ("platform_fault", "provider_outage")
FAULT = ("platform_fault", "relay_fault")
LEASE = ("platform_fault", "worker_lost")
PASSED = ("passed", "all_checks_passed")


@pytest.mark.usefixtures("short_grace")
def test_caps_end_an_agent_that_asks_for_ever(house: House, provider: Provider) -> None:
    """agents.md section 0: no refusal stops every agent, so the worker does, a grace after the first."""
    ran = house.run_all(
        {
            "money": house.order("done()" + FOR_EVER, cap_nusd=1_000),
            "nothing": house.order("done()" + FOR_EVER, cap_nusd=0),
            "steps": house.order("done(); ask('one'); ask('two')" + FOR_EVER, step_limit=2),
            "side": house.order(
                "assert ask('title', model='side-model') == 403; assert ask('work') == 200; done()"
            ),
        }
    )
    assert {name: one.end for name, one in ran.items()} == {
        "money": ("failed", "cost_cap"),
        "nothing": ("failed", "cost_cap"),
        "steps": ("failed", "step_cap"),
        "side": PASSED,
    }
    assert set(ran["money"].denied()) == {"cap_reached"} and set(ran["steps"].denied()) == {"step_limit"}
    assert [ran[name].report.spent_nusd for name in ("money", "nothing")] == [0, 0]
    assert ran["steps"].report.spent_nusd == 2 * EXACT_NUSD
    assert ran["side"].denied() == ["model_not_pinned"]
    assert sorted(provider.texts()) == ["one", "two", "work"]


def test_trouble_of_the_provider_at_the_last_call_is_a_platform_fault(house: House) -> None:
    """DESIGN section 7: whatever the exit code and the work; trouble that was overcome is nobody's fault."""
    ran = house.run_all(
        {
            "429": house.order("ask('fine'); ask('429'); done()"),
            "500": house.order("ask('500'); ask('500'); raise SystemExit(3)"),
            "529": house.order("done(); assert ask('529') == 529"),
            "cut": house.order("done(); assert ask('cut', stream=True) == 0"),
            "overcome": house.order("ask('429'); ask('500'); assert ask('fine') == 200; done()"),
            "alibi": house.order("ask('fine'); print('429 rate limit exceeded'); raise SystemExit(1)"),
            "own": house.order("ask('fine'); assert ask('400') == 400; raise SystemExit(1)"),
        }
    )
    assert {name: one.end for name, one in ran.items()} == {
        **dict.fromkeys(("429", "500", "529", "cut"), OUTAGE),
        "overcome": PASSED,
        "alibi": ("failed", "crash"),
        "own": ("failed", "crash"),
    }
    failures = {name: one.seen["provider_failures"] for name, one in ran.items()}
    assert failures == {"429": 1, "500": 2, "529": 1, "cut": 1, "overcome": 0, "alibi": 0, "own": 0}
    assert [ran[name].seen["agent_exit_code"] for name in ("429", "500", "529")] == [0, 3, 0]
    assert ran["429"].report.spent_nusd == EXACT_NUSD
    # The hold of an answer that broke off stays booked: nobody knows what it cost.
    (line,) = ran["cut"].files["relay/ledger.jsonl"].splitlines()
    metered = json.loads(line)
    assert metered["costNusd"] is None and metered["bookedNusd"] == metered["holdNusd"] > EXACT_NUSD
    assert ran["cut"].report.spent_nusd == metered["bookedNusd"]


def test_an_agent_that_never_calls_is_reported_as_such(house: House, provider: Provider) -> None:
    """Issue 4 deliver 3: no call is None and 0 in the evidence; it decides nothing."""
    ran = house.run(house.order("done()"))
    assert ran.end == PASSED and provider.taken == []
    assert (ran.seen["relay_first_call_ms"], ran.seen["relay_calls"]) == (None, 0)
    assert json.loads(ran.files["observations.json"])["observations"]["relay_calls"] == 0
    assert ran.report.spent_nusd == 0


def test_a_refused_key_ends_the_try_at_once(house: House, provider: Provider) -> None:
    """relay.md 5.15: our own account's trouble is the platform's; the agent reads nothing of the provider."""
    ran = house.run(house.order("show(send(body_of('401'))[1].decode())" + FOR_EVER))
    assert ran.end == FAULT
    assert ran.seen["agent_clock"] is None and ran.seen["agent_exit_code"] is None
    # The try may end before the agent has said what it read; what it reads: tests/unit/relay.
    told = [json.loads(json.loads(line)) for line in ran.files["agent/stdout.txt"].splitlines()]
    assert all(one["error"]["code"] == "platform_fault" and "401" not in str(one) for one in told)
    assert provider.texts() == ["401"], "after the first refusal nothing more is sent"
    assert ran.report.spent_nusd == 0


def _status(lane: OpenLane) -> int | None:
    """The answer to a call on the lane's own socket with its own token; None when nobody listens."""
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer {lane.token}\r\n"
        "Content-Length: 2\r\nConnection: close\r\n\r\n{}"
    )
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(lane.socket))
            connection.sendall(request.encode())
            return int(connection.makefile("rb").readline().split()[1])
    except (FileNotFoundError, ConnectionRefusedError):
        return None


def test_the_deadline_ends_the_token_and_late_usage_counts(house: House, provider: Provider) -> None:
    """relay.md section 2: the token dies with the try; an open call is read to its end and counted."""
    order = house.order("ask('hold deadline', stream=True)", wall_ms=3_000)
    gate = provider.gates["deadline"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.run, order)
        assert gate.arrived.wait(60)
        lane = house.lanes[order.attempt_id]
        # While the try runs an empty call is the agent's mistake; from its end on it is refused as such.
        seen = [_status(lane)]
        while seen[-1] == 400:
            seen.append(_status(lane))
        gate.go.set()
        ran = running.result(60)
    assert (seen[0], seen[-1]) == (400, 403)
    assert _status(lane) is None, "nobody listens for a try that is over"
    assert ran.end == ("failed", "timeout")
    assert ran.report.spent_nusd == EXACT_NUSD and ran.seen["relay_calls"] == 1
    (settled,) = ran.records("settle")
    assert settled["data"]["completeness"] == "exact"
    assert ran.seen["provider_outage"] is False


def _forwarders(engine: Engine, labels: Mapping[str, Any]) -> list[str]:
    wanted = [f"assize.attempt={labels['assize.attempt']}", "assize.role=forwarder"]
    return [one["Id"] for one in engine.api.containers(filters={"label": wanted})]


def test_a_forwarder_that_is_killed_is_the_platforms_fault(
    house: House, provider: Provider, engine: Engine
) -> None:
    """The agent can neither see nor end it: somebody else did. Its good work does not count either."""
    order = house.order("done(); assert ask('late forwarder') == 0")
    gate = provider.gates["forwarder"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(house.run, order)
        assert gate.arrived.wait(60)
        (forwarder,) = _forwarders(engine, order.labels)
        engine.api.kill(forwarder)
        gate.go.set()
        ran = running.result(60)
    assert ran.end == FAULT
    assert ran.report.spent_nusd == EXACT_NUSD, "the call was answered, and is paid"


def test_a_host_that_lost_its_lease_spends_no_more(house: House, provider: Provider) -> None:
    """Cut off from the ledger, the platform refuses the next call and ends the try as a fault of its own."""
    control = Control()
    control.until = time.monotonic() + 3600
    order = house.order("ask('before'); done()" + FOR_EVER)

    def lose_it() -> None:
        wait_until(lambda: bool(provider.texts()), "the agent has called")
        control.until = time.monotonic()

    thread = threading.Thread(target=lose_it)
    thread.start()
    ran = house.run(order, control)
    thread.join(60)
    assert ran.end == LEASE
    assert ran.report.observations["lease_lost"] is True and ran.report.decision.suspect is False
    assert set(ran.denied()) == {"platform_fault"}
    calls = len(provider.texts())
    assert calls >= 1 and ran.report.spent_nusd == calls * EXACT_NUSD == ran.money.spent_nusd


def test_a_lease_that_is_renewed_all_the_time_stops_nobody(house: House) -> None:
    """Every look passes the new bound on to the relay."""

    class Renewed(Control):
        def calls_until(self) -> float:
            return time.monotonic() + 5

    control = Renewed()
    ran = house.run(
        house.order("import time\nask('a'); time.sleep(6); assert ask('b') == 200; done()"), control
    )
    assert ran.end == PASSED
