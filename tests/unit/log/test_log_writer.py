"""The writer's promises apart from crashes, and what readers, witnesses and auditors get from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.log import keys, tiles
from orchestrator.log.audit import audit
from orchestrator.log.checkpoint import LogKey, log_key, open_checkpoint
from orchestrator.log.entry import shard_entry, shard_origin
from orchestrator.log.errors import LogBusyError, LogConflictError, LogError, LogStateError
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import LogVerifier
from orchestrator.log.reader import LogReader
from orchestrator.log.tiles import MAX_ENTRY_BYTES
from orchestrator.log.witness import parse_policy
from orchestrator.log.writer import LogWriter
from orchestrator.verification.errors import VerificationError


@pytest.fixture
def make(lab: ModuleType, tmp_path: Path) -> Any:
    """Opens a writer in the test's folder."""

    def open_writer(**changes: Any) -> LogWriter:
        values = {
            "folder": tmp_path / "log",
            "state": tmp_path / "state",
            "origin": lab.ORIGIN,
            "key": lab.signing_key("log"),
            "disk": lab.FastDisk(),
        }
        return LogWriter(**{**values, **changes})

    return open_writer


def verifier_of(lab: ModuleType) -> LogVerifier:
    return LogVerifier(log_key(lab.ORIGIN, lab.signing_key("log").public))


def test_append_prove_verify(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """What is appended can be proven from the published files, by anyone with the log's key."""
    items, verifier = lab.entries(600), verifier_of(lab)
    with make() as writer:
        assert writer.head.size == 0
        assert writer.append([]).indexes == ()
        first = writer.append(items[:40])
        assert first.indexes == tuple(range(40))
        old = writer.head
        assert writer.append(items[40:]).indexes == tuple(range(40, 600))
        reader = LogReader(tmp_path / "log", verifier)
        for index in (0, 39, 40, 255, 256, 599):
            logged = verifier.check(reader.prove(index).encode(), items[index])
            assert (logged.index, logged.checkpoint) == (index, writer.head)
        assert reader.prove_consistency(old).old_size == 40
        earlier = LogReader(tmp_path / "log", verifier, first.checkpoint)
        assert verifier.check(earlier.prove(7), items[7]).checkpoint.size == 40
        with pytest.raises(VerificationError, match="inclusion"):
            reader.prove(600)
    assert audit(tmp_path / "log", verifier, old).findings == ()


def test_an_entry_has_one_place(make: Any, lab: ModuleType) -> None:
    """Again in the same batch, later, or after opening again: the same index, the log does not grow."""
    items = lab.entries(300)
    with make() as writer:
        assert writer.append([items[0], items[1], items[0]]).indexes == (0, 1, 0)
        writer.append(items[2:])
        note = writer.checkpoint
        assert writer.append([items[299], items[5]]).indexes == (299, 5)
        assert writer.checkpoint == note
    with make() as writer:
        assert writer.append([items[5], items[299], lab.entry("new")]).indexes == (5, 299, 300)


def test_a_key_has_one_entry(make: Any, lab: ModuleType) -> None:
    """The same try with another outcome is refused as a whole batch, and nothing of it is appended."""
    other = lab.entry("task-001", says="failed")
    with make() as writer:
        writer.append(lab.entries(300))
        for batch in ([lab.entry("new"), other], [lab.entry("x"), lab.entry("x", says="failed")]):
            with pytest.raises(LogConflictError, match="another entry"):
                writer.append(batch)
        assert writer.head.size == 300
        assert writer.append([lab.entry("new")]).indexes == (300,)
        with pytest.raises(LogConflictError, match=r"task-001 1 1"):
            writer.append([other])


@pytest.mark.parametrize("raw", [b"", b"no line feed", b"\n" * (MAX_ENTRY_BYTES + 1)])
def test_impossible_entries(raw: bytes, make: Any, lab: ModuleType) -> None:
    """Nothing that cannot be read back is appended, and the writer goes on."""
    with make() as writer:
        with pytest.raises(LogError):
            writer.append([lab.entry("good"), raw])
        assert writer.append([lab.entry("good")]).indexes == (0,)


def test_one_writer_at_a_time(make: Any, tmp_path: Path) -> None:
    """The lock is on the log itself, whatever state folder a second writer has."""
    with make(), pytest.raises(LogBusyError):
        make(state=tmp_path / "another state")
    make().close()


def test_a_closed_writer_does_not_write(make: Any, lab: ModuleType) -> None:
    """Another process may hold the lock by then."""
    writer = make()
    writer.close()
    with pytest.raises(LogError, match="closed"):
        writer.append([lab.entry("late")])
    with pytest.raises(LogError):
        writer.attach([])


def test_an_old_copy_is_not_signed_on(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """A log restored from a backup would fork: the record of what was signed says so."""
    items = lab.entries(20)
    with make() as writer:
        writer.append(items[:5])
    shutil.copytree(tmp_path / "log", tmp_path / "backup")
    with make() as writer:
        writer.append(items[5:10])
    shutil.rmtree(tmp_path / "log")
    shutil.copytree(tmp_path / "backup", tmp_path / "log")
    with pytest.raises(LogStateError):
        make()


def test_an_old_record_is_not_signed_on(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """Neither is a record that is older than the log, or none."""
    record = tmp_path / "state" / "signed"
    with make() as writer:
        old = record.read_bytes()
        writer.append(lab.entries(3))
    new = record.read_bytes()
    record.write_bytes(old)
    with pytest.raises(LogStateError, match="old copy"):
        make()
    record.unlink()
    with pytest.raises(LogStateError, match="missing"):
        make()
    record.write_bytes(new)
    make().close()


def test_a_size_is_never_signed_with_two_roots(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """An intent whose tiles are not those on disk is refused, not replaced."""
    with make() as writer:
        writer.append(lab.entries(5))
        head = writer.head
    record = tmp_path / "state" / "signed"
    for change in ({"root": bytes(32)}, {"size": 6}, {"size": 6, "root": bytes(32)}):
        values = {"size": head.size, "root": head.root, **change}
        record.write_bytes(type(head)(head.origin, **values).body())
        with pytest.raises(LogStateError):
            make()


@pytest.mark.parametrize("path", ["tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44"])
def test_damaged_files_are_not_written_on(path: str, make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """The writer opens only what gives the signed root and can be read."""
    with make() as writer:
        writer.append(lab.entries(300))
    raw = (tmp_path / "log" / path).read_bytes()
    (tmp_path / "log" / path).write_bytes(raw[:-33])
    with pytest.raises(LogStateError):
        make()


def test_another_key_does_not_take_over(make: Any, lab: ModuleType) -> None:
    """A log is signed by its own key only."""
    make().close()
    with pytest.raises(LogStateError, match="checkpoint-unsigned"):
        make(key=lab.signing_key("foreign"))


def test_a_signer_that_fails_is_asked_again(make: Any, lab: ModuleType) -> None:
    """A key out of reach stops the writer; opening again signs the very head that was meant."""

    class Absent:
        public = lab.signing_key("log").public

        def sign(self, message: bytes) -> bytes:
            raise OSError("the key is out of reach")

    make().close()
    with make(key=Absent()) as writer:
        with pytest.raises(LogError, match="out of reach"):
            writer.append(lab.entries(4))
        with pytest.raises(LogError):
            writer.append(lab.entries(5))
    with make() as writer:
        assert writer.head == lab.Log(lab.entries(4)).head()


def test_cosignatures_are_published(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """Ed25519 and ML-DSA-44 witnesses can both be needed, and the quorum has a time."""
    one, two = lab.Witness("witness.example/w1"), lab.PostQuantumWitness("witness.example/w1")
    names = f"witness w1 {one.key.vkey}\nwitness w2 {two.key.vkey}\ngroup both all w1 w2\nquorum both\n"
    log = LogKey.parse(lab.Log([]).vkey)
    verifier = LogVerifier(log, parse_policy(names.encode()))
    with make() as writer:
        writer.append(lab.entries(3))
        lines = [one.cosign(writer.head), two.cosign(writer.head, lab.NOON + 60)]
        writer.attach(lines[:1])
        with pytest.raises(VerificationError, match="quorum"):
            verifier.check(LogReader(tmp_path / "log", verifier).prove(1), lab.entries(3)[1])
        writer.attach(lines)
        logged = verifier.check(LogReader(tmp_path / "log", verifier).prove(1), lab.entries(3)[1])
        assert logged.witnessing.times == {"w1": lab.NOON, "w2": lab.NOON + 60}
        assert logged.witnessing.quorum_at == lab.NOON + 60 and logged.notes == ()
        assert len(open_checkpoint(writer.checkpoint, log).note.signatures) == 3
        with pytest.raises(LogError, match="at most"):
            writer.attach([one.cosign(writer.head, lab.NOON + second) for second in range(1, 32)])
    with make() as writer:
        assert len(open_checkpoint(writer.checkpoint, log).note.signatures) == 3


def test_post_quantum_cosignature_binds_name_and_log(lab: ModuleType) -> None:
    """A cosignature of ML-DSA-44 under another name, time, origin, size or root is none."""
    from orchestrator.log.witness import cosignature_time

    head, key = lab.Log(lab.entries(3)).head(), lab.PostQuantumWitness("witness.example/w2")
    blob = key.cosign(head).blob
    assert cosignature_time(key.key, blob, head) == lab.NOON
    for change in ({"origin": "other"}, {"size": 4}, {"root": bytes(32)}):
        values = {"origin": head.origin, "size": head.size, "root": head.root, **change}
        assert cosignature_time(key.key, blob, type(head)(**values)) is None
    other = type(key.key)("witness.example/w3", key.key.kind, key.key.raw)
    assert cosignature_time(other, blob, head) is None
    assert cosignature_time(key.key, b"\x80" + blob[1:], head) is None
    assert cosignature_time(key.key, blob[:-1], head) is None


def test_a_new_shard_commits_to_the_old_one(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """Yearly shards: another origin, another folder, and the first entry is the old log's last head."""
    with make() as writer:
        writer.append(lab.entries(9))
        last = writer.head
    link = shard_entry(last)
    place = {"folder": tmp_path / "log-2027", "state": tmp_path / "state-2027"}
    with make(origin=shard_origin("assize.example/log", 2027), **place) as writer:
        assert writer.append([link, *lab.entries(2)]).indexes == (0, 1, 2)
        with pytest.raises(LogConflictError):
            writer.append([shard_entry(lab.Log(lab.entries(8)).head())])
        assert writer.head.origin == "assize.example/log/2027"
    assert last.origin.encode() in link and b" -shard 0 0\n" in link


def test_damaged_tiles_make_no_proof(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """A reader verifies its own proofs before handing them out."""
    with make() as writer:
        writer.append(lab.entries(300))
    tile = tmp_path / "log" / "tile/0/000"
    raw = tile.read_bytes()
    tile.write_bytes(raw[:32] + bytes(32) + raw[64:])
    reader = LogReader(tmp_path / "log", verifier_of(lab))
    with pytest.raises(VerificationError, match="inclusion"):
        reader.prove(0)
    tile.write_bytes(raw[:-1])
    with pytest.raises(VerificationError, match="log-tile"):
        LogReader(tmp_path / "log", verifier_of(lab)).prove(0)
    tile.unlink()
    with pytest.raises(VerificationError, match="log-missing"):
        LogReader(tmp_path / "log", verifier_of(lab)).prove(0)


def test_memory_keeps_the_largest(lab: ModuleType, tmp_path: Path) -> None:
    """What was believed is remembered, per log; a damaged memory is no empty memory."""
    log, remembered = lab.Log(lab.entries(9)), CheckpointMemory(tmp_path / "seen")
    assert remembered.recall(log.origin) is None
    remembered.remember(log.head(5))
    remembered.remember(log.head(3))
    assert remembered.recall(log.origin) == log.head(5)
    other = lab.Log(lab.entries(2), origin="assize.example/log/2025")
    remembered.remember(other.head())
    assert remembered.recall(log.origin) == log.head(5)
    for path in (tmp_path / "seen").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(VerificationError, match="unreadable"):
        remembered.recall(log.origin)
    for path in (tmp_path / "seen").iterdir():
        path.write_bytes(lab.Log([], origin="third").head().body())
    with pytest.raises(VerificationError, match="another log"):
        remembered.recall(log.origin)


def test_key_index_confirms_and_forgets() -> None:
    """Thousands of keys through several growths; a refused batch leaves no trace; there is an end."""
    index = keys.KeyIndex()
    known = [b"key %d" % number for number in range(5000)]
    assert index.extend(known[:700], unseen=True) and index.extend(known[700:], unseen=True)
    assert not index.extend([b"new 1", b"new 2", known[3]], unseen=True)
    assert not index.extend([b"new 1", b"new 1"], unseen=True)
    assert list(index.candidates(b"new 1")) == [] and index.size == 5000
    assert all(number in index.candidates(key) for number, key in enumerate(known))
    index.size = keys.MAX_ENTRIES
    with pytest.raises(LogError, match="at most"):
        index.extend([b"one more"], unseen=True)


def test_a_real_disk(make: Any, lab: ModuleType, tmp_path: Path) -> None:
    """The same with real syncs, many files at once."""
    from orchestrator.log.files import Disk

    with make(disk=Disk()) as writer:
        writer.append(lab.entries(20 * tiles.WIDTH))
        head = writer.head
    assert audit(tmp_path / "log", verifier_of(lab)).checkpoint == head
