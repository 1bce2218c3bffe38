"""Agents at their own address: the worker keeps the loop, in a real sandbox; none of it is verified."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from orchestrator.attempts import AttemptOrder, AttemptReport, Caps, EndpointTerms
from orchestrator.evidence.store import EvidenceStore
from orchestrator.screenings.installation import Installation
from workers.attempt.runner import AttemptRunner

if TYPE_CHECKING:
    from tests.integration.agents.conftest import Seen

pytestmark = pytest.mark.docker

MIB: Final = 1 << 20
CAPS: Final = Caps(20_000, 20_000, 128 * MIB, 1000, 64, 1 * MIB, 8 * MIB)
TEST: Final = (
    'if [ "$(cat /tmp/hello.txt 2>/dev/null)" = hello ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt"
)
KEY: Final = "sk-canary-4b1d"
Answers = list[tuple[int, Any]]


def calls(*arguments: Any, name: str = "bash") -> tuple[int, Any]:
    """An answer that calls tools."""
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    return 200, {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": made}}]}


def says(text: str) -> tuple[int, Any]:
    """An answer in words: the last one."""
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}


WRITE: Final = calls(json.dumps({"command": "echo hello > hello.txt"}))
DONE: Final = says("Done.")


class Service:
    """An agent's own service: gives its answers in turn, and the last one for ever."""

    def __init__(self) -> None:
        self.answers: Answers = [WRITE, DONE]
        self.asked: list[tuple[dict[str, str], Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): text for name, text in self.headers.items()}
                outer.asked.append((headers, json.loads(raw)))
                number = min(len(outer.asked), len(outer.answers)) - 1
                status, body = outer.answers[number]
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.stop()


Ask = Callable[..., "tuple[AttemptReport, Seen]"]


@pytest.fixture
def ask(
    runner: AttemptRunner,
    control: Any,
    make_order: Callable[..., AttemptOrder],
    service: Service,
    seen_in: Callable[..., Seen],
    tmp_path: Path,
) -> Ask:
    """Runs the service on the hello task; `listed` is what the operator's list says of it."""

    def run(
        listed: str = "private = true", step_limit: int = 10, **changes: Any
    ) -> tuple[AttemptReport, Seen]:
        accounts = tmp_path / "endpoints.toml"
        accounts.write_text(f'[endpoint."{service.address}"]\n{listed}\n', "utf-8")
        terms = EndpointTerms(f"http://{service.address}/v1", "mine", step_limit, accounts)
        agent = {"kind": "http-chat", "name": "mine", "version": "1"}
        given = {"caps": CAPS, "agent_user": "1000:1000", "instruction": "Make hello.txt.\n", **changes}
        order = make_order("true", TEST, agent=agent, endpoint=terms, **given)
        report = runner(order, control)
        return report, seen_in(EvidenceStore(order.evidence_root), report.manifest_digest)

    return run


def end_of(report: AttemptReport) -> tuple[str, str]:
    return report.decision.outcome.value, report.decision.reason.value


def test_the_worker_runs_the_tool_calls_in_the_sandbox(ask: Ask, service: Service) -> None:
    """The request has the tools, one session id for the whole try, and no token of anything else."""
    report, seen = ask()
    assert end_of(report) == ("passed", "all_checks_passed"), report.observations
    (first, second) = service.asked
    assert first[0]["x-assize-session"] == second[0]["x-assize-session"]
    assert "authorization" not in first[0] and first[1]["model"] == "mine"
    assert [tool["function"]["name"] for tool in first[1]["tools"]] == ["bash"]
    assert second[1]["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "c0",
        "content": "exit code: 0\n(no output)",
    }
    assert json.loads(seen.files["agent/shell.json"])["why"] == "finished"
    assert seen.sandbox["network"] == "none" and report.spent_nusd is None
    _, again = ask()
    assert service.asked[2][0]["x-assize-session"] != first[0]["x-assize-session"]
    assert again.sandbox["network"] == "none"


@pytest.mark.parametrize(
    "wrong",
    [
        calls("{", json.dumps(["echo"]), json.dumps({"command": 5}), json.dumps({"cmd": "echo"})),
        calls(json.dumps({"command": "touch /tmp/ran"}), name="python"),
        calls(json.dumps({"command": "touch /tmp/ran\0"})),
    ],
)
def test_arguments_are_checked_before_anything_runs(ask: Ask, service: Service, wrong: Any) -> None:
    """Each wrong call is answered with what is wrong with it; none of them reaches the sandbox."""
    service.answers = [wrong, WRITE, DONE]
    report, seen = ask()
    assert end_of(report) == ("passed", "all_checks_passed")
    log = json.loads(seen.files["agent/shell.json"])
    assert log["commands"] == 1 and log["log"][0]["commands"] == [] and log["log"][0]["unusable"]
    assert b"/tmp/ran" not in seen.files["workspace/changes.json"]


def test_calls_are_limited(ask: Ask, service: Service) -> None:
    """An endpoint that calls tools for ever ends at the screening's limit, and not as a pass."""
    service.answers = [WRITE]
    report, _ = ask(step_limit=3)
    assert end_of(report) == ("failed", "step_cap") and len(service.asked) == 3


@pytest.mark.parametrize("answered", [0, 1])
def test_a_host_that_lost_its_lease_asks_no_more(
    ask: Ask, service: Service, control: Any, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """The platform's fault, before the first answer too, and not an agent that cannot be started."""
    service.answers = [WRITE]
    monkeypatch.setattr(
        control, "calls_until", lambda: time.monotonic() + (3600 if len(service.asked) < answered else -1)
    )
    report, _ = ask()
    assert end_of(report) == ("platform_fault", "worker_lost") and len(service.asked) == answered
    assert report.decision.rule == "lease-lost" and not report.decision.suspect


@pytest.mark.parametrize(
    ("listed", "answer", "said"),
    [
        ("", DONE, "without TLS"),
        ('private = true\nca_file = "/nowhere"\nkey = "x"', DONE, "endpoint"),
        ("private = true", (401, {"error": {"message": "who are you"}}), "status 401"),
        ("private = true", (302, {}), "redirect"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_not_evaluable(
    ask: Ask, service: Service, listed: str, answer: Any, said: str
) -> None:
    """With the reason in the evidence; it is neither the agent's failure nor the platform's fault."""
    service.answers = [answer]
    report, seen = ask(listed)
    assert end_of(report) == ("not_evaluable", "agent_not_startable"), report.observations
    assert said in json.loads(seen.files["agent/shell.json"])["detail"]


def test_a_task_with_servers_is_not_evaluable_for_it(ask: Ask, service: Service) -> None:
    """Issue 8, deliver 5: the capability that is missing is said, and nothing is asked."""
    report, seen = ask(mcp_servers=({"name": "desk", "transport": "streamable-http", "url": "http://d/"},))
    assert end_of(report) == ("not_evaluable", "agent_not_startable")
    assert "MCP servers" in json.loads(seen.files["agent/shell.json"])["detail"] and service.asked == []


def test_an_endpoint_that_fails_after_it_was_answering_is_graded(ask: Ask, service: Service) -> None:
    """Whoever runs it elsewhere answers for it."""
    service.answers = [calls(json.dumps({"command": "true"})), (400, {"error": {"message": "no"}})]
    report, _ = ask()
    assert end_of(report) == ("failed", "wrong_output")


def tasks_in(folder: Path) -> Path:
    """A pack of one task in the base image."""
    task = folder / "greeting"
    (task / "tests").mkdir(parents=True)
    (task / "solution").mkdir()
    environment = '[environment]\ndocker_image = "assize/base:1"\nmemory_mb = 256\nworkdir = "/tmp"\n'
    (task / "task.toml").write_text(f'version = "1.0"\n\n{environment}', "utf-8")
    (task / "instruction.md").write_text("Make hello.txt.\n", "utf-8")
    (task / "tests" / "test.sh").write_text(f"#!/bin/sh\n{TEST}\n", "utf-8")
    (task / "solution" / "solve.sh").write_text("#!/bin/sh\necho hello > hello.txt\n", "utf-8")
    return folder


def test_a_screening_of_an_endpoint_counts_nothing(
    installation: Installation, service: Service, assize: Callable[..., tuple[int, Any, str]], tmp_path: Path
) -> None:
    """Refused until it is listed; then certified as unverified, read as simulated, and never a pass."""
    home = installation.home.root
    agent = tmp_path / "mine.toml"
    agent.write_text(
        '[agent]\nname = "mine"\nversion = "1"\nkind = "http-chat"\n'
        f'[endpoint]\nurl = "http://{service.address}/v1"\n'
    )
    order = ["screen", str(tasks_in(tmp_path / "my-tasks")), "--agent", str(agent), "--tries", "1"]
    code, _, err = assize(home, *order)
    assert code == 2 and f"{service.address} is not on the list of endpoints" in err
    key = tmp_path / "key"
    key.write_text(KEY)
    (home / "endpoints.toml").write_text(
        f'[endpoint."{service.address}"]\nprivate = true\nkey_file = "{key}"\n', "utf-8"
    )
    code, ran, err = assize(home, *order, "--steps", "7")
    assert code in (0, 3), err
    assert service.asked[0][0]["authorization"] == f"Bearer {KEY}" and KEY not in err
    (card,) = ran["cards"]
    assert card["card"]["labels"]["simulated"] and card["card"]["pack_score"]["display"] == "—"
    (one,) = assize(home, "tries", ran["screenings"][0]["screening"])[1]["tries"]
    (attempt,) = assize(home, "try", one["try"])[1]["attempts"]
    code, verified, _ = assize(home, "verify", attempt["bundle"])
    assert verified["authentic"] == "yes" and "unverified" in json.dumps(verified)
    assert KEY not in json.dumps([ran, attempt, verified])
