"""`assize doctor`: every check can say no, says how to mend it, and nothing is changed by looking."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.engine import Connection

from orchestrator import host_abilities
from orchestrator.certificates import founding, trust
from orchestrator.certificates.keys import SigningKey
from orchestrator.cli import doctor, doctor_home, doctor_host, doctor_models
from orchestrator.cli.findings import Health
from orchestrator.custody import passphrase
from orchestrator.home import Home
from orchestrator.ledger import invariants
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.rules import RULES, Rule, ensure_rules
from orchestrator.log.writer import LogWriter
from orchestrator.prices.sheet import PriceSheet
from sandbox_images.lock import ImageLock, LockedImage
from tests.assets.services.databases import copy_home

IMAGE = "sha256:" + "b" * 64
NOW_MS = 1_795_000_000_000


class FakeEngine:
    """A healthy Docker engine of a few answers."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {
            "OperatingSystem": "Test",
            "CgroupVersion": "2",
            "CgroupDriver": "systemd",
            "Runtimes": {"runc": {}, "runsc": {}},
            "DefaultRuntime": "runc",
            "Driver": "overlay2",
            "DockerRootDir": "/nonexistent",
            "MemoryLimit": True,
            "PidsLimit": True,
            "CpuCfsQuota": True,
            "SecurityOptions": ["name=seccomp,profile=default", "name=userns"],
        }
        self.present = [{"Id": IMAGE}]
        self.quota = ""
        self.found: list[dict[str, Any]] = []

    def info(self) -> dict[str, Any]:
        return self.facts

    def version(self) -> dict[str, Any]:
        return {"Version": "99", "ApiVersion": "1.99"}

    def images(self, **_filters: Any) -> list[dict[str, Any]]:
        return self.present

    def containers(self, **_filters: Any) -> list[dict[str, Any]]:
        return self.found

    def close(self) -> None:
        pass

    def abilities(self, _api: Any, image_id: str | None) -> host_abilities.Seen:
        """A host that can enforce everything, as far as the engine says so too."""
        quota = None if image_id is None else self.quota
        return host_abilities.Seen(self.facts, {}, quota, (), True, True, True)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    engine = FakeEngine()
    monkeypatch.setattr(doctor_host, "connect", lambda _timeout: engine)
    # Some runner; that the real one loads is for the test on a real engine.
    installed = EntryPoint("docker", "orchestrator.engine.stub:StubAttempt", "assize.attempt")
    monkeypatch.setattr(doctor_host, "entry_points", lambda group: [installed])
    # The bundled sheet grows old, and other screenings may run on this host.
    monkeypatch.setattr(doctor_models, "_today", lambda: PriceSheet.bundled().date)
    monkeypatch.setattr(doctor_models, "places", lambda: ())
    monkeypatch.setattr(host_abilities, "observe", engine.abilities)
    return engine


@pytest.fixture
def home(tmp_path: Path, world: Any) -> Iterator[Home]:
    """A whole home: seeded ledger and evidence, keys, trust root, locked base image."""
    made = copy_home(world.home.root, tmp_path / "home")
    phrase = passphrase.provide(made.keys).path
    founding.create(made.keys, made.trust_root, issuer="test", now_unix_ms=NOW_MS, passphrase_file=phrase)
    ImageLock(made.images_lock).record("assize/base:1", LockedImage(IMAGE, "local", "", "", "amd64", "test"))
    yield made


@contextmanager
def behind_the_ledger(home: Home) -> Iterator[Connection]:
    """A transaction on the home's database that none of our code looks at."""
    ledger = Ledger(create_engine(home.database_url))
    with ledger.unit_of_work() as connection:
        yield connection
    ledger.close()


def drop(connection: Connection, rule: Rule) -> None:
    """Take a trigger away."""
    on = f" ON {rule.table}" if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"DROP TRIGGER {rule.name}{on}")


def health(home: Home) -> dict[str, tuple[Health, str]]:
    return {one.check: (one.health, one.detail) for one in doctor.examine(home)}


def test_a_whole_home_is_ready(cli: Any, fake: FakeEngine, home: Home) -> None:
    """Everything there: exit 0, every invariant is a row of its own, names are unique."""
    ran = cli("doctor", "--json", home=home.root)
    data = json.loads(ran.out)
    assert (ran.code, data["schema"], data["ready"]) == (0, "assize.doctor/1", True)
    # No engine has everything: one that remaps users gives sized places to root.
    warned = [one["check"] for one in data["checks"] if one["health"] != "ok"]
    assert warned == ["strict disk", "loop disk"]
    assert {frozenset(one) for one in data["checks"]} == {
        frozenset({"check", "health", "detail", "mend", "blocks"})
    }
    names = [one["check"] for one in data["checks"]]
    assert len(set(names)) == len(names)
    assert {f"invariant {number}: {name}" for number, name, _ in invariants.CHECKS} <= set(names)
    assert cli("doctor", home=home.root).out.endswith("ready to screen\n")


def test_nothing_set_up_at_all(cli: Any, tmp_path: Path) -> None:
    """No engine and no home: every row still comes, exit 1, and nothing is created."""
    home = tmp_path / "none"
    ran = cli("doctor", home=home)
    assert ran.code == 1
    assert "✗ missing  docker engine" in ran.out
    assert "mend docker engine: install a Docker engine" in ran.out
    assert "does not exist yet; made by the first screening" in ran.out
    assert not home.exists()


def test_a_home_that_is_a_file(cli: Any, fake: FakeEngine, tmp_path: Path) -> None:
    """Named, blocking, and no other check of the home is tried."""
    home = tmp_path / "file"
    home.write_text("")
    ran = cli("doctor", "--json", home=home)
    found = {one["check"]: one["health"] for one in json.loads(ran.out)["checks"]}
    assert (ran.code, found["home"]) == (1, "missing")
    assert "ledger" not in found


def test_an_engine_without_limits_blocks(fake: FakeEngine, home: Home) -> None:
    """A sandbox without memory or pid limit is none."""
    fake.facts |= {"MemoryLimit": False, "PidsLimit": False}
    assert health(home)["sandbox limits"] == (Health.MISSING, "the engine cannot limit memory, pids")


def test_engine_warnings(fake: FakeEngine, home: Home) -> None:
    """No seccomp, and a clock that is far away."""
    fake.facts |= {"SecurityOptions": [], "SystemTime": "2001-01-01T00:00:00.123456789Z"}
    found = health(home)
    assert found["seccomp"][0] is Health.WARN
    assert found["engine clock"][0] is Health.WARN


def test_what_cannot_be_enforced_is_shown_with_its_mend(cli: Any, fake: FakeEngine, home: Home) -> None:
    """Issue 6: disk quota, runtimes, user namespaces; none of it stops a screening that does not ask."""
    fake.quota = "only for overlay over xfs with pquota"
    fake.facts |= {
        "SecurityOptions": ["name=seccomp,profile=default"],
        "Runtimes": {"runc": {"path": "runc"}, "other": {"path": "x", "runtimeArgs": ["--ignore-cgroups"]}},
    }
    ran = cli("doctor", "--json", home=home.root)
    found = {one["check"]: one for one in json.loads(ran.out)["checks"]}
    assert ran.code == 0
    for name, word in (
        ("disk quota", "--disk strict"),
        ("user namespaces", "userns-remap"),
        ("runtime other", "without --ignore-cgroups"),
    ):
        assert (found[name]["health"], word in found[name]["mend"]) == ("warn", True), found[name]
    assert found["runtime runc"]["health"] == "ok"


def test_an_engine_that_fails_is_missing(
    monkeypatch: pytest.MonkeyPatch, fake: FakeEngine, home: Home
) -> None:
    """An engine that answers with an error is no engine."""

    def fail() -> dict[str, Any]:
        raise OSError("the socket went away")

    monkeypatch.setattr(fake, "info", fail)
    assert health(home)["docker engine"] == (Health.MISSING, "the socket went away")


def test_base_image_gone(fake: FakeEngine, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock whose image the engine lost is a warning where it can be built again, else missing."""
    fake.present = []
    assert health(home)["base image"][0] is Health.WARN
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(doctor_host, "is_root", lambda: False)
    found = health(home)
    assert (found["base image"][0], found["mmdebstrap"][0]) == (Health.MISSING, Health.MISSING)


def test_little_disk(fake: FakeEngine, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 5 GB a warning, below 1 GB missing."""

    def usage(free: int) -> Any:
        return lambda _path: SimpleNamespace(free=free)

    monkeypatch.setattr(shutil, "disk_usage", usage(4_000_000_000))
    assert health(home)["disk"][0] is Health.WARN
    monkeypatch.setattr(shutil, "disk_usage", usage(999_999_999))
    assert health(home)["disk"][0] is Health.MISSING


def test_no_attempt_runner(fake: FakeEngine, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without workers cannot screen."""
    monkeypatch.setattr(doctor_host, "entry_points", lambda group: [])
    assert health(home)["attempt runner"][0] is Health.MISSING
    absent = EntryPoint("docker", "orchestrator.no_such_module:Runner", "assize.attempt")
    monkeypatch.setattr(doctor_host, "entry_points", lambda group: [absent])
    assert health(home)["attempt runner"][0] is Health.BROKEN


@pytest.mark.only_on("sqlite", "a file that is no database")
def test_a_ledger_that_is_no_database(fake: FakeEngine, home: Home) -> None:
    """Broken, with a sentence."""
    for path in home.root.glob("ledger.db*"):
        path.unlink()
    (home.root / "ledger.db").write_text("certainly not a database, and long enough to be sure of it")
    assert health(home)["ledger"][0] is Health.BROKEN


def test_a_ledger_that_lost_a_rule(fake: FakeEngine, home: Home) -> None:
    """A dropped trigger is found; the other checks of the home still run."""
    name = RULES[0].name
    with behind_the_ledger(home) as connection:
        drop(connection, RULES[0])
    found = health(home)
    assert found["ledger"][0] is Health.BROKEN
    assert name in found["ledger"][1]
    assert "leftover containers" in found


def test_a_violated_invariant_is_broken(fake: FakeEngine, home: Home, cli: Any) -> None:
    """A row that was changed behind the ledger's back is named, exit 1."""
    more = "UPDATE screening SET planned_slots = planned_slots + 1 WHERE closed_ms IS NULL"
    with behind_the_ledger(home) as connection:
        for rule in RULES:
            if rule.table == "screening":
                drop(connection, rule)
        connection.exec_driver_sql(more)
        ensure_rules(connection)
    found = health(home)["invariant 1: planned = recorded + uncountable + cancelled + open"]
    assert found[0] is Health.BROKEN
    assert "planned 4 slots and has 3" in found[1]
    assert cli("doctor", home=home.root).code == 1


def test_an_old_schema_is_told_and_not_upgraded(fake: FakeEngine, home: Home, databases: str) -> None:
    """Looking changes nothing; the next command upgrades a file, of a server it is asked for."""
    with behind_the_ledger(home) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    found = health(home)
    assert found["ledger"][0] is (Health.WARN if databases == "sqlite" else Health.MISSING)
    assert not [name for name in found if name.startswith("invariant")]
    with behind_the_ledger(home) as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "0000"


def test_key_modes_absent_keys_and_foreign_keys(fake: FakeEngine, home: Home, tmp_path: Path) -> None:
    """Keys that others can read, that are gone, or that do not belong to the trust root."""
    certificate = home.keys / "certificate.pem"
    certificate.chmod(0o644)
    assert health(home)["key certificate"][0] is Health.BROKEN
    certificate.unlink()
    assert health(home)["key certificate"][0] is Health.MISSING
    founding.create(tmp_path / "other", tmp_path / "other.json", issuer="test", now_unix_ms=NOW_MS)
    shutil.copy(tmp_path / "other" / "certificate.pem", certificate)
    certificate.chmod(0o600)
    found = health(home)["key certificate"]
    assert found[0] is Health.BROKEN
    assert "may not sign under this trust root" in found[1]
    home.keys.chmod(0o755)
    assert health(home)["key folder"][0] is Health.BROKEN


def test_the_log_and_its_key(fake: FakeEngine, home: Home, tmp_path: Path) -> None:
    """A log key of another home, a log whose files were lost, and one that is whole."""
    root = trust.load(home.trust_root)
    (origin,) = root.logs
    check, key_path = f"log {origin}", home.keys / founding.LOG_KEY_FILE
    assert health(home)[check][0] is Health.OK
    key = SigningKey.load(key_path, passphrase.path_of(home.keys))
    with LogWriter(home.log / origin, home.log_state / origin, origin, key) as writer:
        writer.append([b"one\n", b"two\n"])
    assert health(home)[check] == (Health.OK, f"2 entries in {home.log / origin}")
    tile = next(path for path in (home.log / origin / "tile" / "0").rglob("*") if path.is_file())
    tile.write_bytes(bytes(64))
    assert health(home)[check][0] is Health.BROKEN
    shutil.rmtree(home.log)
    assert health(home)[check][0] is Health.BROKEN
    founding.create(tmp_path / "other", tmp_path / "other.json", issuer="test", now_unix_ms=NOW_MS)
    shutil.copy(tmp_path / "other" / founding.LOG_KEY_FILE, key_path)
    key_path.chmod(0o600)
    assert health(home)["key log"] == (Health.BROKEN, "signs for no log of the trust root")


@pytest.mark.parametrize(("age_days", "expected"), [(0, Health.OK), (700, Health.WARN), (800, Health.BROKEN)])
def test_trust_root_expiry(
    fake: FakeEngine, home: Home, monkeypatch: pytest.MonkeyPatch, age_days: int, expected: Health
) -> None:
    """Two years valid: a warning in the last 60 days, broken afterwards."""
    home.trust_root.unlink()
    made_ms = time.time_ns() // 1_000_000 - age_days * 86_400_000
    phrase = passphrase.path_of(home.keys)
    founding.create(home.keys, home.trust_root, issuer="test", now_unix_ms=made_ms, passphrase_file=phrase)
    assert health(home)["trust root"][0] is expected


def test_a_damaged_trust_root_is_broken(fake: FakeEngine, home: Home) -> None:
    """Not a trust root at all."""
    home.trust_root.write_text("{}")
    assert health(home)["trust root"][0] is Health.BROKEN


def test_an_evidence_store_that_cannot_be_written(fake: FakeEngine, home: Home) -> None:
    """A file where its temporary folder should be."""
    shutil.rmtree(home.evidence / "tmp", ignore_errors=True)
    (home.evidence / "tmp").write_text("")
    assert health(home)["evidence store"][0] is Health.MISSING


def test_leftover_containers_are_listed_and_not_removed(fake: FakeEngine, home: Home, world: Any) -> None:
    """A container of an attempt that is over is a warning; one without an attempt's label is not ours."""
    label = {"assize.attempt": f"{world.try_id('fix-login')}/1"}
    fake.found = [
        {"Id": "c" * 64, "State": "exited", "Labels": label},
        {"Id": "d" * 64, "State": "running", "Labels": {}},
    ]
    assert health(home)["leftover containers"] == (Health.WARN, "cccccccccccc (exited)")
    assert len(fake.found) == 2


def test_a_clock_behind_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that went backwards since the newest event."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW_MS * 1_000_000)
    assert doctor_host.clock(NOW_MS + 60_000).health is Health.WARN
    assert doctor_host.clock(NOW_MS).health is Health.OK
    assert doctor_host.clock(None).health is Health.OK


def test_a_check_that_fails_unforeseen_is_a_finding(
    fake: FakeEngine, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor does not die of what it should report."""

    def fail(_home: Home) -> Any:
        raise RuntimeError("surprise")

    monkeypatch.setattr(doctor_home, "evidence", fail)
    assert health(home)["evidence store"] == (Health.BROKEN, "RuntimeError: surprise")
