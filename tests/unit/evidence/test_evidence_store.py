"""Evidence is hashed as captured, filed by digest and never silently altered."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import AssizeError
from orchestrator.evidence.errors import (
    EvidenceAlteredError,
    EvidenceError,
    EvidenceLimitError,
    EvidenceMissingError,
)
from orchestrator.evidence.store import Blob, EvidenceStore


@pytest.fixture
def store(tmp_path: Path) -> EvidenceStore:
    return EvidenceStore(tmp_path / "evidence")


def test_blob_is_filed_under_its_digest(store: EvidenceStore) -> None:
    """sha256/ab/<62 hex>, and nothing else remains."""
    blob = store.put_bytes(b"hello")
    assert blob == Blob(hashlib.sha256(b"hello").hexdigest(), 5)
    assert store.path(blob.sha256).relative_to(store.root).as_posix() == (
        f"sha256/{blob.sha256[:2]}/{blob.sha256[2:]}"
    )
    assert store.read(blob.sha256, 5) == b"hello"
    assert store.verify(blob.sha256) == blob
    assert list((store.root / "tmp").iterdir()) == []


def test_same_bytes_twice_is_one_file(store: EvidenceStore) -> None:
    """Content addressing: a second put changes nothing."""
    assert store.put_bytes(b"x") == store.put_bytes(b"x")
    assert len([path for path in (store.root / "sha256").rglob("*") if path.is_file()]) == 1


@given(chunks=st.lists(st.binary(max_size=50), max_size=6))
def test_stream_equals_bytes(chunks: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hashing while writing gives the digest of the whole."""
    store = EvidenceStore(tmp_path_factory.mktemp("s"))
    whole = b"".join(chunks)
    assert store.put_stream(chunks) == Blob(hashlib.sha256(whole).hexdigest(), len(whole))


def test_writer_commits_or_leaves_nothing(store: EvidenceStore) -> None:
    """An exception inside the block leaves neither a blob nor a temporary file."""
    with store.writer() as writer:
        writer.write(b"a")
        writer.write(b"b")
    assert writer.blob is not None
    assert store.read(writer.blob.sha256, 10) == b"ab"
    with pytest.raises(RuntimeError), store.writer() as writer:
        writer.write(b"secret")
        raise RuntimeError
    assert writer.blob is None
    assert list((store.root / "tmp").iterdir()) == []
    with pytest.raises(EvidenceError, match="closed"):
        writer.write(b"more")
    with pytest.raises(EvidenceError, match="closed"):
        writer.commit()


def test_altered_missing_and_oversized_blobs(store: EvidenceStore) -> None:
    """Each has its own typed error under the one root."""
    blob = store.put_bytes(b"12345")
    with pytest.raises(EvidenceLimitError):
        store.read(blob.sha256, 4)
    store.path(blob.sha256).write_bytes(b"12346")
    reads: tuple[Callable[[], object], ...] = (
        lambda: store.read(blob.sha256, 10),
        lambda: store.verify(blob.sha256),
    )
    for read in reads:
        with pytest.raises(EvidenceAlteredError):
            read()
    with pytest.raises(EvidenceMissingError) as caught:
        store.open("0" * 64)
    assert issubclass(EvidenceMissingError, AssizeError)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_only_digests_are_addresses(store: EvidenceStore, name: str) -> None:
    """No path comes out of a store that was not made from a digest."""
    for find in (store.open, store.verify, store.side_file):
        with pytest.raises(EvidenceError, match="not a SHA-256 digest"):
            find(name)


def test_unwritable_store_is_a_typed_error(tmp_path: Path) -> None:
    """A file system that refuses is `EvidenceError`, which the worker records as evidence_unwritable."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EvidenceError, match="cannot be written"):
        EvidenceStore(tmp_path / "file").put_bytes(b"x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
def test_full_disk_is_a_typed_error(store: EvidenceStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC while writing becomes one typed failure."""
    monkeypatch.setattr(store, "temporary_path", lambda: FullPath("/dev/full"))
    with pytest.raises(EvidenceError, match="No space left"):
        store.put_bytes(b"x" * 100_000)


class FullPath(type(Path())):  # type: ignore[misc]
    """The full device, opened for writing without being created or removed."""

    def open(self, *_: object, **__: object) -> object:
        return Path.open(Path(self), "wb")

    def unlink(self, missing_ok: bool = False) -> None:
        """A device is not removed."""


def test_withheld_blobs_lie_apart(store: EvidenceStore) -> None:
    """`sha256/` can be published as it stands: what is withheld is not in it."""
    blob = store.put_bytes(b"hidden", withheld=True)
    assert not store.path(blob.sha256).exists()
    with pytest.raises(EvidenceMissingError):
        store.verify(blob.sha256)
    assert store.verify(blob.sha256, withheld=True) == blob
    salt = b"s" * 32
    found, salted = store.digests(blob.sha256, salt, withheld=True)
    assert (found, salted) == (blob, hashlib.sha256(salt + b"hidden").hexdigest())


def test_side_file_is_for_the_owner_only(store: EvidenceStore) -> None:
    """Salts are secret: 0600 in a 0700 folder."""
    store.write_side_file("a" * 64, b"{}")
    assert stat.S_IMODE(store.side_file("a" * 64).stat().st_mode) == 0o600


def test_dead_writers_are_swept(store: EvidenceStore) -> None:
    """Temporary files of killed writers go, those of living ones stay."""
    dead, alive = store.writer(), store.writer()
    old, young = sorted((store.root / "tmp").iterdir())
    os.utime(old, (1000, 1000))
    assert store.sweep_temporary(2000) == 1
    assert list((store.root / "tmp").iterdir()) == [young]
    for writer in (dead, alive):
        writer.abort()


def test_fsync_paths_write_the_same(tmp_path: Path) -> None:
    """The fsync option and `sync` change durability, not content."""
    store = EvidenceStore(tmp_path, fsync=True)
    blob = store.put_bytes(b"durable")
    store.sync([store.path(blob.sha256)])
    assert store.verify(blob.sha256) == blob
