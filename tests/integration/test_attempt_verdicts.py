"""Whole attempts in real containers: what an agent can do by itself always ends on its own side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder, Caps
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.observations import VerdictProblem
from scoring.vocabulary import Outcome, Phase, Reason
from workers.attempt.runner import AttemptRunner

pytestmark = pytest.mark.docker

MakeOrder = Callable[..., AttemptOrder]
PASS_IF_OUT = (
    'if [ "$(cat /tmp/out.txt 2>/dev/null)" = done ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt"
)
SOLVE = "echo done > /tmp/out.txt"


def evidence_of(order: AttemptOrder, digest: str | None) -> dict[str, Any]:
    """Evidence files by path: bytes, or None where withheld."""
    assert digest is not None
    store = EvidenceStore(order.evidence_root)
    manifest = EvidenceManifest.from_bytes(store.read(digest, 1 << 20))
    return {file.path: store.read(file.sha256, 1 << 24) if file.sha256 else None for file in manifest.files}


def test_honest_work_passes_and_leaves_evidence(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """DESIGN 3.4-3.7: prepare, agent, grade, record; evidence with a diff and withheld tests."""
    order = make_order(SOLVE, PASS_IF_OUT)
    report = runner(order, control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PASSED, Reason.ALL_CHECKS_PASSED)
    assert report.reward == "1"
    assert control.phases == [Phase.PREPARE, Phase.AGENT, Phase.GRADE, Phase.RECORD]
    files = evidence_of(order, report.manifest_digest)
    assert files["grader/tests.tar"] is None
    assert b"+done" in files["workspace/diff.patch"] and b"b/tmp/out.txt" in files["workspace/diff.patch"]


LOCALHOST = """python3 -I - <<'END'
import socket
with socket.create_server(("localhost", 0)) as server:
    with socket.create_connection(("localhost", server.getsockname()[1]), 5): pass
with open("/proc/net/route") as file: routes = file.read().splitlines()[1:]
raise SystemExit(len(routes))
END
"""


def test_without_a_network_there_is_localhost_and_nothing_else(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """A task may start a server of its own, and its verifier too; both by the usual name."""
    order = make_order(f"set -e\n{LOCALHOST}{SOLVE}\n", f"set -e\n{LOCALHOST}{PASS_IF_OUT}\n")
    report = runner(order, control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PASSED, Reason.ALL_CHECKS_PASSED)
    told = evidence_of(order, report.manifest_digest)["sandbox-report.json"]
    assert json.loads(told)["proof"]["ownNetwork"] is True


def test_doing_nothing_fails(runner: AttemptRunner, control: Any, make_order: MakeOrder) -> None:
    """The do-nothing agent runs no command and goes through the same grading path."""
    report = runner(make_order("true", PASS_IF_OUT, agent={"kind": "nop"}), control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.FAILED, Reason.WRONG_OUTPUT)


@pytest.mark.parametrize(
    ("solve", "reason"),
    [
        pytest.param("yes", Reason.OUTPUT_LIMIT, id="output-flood"),
        pytest.param("exit 137", Reason.CRASH, id="imitated-oom"),
        pytest.param("echo 'engine error, rate limit' >&2; exit 1", Reason.CRASH, id="imitated-platform"),
        pytest.param("python3 -c 'x = bytearray(300 << 20)'", Reason.OUT_OF_MEMORY, id="memory"),
        pytest.param("kill -9 1; kill -TERM 1; kill -9 -1; exit 3", Reason.CRASH, id="kill-everything"),
        pytest.param(
            "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt",
            Reason.WRONG_OUTPUT,
            id="planted-reward",
        ),
        pytest.param("ln -s /tests/test.sh /tmp/out.txt", Reason.WRONG_OUTPUT, id="link-to-hidden-tests"),
        pytest.param(
            "printf '#!/bin/sh\\necho done\\n' > /usr/bin/cat; chmod +x /usr/bin/cat",
            Reason.WRONG_OUTPUT,
            id="trojan-cat",
        ),
        pytest.param("mkfifo /tmp/out.txt", Reason.WRONG_OUTPUT, id="fifo"),
        pytest.param(": > /tmp/x; while :; do setsid sleep 60 & done", Reason.PID_LIMIT, id="fork-storm"),
        pytest.param("truncate -s 1G /tmp/sparse", Reason.DISK_LIMIT, id="sparse-file"),
    ],
)
def test_the_agents_own_ends(
    runner: AttemptRunner, control: Any, make_order: MakeOrder, solve: str, reason: Reason
) -> None:
    """sandbox.md sections 1.2, 3.1 and 5: none of these is the platform's fault, none passes."""
    report = runner(make_order(solve, PASS_IF_OUT), control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.FAILED, reason)


def test_late_work_never_counts(runner: AttemptRunner, control: Any, make_order: MakeOrder) -> None:
    """harbor.md 0.4: at the deadline the container is killed; the record names the clock and its value."""
    order = make_order("echo done > /tmp/out.txt; sleep 60", PASS_IF_OUT)
    order = replace(order, caps=replace(order.caps, agent_wall_ms=1_500))
    report = runner(order, control)
    assert report.decision.reason is Reason.TIMEOUT
    assert report.observations["agent_clock_value"] == 1_500
    assert report.reward is None


def test_deletions_are_carried(runner: AttemptRunner, control: Any, make_order: MakeOrder) -> None:
    """A file that the image holds and the agent deleted is gone for the tests too."""
    test = "[ -e /srv/keep ] && [ ! -e /opt/gone ] && echo 1 > /logs/verifier/reward.txt"
    order = make_order("rmdir /srv /opt; mkdir /srv; touch /srv/keep", test)
    report = runner(order, control)
    files = evidence_of(order, report.manifest_digest)
    assert b'"/opt"' in files["workspace/changes.json"]
    assert report.decision.reason in (Reason.ALL_CHECKS_PASSED, Reason.NO_VERDICT)
    assert report.decision.outcome is Outcome.PASSED


def test_only_declared_artifacts_cross_to_a_separate_verifier(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """harbor.md section 1, separate verifier: artifacts and /logs/artifacts cross, nothing else does."""
    test = (
        "[ -e /tmp/a ] && [ -e /logs/artifacts/b ] && [ ! -e /tmp/c ] && echo 1 > /logs/verifier/reward.txt"
    )
    order = make_order("touch /tmp/a /tmp/c /logs/artifacts/b", test, artifacts=({"source": "/tmp/a"},))
    # The grader image of the test has no tests baked in, so they are put there although the mode is separate.
    report = runner(replace(order, grading="fresh", separate=True), control)
    assert report.decision.outcome is Outcome.PASSED


def test_in_place_grading_sees_the_whole_file_system_but_nothing_planted(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """DESIGN 3.6: in place only on demand; verdict and tests live on volumes made after the agent's death."""
    planted = (
        "echo changed > /etc/motd; mkdir -p /logs/verifier /tests;"
        "echo '{\"reward\": 1}' > /logs/verifier/reward.json; touch /tests/planted"
    )
    test = "grep -q changed /etc/motd && [ ! -e /tests/planted ] && echo 1 > /logs/verifier/reward.txt"
    report = runner(make_order(planted, test, grading="in_place"), control)
    assert (report.decision.reason, report.reward) == (Reason.ALL_CHECKS_PASSED, "1")


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("true", VerdictProblem.MISSING),
        (": > /logs/verifier/reward.txt", VerdictProblem.EMPTY),
        ("echo NaN > /logs/verifier/reward.txt", VerdictProblem.UNPARSABLE),
        ("echo 7 > /logs/verifier/reward.txt", VerdictProblem.OUT_OF_RANGE),
        (
            "cd /logs/verifier; echo 0 > reward.txt; echo '{\"reward\": 1}' > reward.json",
            VerdictProblem.CONTRADICTORY,
        ),
        ("ln -s /etc/hostname /logs/verifier/reward.txt", VerdictProblem.FOREIGN_FILE),
    ],
)
@pytest.mark.parametrize("proven", [True, False])
def test_a_silent_or_absurd_grader_convicts_nobody_until_it_proved_itself(
    runner: AttemptRunner,
    control: Any,
    make_order: MakeOrder,
    test: str,
    problem: VerdictProblem,
    proven: bool,
) -> None:
    """harbor.md section 9: no verdict is ours until the oracle passed through this path, then the agent's."""
    report = runner(make_order("true", test, grader_proven=proven), control)
    assert report.observations["verdict_problem"] == problem
    assert report.decision.outcome is (Outcome.FAILED if proven else Outcome.PLATFORM_FAULT)


@pytest.mark.parametrize(
    ("solve", "changes", "end"),
    [
        (SOLVE, {"grader_environment": {"PATH": "/nowhere"}}, (Outcome.PLATFORM_FAULT, Reason.ENGINE_ERROR)),
        ("rm /bin/bash /usr/bin/bash", {"grading": "in_place"}, (Outcome.FAILED, Reason.NO_VERDICT)),
        ("cd /; rm -r /w; touch /w", {"workdir": "/w"}, (Outcome.FAILED, Reason.NO_VERDICT)),
    ],
    ids=["by-us", "in-place-without-shell", "folder-is-a-file"],
)
def test_a_verifier_that_cannot_be_started_was_not_silent(
    runner: AttemptRunner, control: Any, make_order: MakeOrder, solve: str, changes: Any, end: Any
) -> None:
    """The engine tells it as output and exit code 126; whose files it stood on says whose fault it is."""
    report = runner(make_order(solve, "echo 1 > /logs/verifier/reward.txt", **changes), control)
    assert (report.decision.outcome, report.decision.reason) == end


def test_a_hanging_grader_is_stopped_by_its_own_clock(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """A verdict written before the hang does not count: the grader did not finish."""
    order = make_order(SOLVE, "echo 1 > /logs/verifier/reward.txt; sleep 60")
    order = replace(order, caps=Caps(20_000, 1_000, 128 << 20, 1000, 64, 1 << 20, 8 << 20))
    report = runner(order, control)
    assert report.decision.reason is Reason.NO_VERDICT
    assert report.observations["grader_clock_value"] == 1_000


@pytest.mark.parametrize("user", ["1000:1000", "agent", "root", None])
def test_the_agent_runs_as_the_declared_user(
    runner: AttemptRunner, control: Any, make_order: MakeOrder, user: str | None
) -> None:
    """agents.md section 4: HOME is fresh and its own, the output folder is writable, no capabilities."""
    solve = (
        "set -e; touch $HOME/x $ASSIZE_OUT/answer.txt; grep -q 'CapEff:\t0000000000000000' /proc/self/status;"
        "grep -q 'NoNewPrivs:\t1' /proc/self/status; ls /sys/class/net | grep -qx lo; id -u > /tmp/out.txt"
    )
    wanted = "1000" if user in ("1000:1000", "agent") else "0"
    test = f'[ "$(cat /tmp/out.txt)" = {wanted} ] && echo 1 > /logs/verifier/reward.txt'
    order = make_order(solve, test, agent_user=user)
    assert runner(order, control).decision.outcome is Outcome.PASSED


def test_the_verifier_can_run_agent_code_as_another_user(
    runner: AttemptRunner, control: Any, make_order: MakeOrder
) -> None:
    """sandbox.md 3.2: agent code under another uid can neither read the tests nor write a verdict."""
    test = """python3 -I - <<'CODE'
import subprocess
def child(script):
    return subprocess.run(["bash", "-c", script], user=65532, group=65532, extra_groups=[]).returncode
assert child("exit 0") == 0
assert child("cat /tests/test.sh 2>/dev/null") != 0
assert child("echo 1 > /logs/verifier/reward.json 2>/dev/null") != 0
assert child("kill -9 1 2>/dev/null") != 0
open("/logs/verifier/reward.txt", "w").write("1")
CODE
"""
    report = runner(make_order("true", test), control)
    assert report.decision.outcome is Outcome.PASSED
