"""Twins of what real agents were seen to do (reference/agents.md 0, 2.2 and 7): whose doing each of it is.

Beside these: no call at all, trouble of the provider with any exit code, and "rate limit" printed by an agent
that fails by itself are in test_relayed_ends.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.assets.relayed.house import House
    from tests.assets.relayed.provider import Provider

pytestmark = pytest.mark.docker

PASSED = ("passed", "all_checks_passed")
WRONG = ("failed", "wrong_output")
EXACT_NUSD = 30_000

TOGETHER = """
import threading
got = []
def call(text):
    got.append(ask(text))
both = [threading.Thread(target=call, args=(text,)) for text in ("title", "main")]
for one in both: one.start()
for one in both: one.join()
show(sorted(got))
"""
STORM = """
import threading
def storm():
    while True: ask("again")
done()
for _ in range(8): threading.Thread(target=storm, daemon=True).start()
storm()
"""
WEBSOCKET = """
upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
upgrade["sec-websocket-key"] = "dGhlIHNhbXBsZSBub25jZQ=="
status = send(None, "/v1/responses", headers=upgrade, method="GET")[0]
assert status == 426, status
assert ask("then over HTTP") == 200
done()
"""
REFUSED = """
done()
import time
while True:
    try:
        socket.create_connection(("127.0.0.1", 9), timeout=5)
    except OSError:
        time.sleep(0.1)
"""


@pytest.mark.usefixtures("short_grace")
def test_a_storm_after_the_cap_is_ended_and_costs_nothing(house: House, provider: Provider) -> None:
    """Nine threads at once: nothing reaches the provider, no refusal is a step, good work does not count."""
    ran = house.run(house.order(STORM, cap_nusd=1_000))
    assert ran.end == ("failed", "cost_cap")
    assert provider.texts() == [] and ran.report.spent_nusd == 0
    assert ran.seen["relay_calls"] == 0 and ran.seen["cost_cap_hit"] is True


def test_an_exit_code_of_zero_is_no_success_and_one_is_no_failure(house: House) -> None:
    """aider and openhands end with 0 whatever happened; others end with 1 after their work is done."""
    ran = house.run_all(
        {
            "zero": house.order("assert ask('400') == 400; print('Task completed'); raise SystemExit(0)"),
            "outage": house.order("assert ask('500') == 500; print('Task completed'); raise SystemExit(0)"),
            "idle": house.order("assert ask('fine') == 200; raise SystemExit(0)"),
            "one": house.order("assert ask('fine') == 200; done(); raise SystemExit(1)"),
        }
    )
    assert ran["zero"].end == WRONG and ran["idle"].end == WRONG
    assert ran["outage"].end == ("platform_fault", "provider_outage")
    assert ran["one"].end == PASSED and ran["one"].seen["agent_exit_code"] == 1


@pytest.mark.usefixtures("short_grace")
def test_two_calls_at_once_are_admitted_one_after_the_other(house: House, provider: Provider) -> None:
    """opencode asks for a title beside its first call: with room for both each counts, with one step one."""
    ran = house.run_all(
        {
            "both": house.order(TOGETHER + "done()"),
            "one": house.order(TOGETHER + "done()", step_limit=1),
        }
    )
    assert ran["both"].end == PASSED and ran["both"].shown == [[200, 200]]
    assert ran["both"].report.spent_nusd == 2 * EXACT_NUSD
    assert ran["one"].shown == [[200, 403]] and ran["one"].denied() == ["step_limit"]
    assert ran["one"].report.spent_nusd == EXACT_NUSD and ran["one"].seen["step_cap_hit"] is True
    assert sorted(provider.texts()).count("main") + provider.texts().count("title") == 3


def test_a_websocket_is_refused_in_the_way_that_agents_understand(house: House, provider: Provider) -> None:
    """codex falls back to HTTP after 426 and nothing else; the upgrade is no step and never metered."""
    ran = house.run(house.order(WEBSOCKET))
    assert ran.end == PASSED and provider.texts() == ["then over HTTP"]
    assert ran.seen["relay_calls"] == 1


def test_an_agent_that_hangs_on_a_refused_connection_is_late(house: House, provider: Provider) -> None:
    """A wrong base URL looks like a slow agent: its clock ends it, and that it never called is on record."""
    ran = house.run(house.order(REFUSED, wall_ms=4_000))
    assert ran.end == ("failed", "timeout")
    assert (ran.seen["relay_first_call_ms"], ran.seen["relay_calls"]) == (None, 0)
    assert provider.taken == []
