"""An agent that calls a model, in a pod with services: both are reached, each by its own way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from orchestrator.attempts import AttemptOrder
from orchestrator.sidecars import PodTerms
from tests.integration.services.conftest import store, subnet_of_a_test

if TYPE_CHECKING:
    from tests.assets.relayed.house import House
    from tests.assets.relayed.provider import Provider

pytestmark = pytest.mark.docker

STORE = """
def store(*words):
    with socket.create_connection(("store", 6379), 5) as line:
        line.sendall(" ".join(words).encode() + b"\\n")
        return line.makefile().readline().strip()
"""


def with_store(order: AttemptOrder) -> AttemptOrder:
    """The same order with a store beside the agent."""
    return replace(order, pod=PodTerms(subnet_of_a_test(), order.agent_image, (store(order.agent_image),)))


def test_model_and_service_side_by_side(house: House, provider: Provider) -> None:
    """The relay is on loopback as for every agent, the service by its name; spend and steps are metered."""
    script = STORE + "assert store('SET', 'a', 'b') == 'OK'; assert ask('one') == 200\n"
    script += "assert store('GET', 'a') == 'b'; done()"
    ran = house.run(with_store(house.order(script)))
    assert ran.end == ("passed", "all_checks_passed"), ran.files["agent/stderr.txt"].decode()
    assert provider.texts() == ["one"] and ran.report.spent_nusd == 30_000
    assert ran.seen["sidecar"] is None


def test_a_cap_still_ends_the_try(house: House) -> None:
    """What the agent can reach beside the relay changes nothing about its caps."""
    ran = house.run(with_store(house.order("assert ask('one') == 402; raise SystemExit(1)", cap_nusd=0)))
    assert ran.end == ("failed", "cost_cap")


def test_a_model_that_the_worker_drives_reaches_the_services_too(house: House, provider: Provider) -> None:
    """The reference agent `shell` has no way to the relay inside; its commands have the services."""
    agent = {"kind": "shell", "name": "shell", "version": "1", "wire": "openai-chat"}
    order = with_store(replace(house.order(""), agent=agent))
    ran = house.run(order)
    # The provider's answer holds no command that ends the work: what counts is that the pod was made.
    assert ran.seen["agent_started"] is True and ran.seen["start_error"] is None
    assert b'"kind":"shared"' in ran.files["sandbox-report.json"]
