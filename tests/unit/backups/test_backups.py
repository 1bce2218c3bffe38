"""A backup comes back whole or is refused, and whatever does not fit together afterwards is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.backups import making, manifest, programs, restoring
from orchestrator.backups.consistency import mismatches
from orchestrator.backups.errors import BackupError, TargetError
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import plan_stub, stub_order
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger, create_engine, sqlite_file
from orchestrator.ledger.migrate import check
from orchestrator.ledger.models import Base
from orchestrator.ledger.owners import register
from orchestrator.ledger.rules import missing_rules
from orchestrator.ledger.transitions import claim, queue, start
from orchestrator.screenings.installation import Installation
from tests.assets.certificates.certified_home import TASKS, TRIES, CertifiedHome, Sealed
from tests.unit.backups.conftest import Certified, Places

Keep = Callable[[Home, Home], None]


def rows(ledger: Ledger) -> dict[str, list[object]]:
    with ledger.reading() as connection:
        return {
            table.name: [
                tuple(row) for row in connection.execute(table.select().order_by(*table.primary_key))
            ]
            for table in Base.metadata.sorted_tables
        }


def back_up(certified: Certified, folder: Path, *, evidence: bool = True) -> manifest.Backup:
    ledger = certified.place.ledger()
    try:
        return making.make(certified.home, ledger, folder, with_evidence=evidence)
    finally:
        ledger.close()


def run_another(certified: Certified, *, certify: bool = True) -> str:
    """One more screening in the same home, certified or not."""
    installation = Installation.open(certified.place.use())
    try:
        screening = plan_stub(installation.ledger, TASKS, tries=TRIES, name="another")
        made = CertifiedHome(certified.home, certified.made.pack, screening)
        certifier = made.certifier(installation)
        callbacks = Callbacks(
            attempt=Sealed(installation.store),
            order_for=stub_order,
            certify=certifier.certify if certify else None,
        )
        if certify:
            from tests.assets.certificates.certified_home import _SPONSORS

            certifier.open(_SPONSORS)
        engine = LocalEngine(installation.ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test")
        engine.run([screening], 1)
        if certify:
            certifier.close()
    finally:
        installation.close()
    return screening


def found(certified: Certified) -> list[str]:
    ledger = certified.place.ledger()
    try:
        return [f"{one.check}: {one.message} -> {one.mend}" for one in mismatches(certified.home, ledger)]
    finally:
        ledger.close()


def test_a_backup_comes_back_whole(
    certified: Certified, places: Places, tmp_path: Path, keep_keys: Keep
) -> None:
    """Item 8: database, evidence and log restored elsewhere are the same, sound and fit together."""
    folder = tmp_path / "backup"
    made = back_up(certified, folder)
    ledger = certified.place.ledger()
    before = rows(ledger)
    ledger.close()
    assert made.counts == {name: len(kept) for name, kept in before.items()}
    assert len(made.manifests) == made.counts["evidence"] > 0

    new = places.new()
    keep_keys(certified.home, new.home)
    done = restoring.restore(new.use(), folder)
    assert done.left == 0 and done.put_back == len(made.files) > 0 and done.evidence > 0
    restored = new.ledger()
    assert rows(restored) == before
    assert check(restored) == []
    with restored.reading() as connection:
        assert missing_rules(connection) == []
    assert mismatches(new.home, restored) == []
    # It goes on: the next screening is certified in the restored log, and the history is continued.
    again = Certified(new, CertifiedHome(new.home, certified.made.pack, certified.made.screening))
    run_another(again)
    assert found(again) == []
    restored.close()


def test_a_backup_made_while_screening_fits_together(
    certified: Certified, places: Places, tmp_path: Path, keep_keys: Keep
) -> None:
    """A try that is certified during the backup is in both or in neither: the log stands still for it."""
    installation = Installation.open(certified.place.use())
    screening = plan_stub(installation.ledger, TASKS, tries=TRIES, name="during")
    certifier = CertifiedHome(certified.home, certified.made.pack, screening).certifier(installation)
    backups: list[Path] = []

    def certify(attempt_id: str) -> None:
        certifier.certify(attempt_id)
        backups.append(tmp_path / f"backup-{len(backups)}")
        making.make(certified.home, installation.ledger, backups[-1], with_evidence=True)

    from tests.assets.certificates.certified_home import _SPONSORS

    certifier.open(_SPONSORS)
    callbacks = Callbacks(attempt=Sealed(installation.store), order_for=stub_order, certify=certify)
    engine = LocalEngine(installation.ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test")
    engine.run([screening], 2)
    installation.close()
    for folder in backups[::2]:
        new = places.new()
        keep_keys(certified.home, new.home)
        shutil.rmtree(new.home.log_state, ignore_errors=True)
        restoring.restore(new.use(), folder)
        ledger = new.ledger()
        assert mismatches(new.home, ledger) == []
        ledger.close()


def test_damage_to_the_evidence_is_named(certified: Certified) -> None:
    """Every manifest is present and hashes to its name, with all its files."""
    assert found(certified) == []
    ledger = certified.place.ledger()
    with ledger.reading() as connection:
        digests = sorted(
            connection.scalars(
                Base.metadata.tables["evidence"]
                .select()
                .with_only_columns(Base.metadata.tables["evidence"].c.manifest_digest)
            )
        )
    ledger.close()
    store = certified.home.evidence / "sha256"
    (store / digests[0][:2] / digests[0][2:]).unlink()
    manifest_bytes = (store / digests[1][:2] / digests[1][2:]).read_bytes()
    blob = next(
        one["sha256"] for one in json.loads(manifest_bytes)["files"] if one["path"].endswith("stdout.txt")
    )
    (store / blob[:2] / blob[2:]).write_bytes(b"something else")
    told = found(certified)
    assert len(told) == 2
    assert any("is not in the store" in one for one in told)
    assert any("was altered" in one for one in told)
    assert all("restore the evidence store" in one for one in told)


def test_an_older_log_is_named(certified: Certified, tmp_path: Path) -> None:
    """The log is not older than the ledger: each certificate that it lacks is told."""
    old = tmp_path / "old-log"
    shutil.copytree(certified.home.log, old)
    run_another(certified)
    assert found(certified) == []
    shutil.rmtree(certified.home.log)
    shutil.copytree(old, certified.home.log)
    told = found(certified)
    assert len(told) == 7  # opening, four tries, one re-run, summary
    assert all("is not in the log" in one and "newest copy of the log" in one for one in told)
    shutil.rmtree(certified.home.log)
    assert any("its files are gone" in one for one in found(certified))


def test_an_older_ledger_is_named(
    certified: Certified, places: Places, tmp_path: Path, keep_keys: Keep
) -> None:
    """What the log has must never be run and certified a second time."""
    back_up(certified, tmp_path / "backup")
    screening = run_another(certified)
    new = places.new()
    shutil.copytree(certified.home.log, new.home.log)
    keep_keys(certified.home, new.home)
    done = restoring.restore(new.use(), tmp_path / "backup")
    assert done.left > 0, "a log that is there is kept"
    ledger = new.ledger()
    told = mismatches(new.home, ledger)
    ledger.close()
    assert len(told) == 7
    assert all(screening in one.message and "must not be run again" in one.mend for one in told)


def test_a_recorded_attempt_without_certificate_is_named(certified: Certified) -> None:
    """In a closed public screening; in an open one certifying simply goes on."""
    screening = run_another(certified, certify=False)
    told = found(certified)
    assert len(told) == 5
    assert all(screening in one and "has no certificate" in one for one in told)


def test_an_attempt_that_ran_during_the_backup_is_no_mismatch(certified: Certified) -> None:
    """Its worker is gone and its lease is over; the next run takes it over as it does after a crash."""
    ledger = Ledger(create_engine(certified.place.use().database_url), lambda _connection: 1_000_000)
    screening = plan_stub(ledger, ["x"], tries=1, name="live")
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    assert claim(ledger, screening, register(ledger).id, lease_ms=1) is not None
    ledger.close()
    assert found(certified) == []


def test_nothing_is_overwritten(certified: Certified, places: Places, tmp_path: Path) -> None:
    """A backup goes into a new folder, a restore into an empty database of its kind."""
    folder = tmp_path / "backup"
    back_up(certified, folder, evidence=False)
    with pytest.raises(TargetError, match="not an empty folder"):
        back_up(certified, folder)
    with pytest.raises(TargetError):
        restoring.restore(certified.place.use(), folder)
    assert found(certified) == []
    other = Home(tmp_path / "other")
    if places.kind == "postgresql":
        places.patch.setenv("ASSIZE_DATABASE_URL", f"sqlite:///{tmp_path / 'other.db'}")
        with pytest.raises(TargetError, match=r"of postgresql.*is sqlite"):
            restoring.restore(other, folder)


@pytest.mark.parametrize("victim", ["ledger", "log", "manifest", "missing"])
def test_a_damaged_backup_is_refused(
    certified: Certified, places: Places, tmp_path: Path, victim: str
) -> None:
    """Every file is hashed before anything is restored; nothing is left behind by the refusal."""
    folder = tmp_path / "backup"
    made = back_up(certified, folder, evidence=False)
    if victim == "manifest":
        (folder / manifest.FILE).write_text("{}")
    elif victim == "missing":
        (folder / manifest.FILE).unlink()
    else:
        path = folder / (made.database.path if victim == "ledger" else made.files[-1].path)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    new = places.new()
    with pytest.raises(BackupError):
        restoring.restore(new.use(), folder)
    database = sqlite_file(new.use().database_url)
    assert database is None or not database.exists()


def test_no_password_on_a_command_line() -> None:
    """The place of the database, password included, is told by the child's environment."""
    url = create_engine("postgresql://me:se%3Acret@db.example:6543/assize?sslmode=require").url
    told = programs.environment(url)
    assert (told["PGPASSWORD"], told["PGHOST"], told["PGPORT"]) == ("se:cret", "db.example", "6543")
    assert (told["PGUSER"], told["PGDATABASE"], told["PGSSLMODE"]) == ("me", "assize", "require")


def test_another_major_version_is_not_used() -> None:
    """A dump by another version is refused with the package to install."""
    with pytest.raises(BackupError, match=r"pg_dump of PostgreSQL 99") as caught:
        programs.find("pg_dump", 99)
    assert caught.value.hint == "apt-get install postgresql-client-99"


def test_status_reads_the_restored_ledger(certified: Certified, places: Places, tmp_path: Path) -> None:
    """The restored ledger answers as the old one did."""
    back_up(certified, tmp_path / "backup", evidence=False)
    new = places.new()
    restoring.restore(new.use(), tmp_path / "backup")
    ledger, old = new.ledger(), certified.place.ledger()
    assert queries.status(ledger, certified.made.screening) == queries.status(old, certified.made.screening)
    ledger.close()
    old.close()
