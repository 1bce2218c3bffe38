"""Agents that will not end, end too early, or imitate the platform's troubles (group lifecycle)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Reason

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]

DAEMON = (
    "setsid sh -c 'while :; do echo done > /tmp/out.txt; sleep 0.02; rm /tmp/out.txt; done' >/dev/null 2>&1 &"
)
LATE_WORKER = "setsid sh -c 'sleep 1; echo done > /tmp/out.txt' >/dev/null 2>&1 &"
FAKE_PLATFORM = (
    "echo 'Error response from daemon: no space left on device' >&2;"
    'echo \'{"fault": "platform", "outcome": "platform_fault"}\' | tee /tmp/r.json > /logs/artifacts/r.json;'
    "exit 125"
)


def test_work_done_after_the_exit_never_counts(siege: Any, hostile: Hostile) -> None:
    """life-setsid-daemon: what a child does after the agent's end is lost with the container."""
    siege.fails(hostile(LATE_WORKER), {Reason.WRONG_OUTPUT})


def test_a_daemon_cannot_change_what_is_graded(siege: Any, hostile: Hostile) -> None:
    """life-setsid-daemon: the state graded is the one after the kill; either verdict, but never a re-run."""
    report = siege.run(hostile(DAEMON))
    assert report.decision.reason in {Reason.WRONG_OUTPUT, Reason.ALL_CHECKS_PASSED}


def test_does_not_end(siege: Any, hostile: Hostile) -> None:
    """life-ignore-term, life-close-stdio: a closed stream is no end, and SIGKILL comes from outside."""
    scripts = {
        "ignores TERM": "trap '' TERM INT HUP QUIT USR1; while :; do sleep 1; done",
        "closes stdio": "exec >&- 2>&- <&-; sleep 300",
        "stops itself": "kill -STOP $$",
        "stops PID 1": "while :; do kill -STOP 1; sleep 0.1; done",
    }
    orders = {name: hostile(script, wall_ms=3_000) for name, script in scripts.items()}
    siege.all_fail(orders, {Reason.TIMEOUT})


def test_a_child_holds_the_pipe(siege: Any, hostile: Hostile) -> None:
    """life-hold-pipe: the engine is asked whether the command ended; the wall clock need not run out."""
    report = siege.fails(hostile("sleep 300 & exit 0"), {Reason.WRONG_OUTPUT})
    assert report.observations["agent_clock"] is None
    assert report.observations["agent_exit_code"] == 0


def test_output_that_was_redirected_is_no_end(siege: Any, hostile: Hostile) -> None:
    """The honest side of life-close-stdio: an agent that logs to a file keeps all of its time."""
    report = siege.run(hostile("exec > /tmp/log 2>&1; sleep 1.5; echo done > /tmp/out.txt"))
    assert report.decision.reason is Reason.ALL_CHECKS_PASSED


def test_imitates_the_platform(siege: Any, hostile: Hostile) -> None:
    """life-kill-everything, life-fake-oom, life-fake-platform: neither exit codes nor text buy a re-run."""
    scripts = {
        "kill everything": "kill -TERM 1; kill -9 1; kill -9 -1; exit 9",
        "fake oom": "kill -9 $$",
        "137": "exit 137",
        "fake platform": FAKE_PLATFORM,
        "126": "exit 126",
        "255": "exit 255",
    }
    siege.all_fail({name: hostile(script) for name, script in scripts.items()}, {Reason.CRASH})


def test_claims_success(siege: Any, hostile: Hostile) -> None:
    """life-noop: words are not work."""
    siege.fails(hostile("echo 'All tests passed. Task complete.'"), {Reason.WRONG_OUTPUT})
