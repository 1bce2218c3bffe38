"""Two hosts for real: each with an engine and a worker of its own; one is cut off, one loses its engine."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.assets.hosts.lab import HERE, THERE, WITHIN_S, Hosts, two_hosts
from workers.sandbox.client import Engine

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Hosts]:
    """Both hosts with a worker of one place each."""
    with two_hosts(tmp_path_factory.mktemp("hosts"), engine, "assize/base:1") as made:
        near = made.start_here("worker", "run", "--slots", "1", "--name", HERE)
        far = made.start_there("worker", "run", "--slots", "1", "--name", THERE)
        yield made
        assert far.stop(WITHIN_S) == 0
        near.terminate()
        assert near.wait(WITHIN_S) == 0
        assert made.left_there() == []


def both_spend(hosts: Hosts) -> str:
    """Wait until both hosts run a try that costs money; the one of the second host."""
    hosts.soon(lambda: bool(hosts.spending(HERE) and hosts.spending(THERE)), "both hosts run a try")
    (there,) = hosts.spending(THERE)
    return there


def test_a_host_that_is_cut_off(hosts: Hosts) -> None:
    """Its try is run again on the other one; it stops spending by itself, and its record is refused."""
    screen = hosts.screen("--start-window", "2s")
    lost = both_spend(hosts)
    hosts.machine.cut()
    hosts.soon(lambda: hosts.attempt(lost)["reason"] == "worker_lost", "the first host takes the try over")
    # Nobody can tell it anything now: it must end by its own clock.
    hosts.soon(lambda: not hosts.sandboxes(hosts.far.engine), "the second host gives up by itself")
    hosts.machine.join()
    hosts.soon(lambda: hosts.kinds()["refused"] == 1, "the record of the zombie is refused")
    code = hosts.finish_all(screen)
    assert code in (0, 3), (hosts.folder / "here.log").read_text()[-4000:]
    assert hosts.sound() == {"all_checks_passed": 4, "worker_lost": 1}
    assert hosts.sandboxes(hosts.far.engine) == []
    assert len(hosts.planned_starts()) >= 3  # one instant for all, and one for the re-run, would be two


def test_an_engine_that_is_killed_and_comes_back(hosts: Hosts) -> None:
    """Its try is the platform's fault and run again; the other host does not notice."""
    before = Counter(str(one["reason"]) for one in hosts.attempts())
    screen = hosts.screen("--again")
    lost = both_spend(hosts)
    (untouched,) = hosts.spending(HERE)
    hosts.far.restart()
    hosts.soon(lambda: hosts.attempt(lost)["state"] == "void", "the try of the killed engine is void")
    assert hosts.attempt(lost)["outcome"] == "platform_fault"
    hosts.soon(lambda: bool(hosts.spending(THERE)), "the host with the new engine runs a try")
    assert hosts.attempt(untouched)["state"] == "live"
    code = hosts.finish_all(screen)
    assert code in (0, 3), (hosts.folder / "here.log").read_text()[-4000:]
    # One fault and no more: a host whose engine is away claims nothing.
    assert hosts.sound() - before == {"all_checks_passed": 4, hosts.attempt(lost)["reason"]: 1}
    assert hosts.attempt(untouched)["state"] == "recorded"


def test_a_dispatcher_that_is_killed(hosts: Hosts) -> None:
    """Workers go on and close the campaign without it; the next one certifies what it left, once."""
    before = Counter(str(one["reason"]) for one in hosts.attempts())
    screen = hosts.screen("--again")
    both_spend(hosts)
    screen.send_signal(signal.SIGINT)
    assert screen.wait(WITHIN_S) == 130
    first = hosts.start_here("dispatch", "--name", "signer-1")
    hosts.soon(lambda: hosts.served_by("signer-1"), "the first dispatcher is there")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    hosts.soon(hosts.finish_running, "the workers end the campaign by themselves")
    assert hosts.uncertified() == 4

    second = hosts.start_here("dispatch", "--name", "signer-2")
    hosts.soon(lambda: hosts.uncertified() == 0, "the second dispatcher certifies what was left")
    hosts.soon(lambda: not hosts.served_by("signer-1"), "the end of the first one is noted")
    hosts.soon(lambda: hosts.bundles() == len(hosts.screenings()), "every screening has its bundle")
    second.terminate()
    assert second.wait(WITHIN_S) == 0
    assert not hosts.served_by("signer-2")
    assert hosts.sound() - before == {"all_checks_passed": 4}
