"""Shards of the log in use: the roll-over, a screening in mid-flight, two processes, a crash, lost folders.

Rules: certificates.md 3.5 (rotation, log key loss), issue 5 deliverable 3 (yearly shards).
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import bundle, founding, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.errors import SigningRefusedError
from orchestrator.certificates.logbook import Logbook
from orchestrator.certificates.report import screening_text, try_text
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.log import entry
from orchestrator.log.errors import LogClosedError, LogConflictError, LogError, LogStateError
from orchestrator.log.files import Disk
from orchestrator.log.tiles import Tiles
from orchestrator.log.writer import LogWriter

ASSETS = Path(__file__).resolve().parents[2] / "assets"
NEXT = "assize.example/test-lab/log/2027"
YEARS: dict[str, Any] = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
IN_OLD = 4


class FastDisk(Disk):
    """Does not wait for the disk."""

    def _each(self, descriptors: list[int]) -> None:
        return


@pytest.fixture(scope="module")
def crash() -> ModuleType:
    """The disks of the log's own crash tests."""
    spec = importlib.util.spec_from_file_location("crash_disk", ASSETS / "log" / "crash_disk.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("crash_disk", module)
    spec.loader.exec_module(module)
    return module


class Year:
    """A lab at new year: a screening with four tries in the old shard and the rest for the new one."""

    def __init__(self, lab: Any, world: Any, folder: Path) -> None:
        self.lab, self.folder, self.shot = lab, folder, world.screening().usual()
        signed = [one.envelope for one, _ in self.shot.certificates]
        self.opening = self.shot.opening.envelope
        self.tries = signed[:IN_OLD] + [self.again(one) for one in signed[IN_OLD:]]
        self.summary = self.again(self.shot.summary().envelope)

    def again(self, envelope: bytes) -> bytes:
        """The same statement, signed with the key of the new shard."""
        signed: bytes = self.lab.resign(self.lab.payload_of(envelope), self.lab.key("second"))
        return signed

    def root(self, *, rolled: bool = True, final_size: int | None = None, new_key: str = "log") -> TrustRoot:
        """The trust root before or after the new shard was listed; with `final_size` the one after that."""
        lab = self.lab
        logs = [founding.log_entry(lab.ORIGIN, lab.key("log").public, final_size=final_size)]
        keys = [founding.key_entry(lab.key("cert").public, log=lab.ORIGIN, until_index=final_size, **YEARS)]
        if rolled:
            logs.append(founding.log_entry(NEXT, lab.key(new_key).public))
            keys.append(founding.key_entry(lab.key("second").public, log=NEXT, **YEARS))
        return trust.parse(lab.trust_root(logs=logs, keys=keys))

    def logbook(self, root: TrustRoot | None = None, key: str = "log", **more: Any) -> Logbook:
        """The logs of the home under a trust root; a new object is a new process."""
        more.setdefault("disk", FastDisk)
        checked = self.root() if root is None else root
        return Logbook(self.folder / "log", self.folder / "state", checked, lambda: self.lab.key(key), **more)

    def enter_old(self, count: int = IN_OLD) -> Logbook:
        """The old year: opening and the first tries."""
        old = self.logbook(self.root(rolled=False))
        assert [old.enter(one) for one in (self.opening, *self.tries[:count])] == list(range(count + 1))
        return old

    def pack(self, logbook: Logbook) -> bytes:
        """The screening bundle as the product writes it."""
        envelopes = [self.opening, *self.tries, self.summary]
        names = ["opening", *(f"{n:06d}" for n in range(1, len(self.tries) + 1)), "summary"]
        manifests = [one.manifest or b"" for one, _ in self.shot.certificates]
        bodies = [bundle.encode_try(e, m) for e, m in zip(self.tries, manifests, strict=True)]
        shared = bundle.ScreeningProofs.joined(names, logbook.prove(envelopes))
        return bundle.encode_screening(self.opening, bodies, self.summary, shared)

    def audit(self, origin: str = NEXT, root: TrustRoot | None = None) -> Any:
        return audit_log(self.folder / "log" / origin, root or self.root())


@pytest.fixture
def year(lab: Any, world: Any, tmp_path: Path) -> Year:
    return Year(lab, world, tmp_path)


def test_a_screening_over_new_year(year: Year, lab: Any) -> None:
    """Opening in the old shard, certificates in both: everything verifies, before and after the old one is
    recorded as closed, and the audit follows the link."""
    year.enter_old()
    new = year.logbook()
    assert [new.enter(one) for one in (*year.tries[IN_OLD:], year.summary)] == list(range(1, 8))
    first = Tiles(new.folder(NEXT), 8).entry(0)
    last = new.last(lab.ORIGIN)
    assert first == entry.shard_entry(last) and last.size == IN_OLD + 1
    raw = year.pack(new)
    closed = year.root(final_size=last.size)
    for root in (year.root(), closed):
        result = verify_screening_bundle(raw, root)
        assert (result.exit_code, result.reasons) == (0, ())
        shown = screening_text(result, root)
        assert f"7 entries of 8, {NEXT}; 5 entries of 5, {lab.ORIGIN}" in shown
        found = year.audit(root=root)
        assert (found.exit_code, found.size, found.read, found.unclosed) == (0, 8, 12, 0)
        assert found.earlier == ((lab.ORIGIN, 5),)
        assert year.audit(lab.ORIGIN, root).exit_code == 0
    proof = year.logbook(closed).prove([year.tries[0]])[0].encode()
    one = verify_try_bundle(
        bundle.encode_try(year.tries[0], year.shot.certificates[0][0].manifest, proof), closed
    )
    assert one.exit_code == 0 and f"index 1 of 5, {lab.ORIGIN}" in try_text(one, closed)


def test_the_old_shard_takes_nothing_more(year: Year, lab: Any, world: Any) -> None:
    """Once the link is there; what is in it keeps its index, also for who still has the older trust root."""
    old = year.enter_old()
    with pytest.raises(LogError, match="not closed"):
        year.logbook().last(lab.ORIGIN)
    head = year.logbook().begin(NEXT)
    assert (head.size, head.origin) == (1, NEXT) and year.logbook().begin(NEXT) == head
    late = world.screening("late").opening.envelope
    with pytest.raises(SigningRefusedError, match="closed"):
        year.logbook().enter(late)
    assert year.logbook().enter(year.tries[2]) == 3
    with pytest.raises(SigningRefusedError, match="closed"):
        old.enter(late)  # a process that is at work since before the roll-over, with the older trust root
    assert old.enter(year.tries[2]) == 3
    state = year.folder / "state" / lab.ORIGIN
    with LogWriter(old.folder(lab.ORIGIN), state, lab.ORIGIN, lab.key("log"), disk=FastDisk()) as writer:
        with pytest.raises(LogClosedError):
            writer.append([entry.statement_entry(b"", "0" * 32, bytes(64), _place(1))])
        with pytest.raises(LogStateError, match="another than"):
            writer.end("assize.example/test-lab/log/2028")
    assert year.audit().exit_code == 0
    (state / "closed").unlink()  # what a lab could do all the same shows
    old.enter(late)
    assert "shard-link" in year.audit().reasons
    with pytest.raises(LogStateError, match="does not begin with the last checkpoint"):
        year.logbook().enter(year.tries[-1])


def test_no_try_is_certified_in_two_shards(year: Year, lab: Any) -> None:
    """Logged in the old year, killed before the ledger knew, signed again in the new one: one stands."""
    year.enter_old()
    with pytest.raises(LogConflictError, match=r"is in the log .*2026 already") as caught:
        year.logbook().enter(year.again(year.tries[1]))
    assert year.logbook().statement(caught.value.held) == year.tries[1]
    new = year.logbook()
    new.enter(year.tries[IN_OLD])
    with pytest.raises(LogConflictError):
        new.enter(year.again(year.tries[1]))
    assert new.enter(year.tries[IN_OLD]) == 1
    assert year.audit().exit_code == 0


def test_a_lost_log_key(year: Year, lab: Any) -> None:
    """The new shard has a new key: the old one is linked at the size that the trust root says, or not."""
    year.enter_old()
    with pytest.raises(LogStateError, match="does not say where it ended"):
        year.logbook(year.root(new_key="fresh log"), "fresh log").begin(NEXT)
    for size in (IN_OLD, IN_OLD + 2):
        wrong = year.root(final_size=size, new_key="fresh log")
        with pytest.raises(LogStateError, match="ended at"):
            year.logbook(wrong, "fresh log").begin(NEXT)
    root = year.root(final_size=IN_OLD + 1, new_key="fresh log")
    new = year.logbook(root, "fresh log")
    assert [new.enter(one) for one in (*year.tries[IN_OLD:], year.summary)] == list(range(1, 8))
    assert verify_screening_bundle(year.pack(new), root).exit_code == 0
    assert year.audit(root=root).exit_code == 0


def test_a_stop_at_every_step_of_the_roll_over(
    year: Year, lab: Any, crash: ModuleType, tmp_path: Path
) -> None:
    """Killed, or killed with all that was not synced lost: again, and there is one link to the last head."""
    year.enter_old()
    shutil.copytree(tmp_path / "log", tmp_path / "before" / "log")
    shutil.copytree(tmp_path / "state", tmp_path / "before" / "state")
    counting = crash.CountingDisk()
    year.logbook(disk=lambda: counting).enter(year.tries[IN_OLD])
    assert counting.count > 30
    for kind in (crash.CountingDisk, crash.LossyDisk):
        for last in range(1, counting.count + 1):
            for name in ("log", "state"):
                shutil.rmtree(tmp_path / name)
                shutil.copytree(tmp_path / "before" / name, tmp_path / name)
            disk = kind(last)
            with pytest.raises(crash.Killed):
                year.logbook(disk=lambda disk=disk: disk).enter(year.tries[IN_OLD])
            disk.abandon()
            if kind is crash.LossyDisk:
                disk.lose_power()
            new = year.logbook()
            assert new.enter(year.tries[IN_OLD]) == 1
            found = year.audit()
            assert (found.exit_code, found.size, found.earlier[0][1]) == (0, 2, IN_OLD + 1)
            left = [path.name for path in (tmp_path / "log").rglob("*") if path.name.endswith("new")]
            assert left == [], "a half-written file is published"


def test_the_roll_over_against_a_writer_of_the_old_shard(year: Year, lab: Any, world: Any) -> None:
    """Many processes at once: every entry is in one shard, and the link is to the very last of the old."""
    year.enter_old(0)
    others = [world.screening(f"other {number}").opening.envelope for number in range(12)]
    refused: list[bytes] = []

    def write_old(part: list[bytes]) -> None:
        logbook = year.logbook()
        for envelope in part:
            try:
                logbook.enter(envelope)
            except SigningRefusedError:
                refused.append(envelope)

    workers = [threading.Thread(target=write_old, args=(others[at::3],)) for at in range(3)]
    workers.append(threading.Thread(target=lambda: year.logbook().begin(NEXT)))
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    found = year.audit()
    assert found.reasons == () and found.size == 1
    assert found.earlier[0][1] == 1 + len(others) - len(refused)


def test_two_processes_share_a_log(year: Year, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log stays open between entries, without its lock: only what others wrote is read again."""
    read: list[int] = []
    entries = Tiles.entries

    def counted(self: Tiles, number: int) -> list[bytes]:
        read.append(number)
        return entries(self, number)

    one, two = year.logbook(), year.logbook()
    fill = LogWriter(
        one.folder(lab.ORIGIN),
        year.folder / "state" / lab.ORIGIN,
        lab.ORIGIN,
        lab.key("log"),
        disk=FastDisk(),
    )
    fill.append([entry.statement_entry(b"%d" % n, "0" * 32, bytes(64), _place(n)) for n in range(2000)])
    fill.close()
    monkeypatch.setattr(Tiles, "entries", counted)
    assert one.enter(year.opening) == 2000 and len(read) >= 8
    read.clear()
    assert one.enter(year.tries[0]) == 2001 and read == []
    assert two.enter(year.tries[1]) == 2002 and len(read) >= 8
    read.clear()
    assert one.enter(year.tries[2]) == 2003 and set(read) == {7}
    other = lab.resign(lab.changed(year.tries[2], "predicate", "time", "wallMs", 1), lab.key("cert"))
    with pytest.raises(LogConflictError):
        two.enter(other)
    assert two.enter(year.tries[3]) == 2004


def _place(number: int) -> entry.Position:
    return entry.Position("01JAA00000000000000000000Z", f"filler-{number}", 1, 1)


Damage = Callable[[Path, str], object]


def _lose_log(home: Path, origin: str) -> None:
    shutil.rmtree(home / "log" / origin)


def _lose_record(home: Path, origin: str) -> None:
    shutil.rmtree(home / "state" / origin)


def _lose_both(home: Path, origin: str) -> None:
    _lose_log(home, origin)
    _lose_record(home, origin)


def _old_copy(home: Path, origin: str) -> None:
    _lose_both(home, origin)
    for name in ("log", "state"):
        shutil.copytree(home / "copy" / name / origin, home / name / origin)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_lose_log, "damaged|last signed"),
        (_lose_record, "missing"),
        (_lose_both, "is gone"),
        (_old_copy, "has lost entries"),
    ],
    ids=["log", "record", "both", "old-copy-of-both"],
)
@pytest.mark.parametrize("running", [False, True], ids=["new-process", "running-process"])
def test_a_lost_log_is_not_begun_again(
    running: bool, damage: Damage, told: str, year: Year, lab: Any
) -> None:
    """The ledger knows what was certified: a log without it would show others another history."""
    year.enter_old(2)
    for name in ("log", "state"):
        shutil.copytree(year.folder / name, year.folder / "copy" / name)
    stored = year.tries[3]
    root = year.root(rolled=False)
    logbook = year.logbook(root, stored=lambda: stored)
    with pytest.raises(LogStateError, match="has lost entries"):
        logbook.enter(year.tries[2])
    stored = year.tries[1]
    assert logbook.enter(year.tries[2]) == 3
    stored = year.tries[2]
    damage(year.folder, lab.ORIGIN)
    again = logbook if running else year.logbook(root, stored=lambda: stored)
    with pytest.raises(LogStateError, match=told if not running else "."):
        again.enter(year.tries[3])
    if damage in (_lose_log, _lose_both):
        assert not (year.folder / "log" / lab.ORIGIN / "checkpoint").exists()
    with pytest.raises(LogStateError):
        year.logbook(root, stored=lambda: stored).enter(year.tries[3])


def test_the_earlier_shard_must_be_there(year: Year, lab: Any) -> None:
    """What a shard goes on from is part of what it commits to."""
    year.enter_old()
    year.logbook().begin(NEXT)
    shutil.move(year.folder / "log" / lab.ORIGIN, year.folder / "elsewhere")
    with pytest.raises(LogStateError, match=r"goes on from .*2026"):
        year.logbook().enter(year.tries[-1])
