"""Certifying is stopped at every step: again gives the same bytes, nothing is lost and nothing logged twice.

Rule: issue 5, deliverable 2, from the signature over log and ledger to the files (certificates.md 3.4).
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from orchestrator.agents import registry
from orchestrator.certificates import logbook as logbook_module
from orchestrator.certificates import runner, trust
from orchestrator.certificates.founding import LOG_KEY_FILE
from orchestrator.certificates.keys import SigningKey
from orchestrator.certificates.logbook import Logbook
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.custody import passphrase
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import plan_stub, stub_order
from orchestrator.home import Home
from orchestrator.ledger import queries, records
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.records import add_certificate, certificates
from orchestrator.log.audit import audit
from orchestrator.log.errors import LogBusyError, LogConflictError
from orchestrator.log.proof import LogVerifier
from orchestrator.log.writer import LogWriter
from orchestrator.packs.pack import Pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings import bundling, certify
from orchestrator.screenings.certify import Certifier, UncertifiedError
from orchestrator.screenings.images import TaskImages
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.orders import Bench
from tests.assets.services.databases import copy_home, remove_home

ASSETS = Path(__file__).resolve().parents[2] / "assets"
SPONSORS = Sponsors("test:local", "test:local", "test:local")
IMAGE = "sha256:" + "1" * 64
STATEMENTS = 4
PARTS = 4
"""The places to stop at are many: in parts, processes of tests share them."""


def _asset(family: str, name: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ASSETS / family / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def crash() -> ModuleType:
    """The disks of the log's own crash tests."""
    return _asset("log", "crash_disk")


class Life:
    """One home in which a screening ran, with nothing certified yet."""

    def __init__(self, root: Path, pack: Pack, screening: str) -> None:
        self.home, self.pack, self.screening = Home(root), pack, screening

    def certifier(self, installation: Installation, logbook: Logbook | None = None) -> Certifier:
        bench = Bench(
            installation,
            self.pack,
            registry.resolve(self.home, "oracle"),
            ScreeningConditions(tries=2, hardware_class="cpu1-mem1g"),
            {"trivial": TaskImages(IMAGE, IMAGE)},
        )
        root = installation.trust_root()
        made = Certifier(installation, installation.signer(), root.issuer, bench, self.screening)
        if logbook is not None:
            made._logbook = logbook
        return made

    def run(self, logbook: Callable[[Installation], Logbook | None] = lambda one: None) -> Path:
        """Open, certify what is not certified, close, as a run and every later run of it do."""
        installation = Installation.open(self.home)
        try:
            one = self.certifier(installation, logbook(installation))
            one.open(SPONSORS)
            for slot in queries.tries(installation.ledger, self.screening):
                for view in queries.show_try(installation.ledger, slot.row["id"]).attempts:
                    if view.certificate_digest is None:
                        one.certify(view.row["id"])
            return one.close()
        finally:
            installation.close()

    def envelopes(self) -> list[bytes]:
        installation = Installation.open(self.home)
        try:
            return [one.envelope for one in certificates(installation.ledger, self.screening)]
        finally:
            installation.close()

    def files(self) -> dict[str, bytes]:
        folder = self.home.certificates / self.screening
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def check_log(self) -> int:
        """Audit the published log; its size."""
        root = trust.load(self.home.trust_root)
        (log,) = root.logs.values()
        found = audit(self.home.log / log.key.origin, LogVerifier(log.key))
        assert found.findings == ()
        return found.checkpoint.size


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, databases: str) -> Life:
    """A home with two recorded tries, its keys and its trust root; to be copied."""
    folder = tmp_path_factory.mktemp("certify")
    worlds = _asset("custody", "custody_world")
    pack = worlds.make_pack(folder / "pack")
    home = Home(folder / "home")
    installation = Installation.open(home)
    try:
        installation.trust_root()
        screening = plan_stub(installation.ledger, ["trivial"], tries=2)
        callbacks = Callbacks(
            attempt=worlds.Witnessed(installation.store),
            order_for=stub_order,
            certify=lambda attempt_id: None,
        )
        engine = LocalEngine(installation.ledger, callbacks, Settings(idle_ms=5), who="test")
        engine.run([screening], 1)
    finally:
        installation.close()
    return Life(home.root, pack, screening)


@pytest.fixture
def fresh(ran: Life, tmp_path: Path) -> Callable[[str], Life]:
    """Copies of that home; certificates do not depend on where a home lies."""

    def copy(name: str) -> Life:
        copy_home(ran.home.root, tmp_path / name)
        return Life(tmp_path / name, ran.pack, ran.screening)

    return copy


def log_key(home: Home) -> SigningKey:
    return SigningKey.load(home.keys / LOG_KEY_FILE, passphrase.path_of(home.keys))


def with_disk(disk: Any) -> Callable[[Installation], Logbook]:
    def make(one: Installation) -> Logbook:
        key = log_key(one.home)
        return Logbook(one.home.log, one.home.log_state, one.trust_root(), lambda: key, disk=lambda: disk)

    return make


def test_everything_is_logged_and_verifies(fresh: Callable[[str], Life]) -> None:
    """Opening, tries and summary, each once; the files carry proofs that stand on their own."""
    life = fresh("one")
    path = life.run()
    root = trust.load(life.home.trust_root)
    assert life.check_log() == STATEMENTS
    result = verify_screening_bundle(path, root)
    assert (result.exit_code, result.log and (result.log.size, result.log.entries)) == (0, (4, 4))
    for name in life.files():
        if name.endswith(".trybundle.json"):
            one = verify_try_bundle(life.home.certificates / life.screening / name, root)
            assert one.exit_code == 0 and one.index is not None
    before = life.files()
    assert life.run() == path and life.files() == before and life.check_log() == STATEMENTS


@pytest.mark.parametrize("part", range(PARTS))
def test_stop_at_every_step(
    fresh: Callable[[str], Life], crash: ModuleType, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Between and within signing, logging, storing and writing: the second run ends as if never stopped."""
    disk = crash.CountingDisk()

    def counted(what: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if disk._step():
                disk.die()
            return what(*arguments, **named)

        return step

    for name in ("add_certificate", "write_file", "write_screening_bundle"):
        monkeypatch.setattr(certify, name, counted(getattr(certify, name)))
    whole = fresh("whole")
    whole.run(with_disk(disk))
    wanted, files, total = whole.envelopes(), whole.files(), disk.count
    assert len(wanted) == STATEMENTS and total > 60
    for last in range(1 + part, total + 1, PARTS):
        life, disk = fresh(str(last)), crash.CountingDisk(last)
        with pytest.raises(crash.Killed):
            life.run(with_disk(disk))
        disk = crash.CountingDisk()
        life.run(with_disk(disk))
        assert life.envelopes() == wanted
        assert life.check_log() == STATEMENTS
        assert life.files() == files
        remove_home(life.home.root)


def steps(modules: Iterable[ModuleType], on_line: Callable[[], None]) -> Any:
    """A trace function that reports every line of these modules whenever it is reached."""
    names = {module.__file__ for module in modules}

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in names:
            return None
        if event == "line":
            on_line()
        return trace

    return trace


def on_disk(folder: Path) -> frozenset[tuple[str, int, int]]:
    """What a process that starts now would find: every file with its size and time."""
    found = [(path, path.stat()) for path in folder.rglob("*") if path.is_file()]
    return frozenset((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in found)


def in_ledger(ledger: Ledger) -> tuple[int, ...]:
    """What it would find on a server: how long the tables are that certifying adds to."""
    if ledger.engine.dialect.name == "sqlite":  # a file, and somebody may be writing to it
        return ()
    with ledger.reading() as connection:
        counts = (f"SELECT count(*) FROM {table}" for table in ("certificate", "event"))
        return tuple(connection.exec_driver_sql(one).scalar_one() for one in counts)


def child_of(work: Callable[[], object]) -> int:
    """A process of its own that does this and nothing else; what goes wrong in it is written down."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - it is told, and the exit code says it
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    return child


def in_a_child(work: Callable[[], object]) -> int:
    """Its wait status."""
    return os.waitpid(child_of(work), 0)[1]


@pytest.mark.parametrize("part", range(PARTS))
def test_sigkill_at_every_statement(fresh: Callable[[str], Life], crash: ModuleType, part: int) -> None:
    """A real process gets SIGKILL at every line of the signing side before which anything changed on disk,
    found by tracing a run; the next run ends as if nothing had been."""
    modules = (certify, bundling, logbook_module, records)
    stops: list[int] = []
    lines, states = 0, set[Any]()
    whole = fresh("whole")
    beside = Ledger(create_engine(whole.home.database_url))

    def on_line() -> None:
        nonlocal lines
        lines += 1
        state = on_disk(whole.home.root), in_ledger(beside)
        if state not in states:
            states.add(state)
            stops.append(lines)

    sys.settrace(steps(modules, on_line))
    try:
        whole.run(with_disk(crash.CountingDisk()))
    finally:
        sys.settrace(None)
    beside.close()
    wanted, files = whole.envelopes(), whole.files()
    assert len(wanted) == STATEMENTS and lines > 300 and len(stops) >= 20
    for last in stops[part::PARTS]:

        def die(life: Life, last: int = last) -> None:
            left = itertools.count(last, -1)

            def kill() -> None:
                if next(left) == 1:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.settrace(steps(modules, kill))
            life.run(with_disk(crash.CountingDisk()))

        life = fresh(str(last))
        status = in_a_child(lambda life=life, die=die: die(life))  # type: ignore[misc]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, last
        life.run(with_disk(crash.CountingDisk()))
        assert life.envelopes() == wanted, last
        assert life.check_log() == STATEMENTS, last
        assert life.files() == files, last
        remove_home(life.home.root)


def test_two_signers_at_once(fresh: Callable[[str], Life], crash: ModuleType) -> None:
    """Two processes certify the same screening: every statement once, whoever was first."""
    whole = fresh("whole")
    whole.run(with_disk(crash.CountingDisk()))
    for number in range(4):
        life = fresh(f"two-{number}")
        children = [child_of(life.run) for _ in range(3)]
        ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert ended == [0, 0, 0]
        assert life.envelopes() == whole.envelopes()
        assert life.check_log() == STATEMENTS
        assert life.run().name == "screening.zip" and life.check_log() == STATEMENTS


def test_a_busy_log_is_waited_for(fresh: Callable[[str], Life]) -> None:
    """Two processes certify at once: the second one waits until the first lets go of the log."""
    life = fresh("busy")
    installation = Installation.open(life.home)
    root, key = installation.trust_root(), log_key(life.home)
    (origin,) = root.logs
    one = life.certifier(installation)
    one.open(SPONSORS)
    asked = threading.Event()

    def asking() -> SigningKey:
        asked.set()
        return key

    logbook = Logbook(life.home.log, life.home.log_state, root, asking)
    envelope = certificates(installation.ledger, life.screening)[0].envelope
    with LogWriter(life.home.log / origin, life.home.log_state / origin, origin, key):
        found: list[int] = []
        waiting = threading.Thread(target=lambda: found.append(logbook.enter(envelope)))
        waiting.start()
        assert asked.wait(30) and found == []
    waiting.join(30)
    assert found == [0]
    installation.close()


def test_waiting_for_the_log_ends(fresh: Callable[[str], Life]) -> None:
    """A log that is never let go of: the try stays to be certified, and says why."""
    life = fresh("kept")
    installation = Installation.open(life.home)
    root, key = installation.trust_root(), log_key(life.home)
    (origin,) = root.logs
    life.certifier(installation).open(SPONSORS)
    logbook = Logbook(life.home.log, life.home.log_state, root, lambda: key, wait_s=0)
    one = life.certifier(installation, logbook)
    slot = queries.tries(installation.ledger, life.screening)[0]
    attempt = queries.show_try(installation.ledger, slot.row["id"]).attempts[0].row["id"]
    with LogWriter(life.home.log / origin, life.home.log_state / origin, origin, key):
        with pytest.raises(UncertifiedError, match="another process writes"):
            one.certify(attempt)
        with pytest.raises(LogBusyError):
            logbook.enter(certificates(installation.ledger, life.screening)[0].envelope)
    one.certify(attempt)
    assert life.check_log() == 2
    installation.close()


def test_a_statement_that_was_logged_before_an_upgrade_stands(
    fresh: Callable[[str], Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between log and ledger, then another version of us certifies: it spells the statement in its
    own way (its digest is in there), so it takes over the one that is logged, and no try is lost."""

    class Killed(BaseException):
        pass

    def store(*arguments: Any, **named: Any) -> bool:
        if named["attempt_id"] is not None:
            raise Killed
        return add_certificate(*arguments, **named)

    life = fresh("upgraded")
    with monkeypatch.context() as patch:
        patch.setattr(certify, "add_certificate", store)
        with pytest.raises(Killed):
            life.run()
    assert life.check_log() == 2
    monkeypatch.setattr(runner, "identity", lambda: ("9.9.9", "9" * 64))
    path = life.run()
    assert life.check_log() == STATEMENTS
    root = trust.load(life.home.trust_root)
    result = verify_screening_bundle(path, root)
    assert (result.exit_code, result.accounting.passed) == (0, 2)
    used = {(one.predicate or {})["sandbox"]["runner"]["version"] for one in result.tries}
    assert len(used) == 2 and "9.9.9" in used


def test_another_certificate_in_the_same_place_is_refused(fresh: Callable[[str], Life]) -> None:
    """A ledger restored from an old copy cannot certify a try a second time: the log remembers, and
    nothing of the second certificate is published."""
    life, other = fresh("first"), fresh("second")
    life.run()
    shutil.rmtree(other.home.root / "log", ignore_errors=True)
    installation = Installation.open(other.home)
    one = other.certifier(installation)
    one.open(Sponsors("test:other", "test:local", "test:local"))
    envelope = certificates(installation.ledger, other.screening)[0].envelope
    installation.close()
    first = Installation.open(life.home)
    logbook = first.logbook()
    assert logbook is not None
    published = sorted((life.home.log).rglob("statement/*/*"))
    with pytest.raises(LogConflictError):
        logbook.enter(envelope)
    first.close()
    assert sorted((life.home.log).rglob("statement/*/*")) == published
    assert life.check_log() == STATEMENTS
