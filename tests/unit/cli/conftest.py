"""A seeded home made through the engine and its scripted attempts: no Docker, real ledger and evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.cli.main import main
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.evidence.claims import FILE_NAME, Figures, encode
from orchestrator.evidence.manifest import ManifestBuilder, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.records import CertificateKind, add_certificate
from tests.assets.services import databases as on

home = on.home
ledger = on.ledger

HOSTILE_TASK = "evil\x1b[31m\u202etask\nsecond line"
TROUBLED = "lost"
TROUBLE = {"trouble": "the image has no glibc\x1b[31m"}
HOSTILE_OUTPUT = b"start\x1b]0;title\x07\x1b[2Jred\tkept\xff\xe2\x80\xae end\n"
SCRIPT = {
    "fix-login": ("passed",),
    "fix-login/2": ("failed",),
    "group/slow": ("timeout",),
    "flaky": ("platform_fault", "passed"),
    "lost": ("platform_fault",),
    HOSTILE_TASK: ("failed",),
}


METERED = Figures(2, 1, 1000, 50, 1_000_000)
CLAIMED = {"flaky": Figures(model_calls=3), "lost": Figures(model_calls=2)}
"""What the agents of these tasks say of themselves."""


class Witnessed:
    """A scripted attempt that leaves evidence in the store, hostile output included."""

    def __init__(self, store: EvidenceStore) -> None:
        self._attempt = StubAttempt(script=SCRIPT)
        self._store = store

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        report = self._attempt(order, control)
        builder = ManifestBuilder(self._store, attempt_id=order.attempt_id, try_id=order.slot_id)
        builder.add_bytes("agent/stdout.txt", Role.COMMAND_LOG, HOSTILE_OUTPUT)
        builder.add_bytes("agent/stderr.txt", Role.COMMAND_LOG, b"no line end")
        builder.add_bytes("workspace/diff.patch", Role.DIFF, f"+attempt {order.attempt}\n".encode())
        builder.add_bytes("grader/empty.txt", Role.GRADER_OUTPUT, b"")
        builder.add_bytes("observations.json", Role.OBSERVATIONS, b'{"agent_started":true}')
        builder.withhold("grader/tests.tar", Role.HIDDEN_TESTS, b"hidden")
        if order.task_id == TROUBLED:
            builder.add_bytes("sandbox-report.json", Role.SANDBOX_REPORT, json.dumps(TROUBLE).encode())
        if order.task_id in CLAIMED:
            claimed = encode(CLAIMED[order.task_id], METERED)
            builder.add_bytes(FILE_NAME, Role.AGENT_TRANSCRIPT, claimed)
        return replace(report, manifest_digest=builder.seal(), wall_ms=61_500)


@dataclass(frozen=True)
class World:
    """The seeded home: `done` is a closed screening of every kind of end, `open` one that never started."""

    home: Home
    done: str
    open: str

    def try_id(self, task: str, k: int = 1) -> str:
        ledger = open_ledger(self.home.database_url)
        try:
            rows = queries.tries(ledger, self.done, task_id=task)
            return str(next(one.row["id"] for one in rows if one.row["k"] == k))
        finally:
            ledger.close()


def _certify(ledger: Ledger, screening_id: str) -> Callable[[str], None]:
    def certify(attempt_id: str) -> None:
        add_certificate(
            ledger,
            screening_id=screening_id,
            kind=CertificateKind.TRY,
            digest=attempt_id.lower().rjust(64, "0"),
            envelope=b"{}",
            who="test",
            attempt_id=attempt_id,
            path=f"certificates/{screening_id}/{attempt_id}.trybundle.json",
        )

    return certify


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, databases: str) -> World:
    home = Home(tmp_path_factory.mktemp("cli") / "home").prepare()
    ledger = open_ledger(home.database_url)
    store = EvidenceStore(home.evidence)
    try:
        done = plan_stub(ledger, ["fix-login", "group/slow", "flaky", "lost", HOSTILE_TASK], name="done")
        callbacks = Callbacks(attempt=Witnessed(store), order_for=stub_order, certify=_certify(ledger, done))
        result = LocalEngine(ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test").run([done], 2)
        assert result.states[done] == "partial"
        waiting = plan_stub(ledger, ["fix-login"], name="waiting")
    finally:
        ledger.close()
    return World(home, done, waiting)


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str


class Cli:
    """Runs the program in this process, as its entry point does."""

    def __init__(self, capsys: pytest.CaptureFixture[str], home: Path) -> None:
        self._capsys = capsys
        self.home = home

    def __call__(self, *arguments: str, home: Path | None = None) -> Ran:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--home", str(home or self.home), *arguments])
        seen = self._capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Ran(end.value.code, seen.out, seen.err)


@pytest.fixture
def cli(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Cli:
    """The program without a Docker engine, on the seeded home if a test asks for `world`, else on none yet.

    Without `world` nothing is seeded, and a test that opens no ledger runs once.
    """
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    monkeypatch.delenv("ASSIZE_HOME", raising=False)
    monkeypatch.delenv("ASSIZE_DATABASE_URL", raising=False)
    seeded = "world" in request.fixturenames
    return Cli(capsys, request.getfixturevalue("world").home.root if seeded else tmp_path / "unmade")


@pytest.fixture
def hostile_task() -> str:
    return HOSTILE_TASK


@pytest.fixture
def hostile_output() -> bytes:
    return HOSTILE_OUTPUT
