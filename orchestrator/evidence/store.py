"""Content-addressed files: `sha256/ab/<62 hex>`; everything is hashed while it is captured.

Withheld files (hidden tests, answer keys) lie apart under `withheld/`, so that `sha256/` can be published
as it stands. A blob appears under its name by an atomic rename and is never changed afterwards.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from orchestrator.evidence.errors import (
    EvidenceAlteredError,
    EvidenceError,
    EvidenceLimitError,
    EvidenceMissingError,
)

CHUNK_BYTES: Final = 1 << 20
_PROBE_BYTES: Final = 16
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Blob:
    """A stored file: SHA-256 in 64 lower-case hex characters, size in bytes."""

    sha256: str
    size: int


class BlobWriter:
    """Hashes as it writes; `commit` files the blob under its digest, `abort` leaves nothing behind.

    As a context manager it commits on a clean exit and aborts on an exception; `blob` is set after commit.
    """

    def __init__(self, store: EvidenceStore, area: Path, fsync: bool) -> None:
        self._store = store
        self._area = area
        self._fsync = fsync
        self._hash = hashlib.sha256()
        self._size = 0
        self._path = store.temporary_path()
        self._file: BinaryIO | None = self._path.open("xb")
        self.blob: Blob | None = None

    def write(self, data: bytes) -> int:
        """Append `data`; returns the number of bytes taken (always all of them)."""
        if self._file is None:
            raise EvidenceError("this evidence writer is already closed")
        try:
            self._file.write(data)
        except OSError as error:
            raise self._store.unwritable(error) from error
        self._hash.update(data)
        self._size += len(data)
        return len(data)

    def commit(self) -> Blob:
        """Close the file and move it to its content address."""
        if self._file is None:
            raise EvidenceError("this evidence writer is already closed")
        blob = Blob(self._hash.hexdigest(), self._size)
        target = address(self._area, blob.sha256)
        try:
            if self._fsync:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            self._move(target)
        except OSError as error:
            raise self._store.unwritable(error) from error
        self.blob = blob
        return blob

    def _move(self, target: Path) -> None:
        try:
            self._path.rename(target)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._path.rename(target)

    def abort(self) -> None:
        """Forget everything written so far."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
        if self.blob is None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None and self._file is not None:
            self.commit()
        else:
            self.abort()


def address(area: Path, sha256: str) -> Path:
    """Where a blob lies under `area`; raises `EvidenceError` for anything that is not a digest."""
    if not _DIGEST.fullmatch(sha256):
        raise EvidenceError(f"{sha256[:80]!r} is not a SHA-256 digest")
    return area / sha256[:2] / sha256[2:]


class Archive(Protocol):
    """Files by their path below a store's folder, where other hosts can have them; nothing is trusted."""

    @property
    def url(self) -> str:
        """Its name, for people."""

    def keep(self, name: str, path: Path) -> None:
        """Keep a file unless it is there; raises `EvidenceError`."""

    def fetch(self, name: str, path: Path) -> bool:
        """Write it to the new file `path`; False when there is none. Raises `EvidenceError`, `OSError`."""


class EvidenceStore:
    """One folder of evidence, and the archive behind it if there is one. Many processes may use both at once.

    Errors of the file system while writing become `EvidenceError`, so that a full disk is one typed
    failure for the caller.
    """

    def __init__(self, root: Path, *, fsync: bool = False, archive: Archive | None = None) -> None:
        self.root = root
        self.archive = archive
        self._fsync = fsync
        self._blobs = root / "sha256"
        self._withheld = root / "withheld"
        self._temporary = root / "tmp"

    def temporary_path(self) -> Path:
        """A fresh path on the same file system, outside the published folders."""
        self._temporary.mkdir(parents=True, exist_ok=True)
        return self._temporary / os.urandom(16).hex()

    def writer(self, *, withheld: bool = False) -> BlobWriter:
        """A writer for one blob that is hashed as it is captured."""
        area = self._withheld / "sha256" if withheld else self._blobs
        try:
            return BlobWriter(self, area, self._fsync)
        except OSError as error:
            raise self.unwritable(error) from error

    def unwritable(self, error: OSError) -> EvidenceError:
        """The typed error for a file system that refuses evidence."""
        return EvidenceError(f"evidence cannot be written to {self.root}: {error.strerror or error}")

    def put_bytes(self, data: bytes, *, withheld: bool = False) -> Blob:
        """Store `data`; storing the same bytes again changes nothing."""
        return self.put_stream((data,), withheld=withheld)

    def put_stream(self, chunks: Iterable[bytes], *, withheld: bool = False) -> Blob:
        """Store the concatenation of `chunks` without holding it in memory."""
        writer = self.writer(withheld=withheld)
        try:
            for chunk in chunks:
                writer.write(chunk)
            return writer.commit()
        finally:
            writer.abort()

    def path(self, sha256: str, *, withheld: bool = False) -> Path:
        """Where the blob lies (whether or not it is there)."""
        return address(self._withheld / "sha256" if withheld else self._blobs, sha256)

    def open(self, sha256: str, *, withheld: bool = False) -> BinaryIO:
        """The blob for reading, fetched if it is not here; unverified. Raises `EvidenceMissingError`."""
        path = self.path(sha256, withheld=withheld)
        try:
            return path.open("rb")
        except FileNotFoundError:
            if not self._fetch(path, sha256):
                where = f"{self.root}" if self.archive is None else f"{self.root} nor in {self.archive.url}"
                raise EvidenceMissingError(f"evidence {sha256[:12]} is not in the store {where}") from None
            return path.open("rb")
        except OSError as error:
            raise EvidenceError(f"evidence {sha256[:12]} cannot be read: {error.strerror}") from error

    def _fetch(self, target: Path, sha256: str) -> bool:
        """Take a blob from the archive; it appears in its place only if it has its digest."""
        with self._fetched(target) as temporary:
            if temporary is None or self.archive is None:
                return False
            with temporary.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != sha256:
                raise EvidenceAlteredError(f"evidence {sha256[:12]} was altered in {self.archive.url}")
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.rename(target)
        return True

    @contextmanager
    def _fetched(self, target: Path) -> Iterator[Path | None]:
        """A temporary file with what the archive has for `target`; None where it has nothing."""
        if self.archive is None:
            yield None  # and nothing is written: a store may be read where nobody may write
            return
        temporary = None
        try:
            temporary = self.temporary_path()
            name = target.relative_to(self.root).as_posix()
            yield temporary if self.archive.fetch(name, temporary) else None
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def read(self, sha256: str, limit_bytes: int, *, withheld: bool = False) -> bytes:
        """The blob's bytes, verified against their digest; at most `limit_bytes` long."""
        with self.open(sha256, withheld=withheld) as file:
            data = file.read(limit_bytes + 1)
        if len(data) > limit_bytes:
            raise EvidenceLimitError(f"evidence {sha256[:12]} is larger than {limit_bytes} bytes")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise EvidenceAlteredError(f"evidence {sha256[:12]} was altered in the store")
        return data

    def verify(self, sha256: str, *, withheld: bool = False) -> Blob:
        """Hash the blob again; raises `EvidenceMissingError` or `EvidenceAlteredError`."""
        blob, _ = self.digests(sha256, b"", withheld=withheld)
        return blob

    def digests(self, sha256: str, salt: bytes, *, withheld: bool = False) -> tuple[Blob, str]:
        """The verified blob and SHA-256(salt || bytes), in one pass over the file."""
        plain, salted, size = hashlib.sha256(), hashlib.sha256(salt), 0
        with self.open(sha256, withheld=withheld) as file:
            while chunk := file.read(CHUNK_BYTES):
                plain.update(chunk)
                if salt:
                    salted.update(chunk)
                size += len(chunk)
        if plain.hexdigest() != sha256:
            raise EvidenceAlteredError(f"evidence {sha256[:12]} was altered in the store")
        return Blob(sha256, size), salted.hexdigest() if salt else sha256

    def write_side_file(self, manifest_digest: str, data: bytes) -> None:
        """Keep the salts of a manifest's withheld files, readable by the owner only."""
        target = self.side_file(manifest_digest)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = self.temporary_path()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.rename(target)

    def side_file(self, manifest_digest: str) -> Path:
        """Where the salts of a manifest's withheld files are kept; never published."""
        if not _DIGEST.fullmatch(manifest_digest):
            raise EvidenceError(f"{manifest_digest[:80]!r} is not a SHA-256 digest")
        return self._withheld / f"{manifest_digest}.json"

    def read_side_file(self, manifest_digest: str) -> bytes | None:
        """What `write_side_file` kept; None where there is nothing.

        Nothing but the manifest can tell whether it is right, so what comes from the archive is not kept.
        """
        path = self.side_file(manifest_digest)
        if path.exists():
            return path.read_bytes()
        with self._fetched(path) as temporary:
            return None if temporary is None else temporary.read_bytes()

    def probe(self) -> None:
        """Keep a small file in the archive and take it back; raises `EvidenceError`. Nothing without one."""
        if self.archive is None:
            return
        sent, content = self.temporary_path(), os.urandom(_PROBE_BYTES)
        try:
            sent.write_bytes(content)  # another one each time, so that it has to be taken
            self.archive.keep(f"probe/{content.hex()[0]}", sent)
            with self._fetched(self.root / "probe" / content.hex()[0]) as back:
                if back is None or back.read_bytes() != content:
                    raise EvidenceError(f"{self.archive.url} does not give back what it was given")
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            sent.unlink(missing_ok=True)

    def share(self, paths: Iterable[Path]) -> None:
        """Have `paths` in the archive afterwards; nothing without one. Raises `EvidenceError`."""
        if self.archive is not None:
            for path in paths:
                self.archive.keep(path.relative_to(self.root).as_posix(), path)

    def sync(self, paths: Iterable[Path]) -> None:
        """Force `paths` and the folders that name them to the disk (once per attempt, not per file)."""
        folders: set[Path] = set()
        for path in paths:
            _fsync(path)
            folders.add(path.parent)
        for folder in folders | {folder.parent for folder in folders}:
            _fsync(folder)

    def sweep_temporary(self, older_than_unix_s: float) -> int:
        """Remove temporary files of writers that died before `older_than_unix_s`; returns how many."""
        removed = 0
        if self._temporary.is_dir():
            for path in self._temporary.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < older_than_unix_s:
                        path.unlink()
                        removed += 1
        return removed


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
