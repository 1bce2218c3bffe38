"""Tasks with several containers, end to end on the engine: names, order, health, faults, nothing left."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest

from orchestrator.attempts import AttemptCancelledError, AttemptOrder, AttemptReport, DiskTerms
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.sidecars import Condition, Health
from scoring.vocabulary import Outcome, Phase, Reason
from tests.integration.services.conftest import ASSETS, ask, solve, store
from workers.attempt.pods import sidecars_of
from workers.attempt.runner import AttemptRunner
from workers.sandbox.internal import create_on, remove_network

pytestmark = pytest.mark.docker

MakeOrder = Callable[..., AttemptOrder]
GOOD = [
    '[ "$(' + ask("store", "SET", "a", "good") + ')" = OK ]',
    ask("store", "GET", "a") + " > /tmp/out.txt",
]


def evidence_of(order: AttemptOrder, report: AttemptReport) -> dict[str, bytes]:
    """Every evidence file by name."""
    kept = EvidenceStore(order.evidence_root)
    assert report.manifest_digest is not None
    manifest = EvidenceManifest.from_bytes(kept.read(report.manifest_digest, 1 << 24))
    return {file.path: kept.read(file.sha256, 1 << 24) for file in manifest.files if file.sha256}


def test_an_agent_uses_a_service_by_its_name(
    runner: AttemptRunner, control: Any, services_order: MakeOrder
) -> None:
    """The oracle passes; the report has the proofs of both sides; logs are evidence; the network is gone."""
    order = services_order(solve(*GOOD))
    report = runner(order, control)
    assert (report.decision.outcome, report.decision.reason) == (Outcome.PASSED, Reason.ALL_CHECKS_PASSED)
    files = evidence_of(order, report)
    found = json.loads(files["sandbox-report.json"])
    assert found["preflight"]["kind"] == "shared" and found["preflight"]["ok"] is True
    (service,) = found["services"]["services"]
    assert service["preflight"]["ok"] is True and service["death"] is None
    assert service["created"]["options"]["CapDrop"] == ["ALL"]
    assert service["proof"]["limits"]["memoryBytes"] in (64 << 20, None)
    assert b"store is up" in files["services/store.txt"]
    # At once, not only when the worker ends: the subnet is given back now.
    assert runner.station.engine.api.networks(names=[f"assize-{order.attempt_id}-net"]) == []


def test_a_service_may_be_called_like_a_part_of_ours(
    runner: AttemptRunner, control: Any, base_image: str, services_order: MakeOrder
) -> None:
    """Names are the task's; two services of one image are two services."""
    script = solve(
        ask("agent", "SET", "a", "bad"),
        ask("forwarder", "SET", "a", "good"),
        ask("forwarder", "GET", "a") + " > /tmp/out.txt",
    )
    named = [store(base_image, name=name, health=None) for name in ("agent", "forwarder")]
    wait = f"until {ask('agent', 'GET', 'a')} && {ask('forwarder', 'GET', 'a')}; do :; done 2> /tmp/err"
    report = runner(services_order(script.replace("END\n", f"END\n{wait}\n", 1), *named), control)
    assert report.decision.outcome is Outcome.PASSED, report.observations


def test_services_start_in_order_and_find_each_other(
    runner: AttemptRunner, control: Any, base_image: str, services_order: MakeOrder
) -> None:
    """`depends_on` with a condition holds; names, variables and host names are those that were declared."""
    front = (
        "import os, socket, sys\n"
        "line = socket.create_connection(('store', 6379), 5)\n"
        "line.sendall(b'SET seen ' + os.environ['WORD'].encode() + b'\\n'); line.recv(10)\n"
        "line.sendall(b'SET host ' + socket.gethostname().encode() + b'\\n'); line.recv(10)\n"
        "sys.stdin = open('/dev/null'); import time; time.sleep(600)\n"
    )
    second = store(
        base_image,
        name="front",
        entrypoint=("python3", "-c", front),
        command=None,
        environment=(("WORD", "good"),),
        hostname="frontend",
        workdir="/usr",
        health=Health(("/bin/sh", "-c", '[ "$(pwd)" = /usr ] && [ "$WORD" = good ]'), interval_ms=200),
        after=(("store", Condition.HEALTHY),),
    )
    script = solve(
        f"until [ $({ask('store', 'GET', 'host')}) = frontend ]; do :; done",
        ask("store", "GET", "seen") + " > /tmp/out.txt",
        "getent hosts front main store",
    )
    report = runner(services_order(script, store(base_image), second), control)
    assert report.decision.outcome is Outcome.PASSED, report.observations


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"command": ("python3", "-c", "raise SystemExit(1)")}, "ended"),
        ({"health": Health(("false",), interval_ms=100, timeout_ms=100, retries=3)}, "not ready after"),
        ({"command": ("no-such-program",), "health": None}, "ended as soon as"),
        ({"user": "nobody-at-all"}, "cannot be started"),
    ],
)
def test_a_service_that_does_not_come_up_is_the_platforms(
    runner: AttemptRunner,
    control: Any,
    base_image: str,
    services_order: MakeOrder,
    changes: dict[str, Any],
    why: str,
) -> None:
    """Before the agent has control nothing is its doing; the evidence says why, and nothing is left."""
    order = services_order(solve(*GOOD), store(base_image, **changes))
    report = runner(order, control)
    assert (report.decision.reason, report.decision.rule) == (Reason.SANDBOX_START, "sandbox-start")
    assert report.observations["start_error"] == "Sidecar:store"
    assert why in json.loads(evidence_of(order, report)["sandbox-report.json"])["trouble"]
    assert runner.station.engine.api.networks(names=[f"assize-{order.attempt_id}-net"]) == []


# The agent stays until the engine knows: what falls after the agent has gone is not held against anybody.
BREAK = solve(ask("store", "QUIT") + " || true", "sleep 2", "echo bad > /tmp/out.txt")


@pytest.mark.parametrize(
    ("script", "proven", "reason", "rule", "suspect"),
    [
        (BREAK, True, Reason.CRASH, "fail-after-sidecar-death", False),
        (BREAK, False, Reason.SANDBOX_LOST, "unproven-sidecar-death", True),
        (BREAK.replace("bad", "good"), True, Reason.ALL_CHECKS_PASSED, "verdict-pass", False),
        (BREAK.replace("QUIT", "FILL"), True, Reason.CRASH, "fail-after-sidecar-death", False),
    ],
)
def test_a_service_that_the_agent_ends(
    runner: AttemptRunner,
    control: Any,
    services_order: MakeOrder,
    script: str,
    proven: bool,
    reason: Reason,
    rule: str,
    suspect: bool,
) -> None:
    """An agent that breaks what its task needs buys no re-run where the gate saw the services stand."""
    report = runner(services_order(script, grader_proven=proven), control)
    found = report.decision
    assert (found.reason, found.rule, found.suspect) == (reason, rule, suspect)
    assert report.observations["sidecar"] == "store"
    assert report.observations["sidecar_death"] == ("oom" if "FILL" in script else "self")


def test_what_an_agent_makes_a_service_write_is_the_agents(
    runner: AttemptRunner, control: Any, services_order: MakeOrder
) -> None:
    """A service has the disk of the try; past it the try ends, long before the host's disk does."""
    script = solve(ask("store", "SPILL") + " > /tmp/said || true", "sleep 600")
    order = services_order(script, disk=DiskTerms("writable", 32 << 20, 1000))
    report = runner(order, control)
    assert (report.decision.reason, report.decision.rule) == (Reason.DISK_LIMIT, "artifact-overflow")


def test_a_service_that_somebody_else_kills_is_the_platforms(
    runner: AttemptRunner, control: Any, services_order: MakeOrder
) -> None:
    """The engine's events tell a kill that is not ours; the verdict does not count then."""
    wait = "until ! " + ask("store", "GET", "a") + " 2> /tmp/err; do :; done"
    order = services_order(solve(wait, "echo good > /tmp/out.txt"))
    engine = runner.station.engine

    def kill_it() -> None:
        while not control_seen.wait(0.05):
            pass
        engine.api.kill(f"assize-{order.attempt_id}-service-store")

    control_seen = threading.Event()
    killer = threading.Thread(target=kill_it)
    killer.start()
    entered = control.phase

    def phase(now: Phase) -> None:
        entered(now)
        if now is Phase.AGENT:
            control_seen.set()

    control.phase = phase
    report = runner(order, control)
    killer.join()
    assert (report.decision.reason, report.decision.rule) == (Reason.SANDBOX_LOST, "sidecar-lost")
    assert report.observations["sidecar_death"] == "foreign_kill"


def test_a_service_that_falls_with_its_client_is_not_held_against_anybody(
    runner: AttemptRunner, control: Any, base_image: str, services_order: MakeOrder
) -> None:
    """It may end when the agent's container is killed; only what ended before that counts."""
    script = (
        "import socket\n"
        "server = socket.create_server(('0.0.0.0', 6379))\n"
        "while True:\n"
        "    line, _ = server.accept()\n"
        "    if line.recv(10) == b'stay\\n':\n"
        "        line.sendall(b'OK\\n'); line.recv(10); raise SystemExit(1)\n"
    )
    alone = store(base_image, command=("python3", "-c", script))
    client = (
        "import os, socket, time\n"
        "line = socket.create_connection(('store', 6379)); line.sendall(b'stay\\n'); line.recv(3)\n"
        "open('/tmp/held', 'w').close(); time.sleep(600)\n"
    )
    agent = solve(
        f'setsid python3 -c "{client}" < /dev/null > /dev/null 2>&1 &',
        "until [ -e /tmp/held ]; do :; done",
        "echo bad > /tmp/out.txt",
    )
    report = runner(services_order(agent, alone), control)
    assert (report.decision.reason, report.observations["sidecar"]) == (Reason.WRONG_OUTPUT, None)


def test_a_taken_subnet_is_told_and_nothing_is_left(
    runner: AttemptRunner, control: Any, services_order: MakeOrder
) -> None:
    """Another network of the engine on the same addresses: the platform's, with the engine's own words."""
    order = services_order(solve(*GOOD))
    assert order.pod is not None
    network = IPv4Network(order.pod.subnet)
    labels = {"assize.home": order.labels["assize.home"]}
    taken = create_on(runner.station.engine, f"test-taken-{order.attempt_id}", labels, network)
    try:
        report = runner(order, control)
    finally:
        remove_network(runner.station.engine, taken.id)
    assert report.decision.rule == "sandbox-start"
    assert report.observations["start_error"] == "network:APIError"


def test_all_containers_of_the_pod_are_dead_before_the_grading(
    runner: AttemptRunner, control: Any, services_order: MakeOrder
) -> None:
    """Looked at in the moment in which the grade phase begins: nothing but a waiting verifier runs."""
    order = services_order(solve(*GOOD))
    label = {"label": f"assize.attempt={order.labels['assize.attempt']}"}
    seen: list[str] = []
    entered = control.phase

    def phase(now: Phase) -> None:
        entered(now)
        if now is Phase.GRADE:
            running = runner.station.engine.api.containers(filters=label)
            seen.extend(str(one["Labels"]["assize.role"]) for one in running)

    control.phase = phase
    assert runner(order, control).decision.outcome is Outcome.PASSED
    assert set(seen) <= {"grader"}


def test_a_cancelled_attempt_leaves_nothing(
    runner: AttemptRunner, control: Any, base_image: str, services_order: MakeOrder
) -> None:
    """Cancelled while a service is not ready yet: everything is gone when the call returns."""
    never = store(base_image, health=Health(("false",), interval_ms=30_000, retries=9))
    order = services_order(solve(*GOOD), never)
    began = threading.Event()

    def cancelled() -> bool:
        if runner.station.engine.api.containers(filters={"name": f"{order.attempt_id}-service-store"}):
            began.set()
        return began.is_set()

    control.cancelled = cancelled
    with pytest.raises(AttemptCancelledError):
        runner(order, control)
    ours = {"label": f"assize.attempt={order.labels['assize.attempt']}"}
    api = runner.station.engine.api
    assert api.containers(all=True, filters=ours) == [] and api.networks(filters=ours) == []


def test_what_a_dead_worker_left_is_reaped(
    runner: AttemptRunner, base_image: str, services_order: MakeOrder
) -> None:
    """Services and network of a pod whose worker is gone: the reaper needs their labels only."""
    order = services_order("true")
    sidecars = sidecars_of(runner.station, order)
    assert sidecars is not None
    sidecars.start(lifetime_s=60, cancelled=lambda: False)
    home = order.labels["assize.home"]
    mine = order.labels["assize.attempt"]
    reaped = runner.reap(home, lambda label: label != mine)
    assert len(reaped.containers) == 1 and reaped.networks == [f"assize-{order.attempt_id}-net"]
    ours = {"label": f"assize.attempt={mine}"}
    api = runner.station.engine.api
    assert api.containers(all=True, filters=ours) == [] and api.networks(filters=ours) == []


CALL = """
import json, os, urllib.request
servers = json.load(open(os.environ["ASSIZE_MCP_CONFIG"]))["mcpServers"]
(name, server), = servers.items()
assert (name, server["type"]) == ("adder", "http"), servers
def call(number, method, params):
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    headers = {"Content-Type": "application/json", **server["headers"]}
    asked = urllib.request.Request(server["url"], json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(asked, timeout=10))["result"]
print(call(1, "initialize", {})["serverInfo"]["name"])
print([tool["name"] for tool in call(2, "tools/list", {})["tools"]])
said = call(3, "tools/call", {"name": "add", "arguments": {"a": 19, "b": 23}})["content"][0]["text"]
open("/tmp/out.txt", "w").write("good" if said == "42" else said)
"""


def test_an_mcp_server_is_offered_by_the_run_contract(
    runner: AttemptRunner, control: Any, base_image: str, services_order: MakeOrder
) -> None:
    """The agent finds its address in the file of the contract, and calls its tool over HTTP."""
    script = (ASSETS / "mcp_server.py").read_text("utf-8")
    up = Health(("python3", "-c", "import socket; socket.create_connection(('localhost', 8000), 2)"), 500)
    server = store(base_image, name="adder", command=("python3", "-c", script), health=up)
    order = services_order(
        f"python3 - <<'END'\n{CALL}END\n",
        server,
        mcp_servers=(
            {
                "name": "adder",
                "transport": "streamable-http",
                "url": "http://adder:8000/mcp",
                "headers": {"X-Word": "a"},
            },
        ),
    )
    assert runner(order, control).decision.outcome is Outcome.PASSED
