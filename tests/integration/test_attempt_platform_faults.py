"""Faults injected from outside the sandbox land on the platform's side, with what was seen as evidence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from orchestrator.attempts import AttemptCancelledError, AttemptOrder
from scoring.vocabulary import Outcome, Phase, Reason
from workers.attempt.runner import AttemptRunner
from workers.sandbox.client import Engine
from workers.sandbox.freezer import Freezer

pytestmark = pytest.mark.docker

MakeOrder = Callable[..., AttemptOrder]
PASS = "echo 1 > /logs/verifier/reward.txt"
ABSENT = "sha256:" + "0" * 64


def container_of(engine: Engine, order: AttemptOrder, role: str) -> str:
    """The id of the attempt's running container."""
    wanted = [f"assize.attempt={order.slot_id}/{order.token}", f"assize.role={role}"]
    return str(engine.api.containers(all=True, filters={"label": wanted})[0]["Id"])


def meddle_when(control: Any, engine: Engine, phase: Phase, act: Callable[[], None]) -> threading.Thread:
    """Run `act` as soon as the attempt's process is seen inside the sandbox of `phase`."""
    entered = threading.Event()
    control.on_phase = lambda now: entered.set() if now is phase else None

    def run() -> None:
        assert entered.wait(60)
        act()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_for_exec(engine: Engine, container_id: Callable[[], str]) -> str:
    """Until a command of ours really runs in the container: the fact that an injection has something to hit.

    A command that is only created is not enough: pausing an engine of this version between creating and
    starting one locks the container for ever (measured).
    """
    for _ in range(6_000):
        try:
            found = container_id()
            commands = engine.api.inspect_container(found)["ExecIDs"] or []
            if any(engine.api.exec_inspect(one)["Pid"] for one in commands):
                return found
        except (IndexError, docker.errors.NotFound):
            pass
        threading.Event().wait(0.01)
    raise AssertionError("no command was started")


@pytest.mark.parametrize("act", ["kill", "remove", "pause"])
def test_the_agents_sandbox_is_taken_away(
    engine: Engine, runner: AttemptRunner, control: Any, make_order: MakeOrder, act: str
) -> None:
    """sandbox.md 5.12, inspect.md section 5: kill, removal and pause from outside are the platform's."""
    order = make_order("sleep 600", PASS)
    order = replace(order, caps=replace(order.caps, agent_wall_ms=6_000))

    def injure() -> None:
        found = wait_for_exec(engine, lambda: container_of(engine, order, "agent"))
        if act == "kill":
            engine.api.kill(found)
        elif act == "remove":
            engine.api.remove_container(found, force=True)
        else:
            engine.api.pause(found)

    thread = meddle_when(control, engine, Phase.AGENT, injure)
    report = runner(order, control)
    thread.join()
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PLATFORM_FAULT, Reason.SANDBOX_LOST)


def test_an_agent_that_the_runtime_cannot_start_did_not_end(
    engine: Engine, runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """The engine tells it as output and exit code 126 (here: a frozen sandbox takes no command)."""
    order = make_order("true", PASS)

    def freeze(phase: Phase) -> None:
        if phase is Phase.AGENT:
            freezer = Freezer.of(container_of(engine, order, "agent"))
            assert freezer is not None
            freezer.freeze()  # a kill lets it go

    control.on_phase = freeze
    report = runner(order, control)
    assert (report.decision.outcome, report.observations["start_error"]) == (
        Outcome.PLATFORM_FAULT,
        "exec_start:NeverBegan",
    )
    assert report.observations["agent_exit_code"] is None


def test_the_grader_is_killed_from_outside(
    engine: Engine, runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """sandbox.md 5.14-15: a verifier lost to a kill from outside is not the agent's failure."""
    order = make_order("true", "sleep 600")

    def injure() -> None:
        engine.api.kill(wait_for_exec(engine, lambda: container_of(engine, order, "grader")))

    thread = meddle_when(control, engine, Phase.GRADE, injure)
    report = runner(order, control)
    thread.join()
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PLATFORM_FAULT, Reason.GRADER_FAULT)


@pytest.mark.parametrize(
    ("changes", "reason", "phase"),
    [
        ({"agent_image": ABSENT}, Reason.IMAGE_MISSING, Phase.PREPARE),
        ({"grader_image": ABSENT}, Reason.IMAGE_MISSING, Phase.GRADE),
        ({"runtime": "no-such-runtime"}, Reason.SANDBOX_START, Phase.PREPARE),
        ({"agent_user": "nobody-of-that-name"}, Reason.SANDBOX_START, Phase.PREPARE),
        ({"agent_user": "65533"}, Reason.SANDBOX_START, Phase.PREPARE),
        ({"grader_user": "nobody-of-that-name"}, Reason.GRADER_FAULT, Phase.GRADE),
    ],
)
def test_what_cannot_be_started(
    runner: AttemptRunner,
    control: Any,
    make_order: MakeOrder,
    changes: dict[str, Any],
    reason: Reason,
    phase: Phase,
) -> None:
    """sandbox.md 5.2, 5.14: a missing image, runtime or user is found before the agent has control."""
    report = runner(make_order("true", PASS, **changes), control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PLATFORM_FAULT, reason)
    assert report.decision.phase is phase
    assert report.manifest_digest is not None


def test_evidence_that_cannot_be_written_stops_the_try_before_the_agent(
    runner: AttemptRunner, control: Any, make_order: MakeOrder, tmp_path: Path
) -> None:
    """sandbox.md 5.16: no certificate without stored evidence, and no agent run for nothing."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the store should be")
    report = runner(make_order("true", PASS, evidence_root=blocked), control)
    assert report.decision.reason is Reason.EVIDENCE_UNWRITABLE
    assert report.manifest_digest is None
    assert Phase.AGENT not in control.phases


def test_a_cancel_removes_the_sandbox_before_it_answers(
    engine: Engine, runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """distribution.md 4.2 row 10: cancelled means that nothing of the attempt runs any more."""
    order = make_order("sleep 600", PASS)

    def injure() -> None:
        wait_for_exec(engine, lambda: container_of(engine, order, "agent"))
        control.stop = True

    thread = meddle_when(control, engine, Phase.AGENT, injure)
    with pytest.raises(AttemptCancelledError):
        runner(order, control)
    thread.join()
    label = f"assize.attempt={order.slot_id}/{order.token}"
    assert engine.api.containers(all=True, filters={"label": label}) == []


def test_a_second_start_of_the_same_attempt_is_refused_by_the_engine(
    engine: Engine, runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """sandbox.md section 2: fixed names fence double starts; the second ends as the platform's."""
    order = make_order("sleep 600", PASS)
    order = replace(order, caps=replace(order.caps, agent_wall_ms=4_000))
    reports = []

    def second() -> None:
        wait_for_exec(engine, lambda: container_of(engine, order, "agent"))
        reports.append(runner(order, type(control)()))

    thread = meddle_when(control, engine, Phase.AGENT, second)
    first = runner(order, control)
    thread.join()
    assert first.decision.reason is Reason.TIMEOUT
    assert reports[0].decision.reason is Reason.SANDBOX_START
