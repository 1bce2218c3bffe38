"""docker-compose.yml for real: up from the checkout, a screening in it, a sick worker, and nothing left.

The tests stand on one stack and go on from each other, as a person would: what they share takes the time.
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ledger.owners import is_running
from tests.assets.services.own import wait_until
from tests.assets.services.stack import CALL_WITHIN_S, Stack

pytestmark = pytest.mark.docker
LASTING = ("redis", "postgres", "orchestrator", "worker", "web-placeholder")
TASK = ("screen", "coding-core", "--task", "cron-next-run", "--tries", "1", "--engine", "celery", "--json")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    made = Stack(tmp_path_factory.mktemp("stack"))
    made.prepare()
    try:
        made.up()
        yield made
    finally:
        made.down()


def children(stack: Stack) -> list[int]:
    """The processes of the worker's pool, as the host counts them."""
    main = stack.inspect("worker")["State"]["Pid"]
    lines = subprocess.run(
        ["docker", "top", stack.container("worker"), "-eo", "pid,ppid"],
        capture_output=True,
        text=True,
        timeout=CALL_WITHIN_S,
        check=True,
    ).stdout.splitlines()[1:]
    return [int(pid) for pid, parent in map(str.split, lines) if int(parent) == main]


def tell(stack: Stack, number: signal.Signals, *pids: int) -> None:
    """Send a signal from inside: the worker's container sees the processes of the host.

    Nobody waits for it: a container that ends by the signal may leave the caller waiting for ever (20.10).
    """
    kill = ["sh", "-c", f"kill -{int(number)} {' '.join(map(str, pids))}"]
    subprocess.run(
        ["docker", "exec", "--detach", stack.container("worker"), *kill], timeout=CALL_WITHIN_S, check=True
    )


def test_everything_is_up_and_nothing_is_open(stack: Stack) -> None:
    """Healthy all, no secret where others see it, only the metrics on loopback, locked databases."""
    secret = {one.read_text().strip().splitlines()[-1] for one in stack.secrets.iterdir()}
    for service in LASTING:
        seen = stack.inspect(service)
        assert seen["State"]["Health"]["Status"] == "healthy", service
        assert not [one for one in secret if one in json.dumps(seen)], f"a secret is seen at {service}"
        ports = [
            bound["HostIp"]
            for one in (seen["NetworkSettings"]["Ports"] or {}).values()
            for bound in one or []
        ]
        assert ports == (["127.0.0.1"] if service == "web-placeholder" else []), service
    assert stack.inspect("migrate")["State"]["ExitCode"] == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.port}/metrics", timeout=30) as answer:
        assert b"assize_" in answer.read()


def test_the_servers_are_set_as_promised(stack: Stack) -> None:
    """Checksums, an append-only file, no eviction, and nobody without a password."""
    code, said = stack.inside(
        "postgres", "psql", "-h", "/tmp", "-U", "postgres", "-Atc", "SHOW data_checksums"
    )
    assert (code, said.strip()) == (0, "on"), said
    code, said = stack.inside("postgres", "psql", "-w", "-h", "127.0.0.1", "-U", "postgres", "-c", "SELECT 1")
    assert code != 0 and "SELECT" not in said
    code, said = stack.inside("redis", "redis-cli", "ping")
    assert "NOAUTH" in said
    ask = (
        "{ printf 'AUTH assize '; cat /run/secrets/redis_password; echo INFO persistence; echo INFO memory; }"
    )
    code, said = stack.inside("redis", "sh", "-c", f"{ask} | redis-cli")
    assert "aof_enabled:1" in said and "maxmemory_policy:noeviction" in said
    code, said = stack.inside(
        "redis",
        "sh",
        "-c",
        "{ printf 'AUTH assize '; cat /run/secrets/redis_password; echo CONFIG GET dir; } | redis-cli",
    )
    assert "NOPERM" in said


@pytest.mark.parametrize(
    ("password", "mode", "says"),
    [
        ("secret", 0o000, "Permission denied"),
        ("", 0o444, "a password of the database is empty"),
        ("it's", 0o444, "the roles or the database of the ledger could not be made"),
    ],
)
def test_a_database_is_not_made_with_a_password_missing(
    stack: Stack, tmp_path: Path, password: str, mode: int, says: str
) -> None:
    """The server ends and says why; nothing calls the half-made cluster ready, so the next start mends it."""
    tmp_path.chmod(0o755)
    for name, text in (("database_owner_password", "owner"), ("database_worker_password", password)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o444)
    (tmp_path / "database_worker_password").chmod(mode)
    name = f"{stack.project}-first-start"
    image = stack.inspect("postgres")["Image"]
    try:
        done = docker("run", "--name", name, "--volume", f"{tmp_path}:/run/secrets:ro", image)
        assert done.returncode != 0 and says in done.stderr, done.stderr
        mark = docker("cp", f"{name}:/srv/postgres/data/assize-is-ready", "-")
        assert mark.returncode != 0 and "assize-is-ready" in mark.stderr, mark.stderr
    finally:
        docker("rm", "--force", "--volumes", name)


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A call of the engine's client, whatever comes of it."""
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=CALL_WITHIN_S, check=False
    )


def screened(stack: Stack, *agents: str) -> dict[str, dict[str, Any]]:
    """The one try of each screening by its bundle, after a screening with these options has ended."""
    code, said = stack.operator(*TASK, *agents)
    return tries_of(stack, code, said)


def tries_of(stack: Stack, code: int | None, said: str) -> dict[str, dict[str, Any]]:
    """The same, of what a screening said."""
    assert code == 3, said  # one task of a pack does not count in full
    found = {}
    for card in json.loads(said[said.index("{\n") : said.rindex("}") + 1])["cards"]:
        code, said = stack.inside("worker", "assize", "tries", card["screening"], "--json")
        assert code == 0, said
        (found[card["bundle"]],) = json.loads(said)["tries"]
    return found


def test_a_screening_is_run_by_the_worker_and_verifies(stack: Stack) -> None:
    """Planned by the operator, run by the worker, signed by the orchestrator or the operator."""
    tries = screened(stack, "--agent", "oracle", "--agent", "nop")
    assert sorted((one["state"], one["outcome"]) for one in tries.values()) == [
        ("recorded", "failed"),
        ("recorded", "passed"),
    ]
    for bundle in tries:
        code, said = stack.operator("verify", bundle)
        assert code in (0, 3) and "authentic   yes" in said and "COMPLETE    yes" in said, said


def test_the_worker_sees_its_sandboxes_as_one_on_the_host_does(stack: Stack) -> None:
    """Counters, layers, processes and namespaces are the host's: what is enforced is enforced here too."""
    (report,) = reports(stack)[:1]
    held = {name for name, one in report["abilities"].items() if one["holds"]}
    assert {"cgroup counters", "strict disk"} <= held
    assert report["preflight"] == {"interfaces": ["lo"], "routes": []}
    assert report["counters"]["maxMemoryBytes"] > 0 and report["counters"]["writtenBytes"] > 0
    assert report["proof"]["filtered"] is True


def reports(stack: Stack) -> list[dict[str, Any]]:
    """Every sandbox report in the evidence store."""
    find = f"grep -rl '^{{\"abilities\"' {stack.home}/evidence/sha256 | xargs -n 1 sh -c 'cat $0; echo'"
    code, said = stack.inside("worker", "sh", "-c", find)
    assert code == 0, said
    return [json.loads(line) for line in said.splitlines() if line]


def test_a_relayed_try_reaches_its_relay_beside_the_worker(stack: Stack) -> None:
    """The engine mounts the relay's socket from the host: the agent's calls arrive and are answered."""
    before = len(reports(stack))
    model = ("--agent", "shell", "--model", "rehearsal-openai", "--rehearse", "coding-core")
    (one,) = screened(stack, *model).values()
    assert one["state"] == "recorded" and one["reason"] in ("all_checks_passed", "wrong_output"), one
    assert [report["relay"] for report in reports(stack) if report["relay"]] and len(reports(stack)) > before


def test_kill_9_of_the_worker_loses_and_leaves_nothing(stack: Stack) -> None:
    """In the middle of a try with a sized disk: started again by the engine, it takes over and removes."""
    sandboxes = ["docker", "ps", "--quiet", "--no-trunc", "--filter", f"label=assize.home={stack.label}"]

    def running() -> set[str]:
        done = subprocess.run(sandboxes, capture_output=True, text=True, timeout=CALL_WITHIN_S, check=True)
        return set(done.stdout.split())

    started = stack.inspect("worker")["State"]["StartedAt"]
    screen = stack.start_operator(*TASK, "--agent", "oracle", "--disk", "strict")
    wait_until(lambda: running() != set(), "a sandbox", within_s=120)
    before = running()
    tell(stack, signal.SIGKILL, stack.inspect("worker")["State"]["Pid"])
    wait_until(
        lambda: stack.inspect("worker")["State"]["StartedAt"] != started, "it is started again", within_s=60
    )
    said, _ = screen.communicate(timeout=CALL_WITHIN_S)
    (one,) = tries_of(stack, screen.returncode, said).values()
    assert (one["state"], one["outcome"], one["attempts"]) == ("recorded", "passed", 2), one
    wait_until(lambda: not before & running(), "what the dead worker left is removed", within_s=120)
    code, said = stack.operator("doctor")
    assert code == 0 and " broken" not in said, said
    code, said = stack.operator("db", "check")
    assert code == 0, said
    wait_until(lambda: stack.health("worker") == "healthy", "the worker is healthy again", within_s=120)


def test_a_backup_can_be_made(stack: Stack) -> None:
    """The operator has the client programs of the server's own version."""
    code, said = stack.operator("db", "backup", "/tmp/backup", "--evidence")
    assert code == 0 and "postgresql ledger" in said, said


def test_the_worker_has_no_key_and_cannot_write_certificates(stack: Stack) -> None:
    """Its folder of keys is empty, no passphrase is mounted, its role is the worker's."""
    _, said = stack.inside("worker", "sh", "-c", f"ls {stack.home}/keys; ls /run/secrets")
    assert sorted(said.split()) == ["broker_url", "worker_database_url"]
    _, said = stack.inside("orchestrator", "sh", "-c", f"ls {stack.home}/keys")
    assert ".pem" in said
    _, said = stack.inside("worker", "assize", "db", "current")
    assert "assize_worker:***@postgres" in said, said


def test_a_worker_without_children_is_not_healthy(stack: Stack) -> None:
    """Frozen, its children killed: seen at once by the check, then by the engine; thawed, it recovers."""
    main, pool = stack.inspect("worker")["State"]["Pid"], children(stack)
    assert len(pool) == 2
    assert stack.inside("worker", "assize", "worker", "health")[0] == 0
    tell(stack, signal.SIGSTOP, main)
    try:
        wait_until(lambda: "T (stopped)" in Path(f"/proc/{main}/status").read_text(), "it is frozen")
        tell(stack, signal.SIGKILL, *pool)
        wait_until(lambda: not any(map(is_running, pool)), "the children are dead", within_s=60)
        code, said = stack.inside("worker", "assize", "worker", "health", "--json")
        failed = {one["name"]: one["detail"] for one in json.loads(said)["checks"] if not one["holds"]}
        assert code == 1 and failed["children"] == "0 of 2", said
        wait_until(
            lambda: stack.health("worker") == "unhealthy", "the engine calls it unhealthy", within_s=120
        )
    finally:
        tell(stack, signal.SIGCONT, main)
    wait_until(lambda: stack.health("worker") == "healthy", "it is healthy again", within_s=120)
    assert len(set(children(stack)) - set(pool)) == 2


class Page:
    """Flower as somebody on this machine sees it; `password` is None for who has none."""

    def __init__(self, stack: Stack, password: str | None) -> None:
        self._root = f"http://127.0.0.1:{stack.flower_port}"
        known = base64.b64encode(f"assize:{password}".encode()).decode()
        self._headers = {} if password is None else {"Authorization": f"Basic {known}"}

    def status(self, path: str, data: bytes | None = None) -> int:
        """What a GET, or with `data` a POST, is answered with."""
        request = urllib.request.Request(f"{self._root}{path}", data=data, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def read(self, path: str) -> Any:
        """The JSON of a page."""
        request = urllib.request.Request(f"{self._root}{path}", headers=self._headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def test_flower_shows_the_worker_to_who_has_the_password(stack: Stack) -> None:
    """An optional profile: healthy, on loopback, closed without the password; the worker and its messages."""
    stack.set("ASSIZE_TASK_EVENTS", "yes")
    stack.up("flower")
    seen = stack.inspect("flower")
    assert seen["State"]["Health"]["Status"] == "healthy"
    assert [one["HostIp"] for bound in seen["NetworkSettings"]["Ports"].values() for one in bound] == [
        "127.0.0.1"
    ]
    secret = {one.read_text().strip().splitlines()[-1] for one in stack.secrets.iterdir()}
    assert not [one for one in secret if one in json.dumps(seen)]
    code, said = stack.inside("flower", "sh", "-c", "id -u; ls /run/secrets")
    user, *mounted = said.split()
    assert code == 0 and user != "0" and sorted(mounted) == ["flower_broker_url", "flower_password"]
    page = Page(stack, (stack.secrets / "flower_password").read_text().strip())
    for path in ("/", "/workers", "/workers?json=1", "/api/workers", "/tasks", "/api/tasks", "/broker"):
        assert (Page(stack, None).status(path), page.status(path)) == (401, 200), path
        assert Page(stack, "wrong").status(path) == 401
    assert (Page(stack, None).status("/metrics"), Page(stack, None).status("/healthcheck")) == (404, 404)

    def workers() -> list[str]:
        found = page.read("/workers?json=1")["data"]
        return [one["hostname"] for one in found if one["status"]]

    # The worker may have begun before there was somebody to listen: then it is heard of at its next sign.
    wait_until(lambda: workers() != [], "the worker is heard of", within_s=60)
    assert [one.partition("@")[2] for one in workers()] == ["worker"]
    screened(stack, "--agent", "nop", "--disk", "strict")  # a screening of its own
    wait_until(
        lambda: "SUCCESS" in [one["state"] for one in page.read("/api/tasks").values()],
        "the message of the try is seen to its end",
        within_s=60,
    )


def test_flower_can_do_nothing(stack: Stack) -> None:
    """What acts is not served, workers do not listen, and its user of the broker may not speak."""
    page = Page(stack, (stack.secrets / "flower_password").read_text().strip())
    (worker,) = [one["hostname"] for one in page.read("/workers?json=1")["data"] if one["status"]]
    started = stack.inspect("worker")["State"]["StartedAt"]
    acts = [
        *(f"/api/worker/{one}/{worker}" for one in ("shutdown", "pool/restart", "pool/shrink?n=2")),
        *(f"/api/task/{one}/x" for one in ("revoke", "abort")),
        *(f"/api/task/{one}/assize.try" for one in ("apply", "async-apply", "send-task", "rate-limit")),
        f"/api/worker/queue/cancel-consumer/{worker}?queue=try",
    ]
    assert {act: page.status(act, b"{}") for act in acts} == dict.fromkeys(acts, 404)
    speak = (
        "import redis; c = redis.Redis.from_url(open('/run/secrets/flower_broker_url').read().strip())\n"
        "for name, args in (('LPUSH', ('assize:try', 'x')), ('PUBLISH', ('assize:/0.celery.pidbox', 'x'))):\n"
        "    try: c.execute_command(name, *args)\n"
        "    except redis.exceptions.NoPermissionError: continue\n"
        "    raise SystemExit(name)"
    )
    code, said = stack.inside("flower", "/opt/assize/venv/bin/python", "-c", speak)
    assert code == 0, said
    assert stack.inspect("worker")["State"]["StartedAt"] == started
    wait_until(lambda: stack.health("worker") == "healthy", "the worker works on", within_s=120)


def test_the_archive_of_evidence_can_be_used(stack: Stack) -> None:
    """What `ASSIZE_EVIDENCE_ARCHIVE` needs is in the image of the services."""
    code, said = stack.inside("worker", "/opt/assize/venv/bin/python", "-c", "import boto3; boto3.client")
    assert code == 0, said


def test_down_leaves_nothing(stack: Stack) -> None:
    """No container, network or volume of the project, and no sandbox of its home."""
    assert stack.left() != []
    stack.down()
    assert stack.left() == []
