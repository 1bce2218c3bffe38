"""What a backup consists of, with a digest for every file: `manifest.json`, written last.

A folder without it is a backup that was never finished. The evidence is named, not copied, unless that was
asked for: it may be large, and its own names are its digests.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from orchestrator.backups.errors import BackupError

FILE: Final = "manifest.json"
_CHUNK_BYTES: Final = 1 << 20

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class File(_Strict):
    """One file of the backup: path below its folder, size in bytes, SHA-256."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    size: Annotated[int, Field(ge=0)]
    sha256: Digest


class Backup(_Strict):
    """The manifest. `manifests` are the evidence manifests that the ledger names; `counts` rows by table.

    `made_unix_ms` is taken from the ledger's clock before its copy was begun; log and evidence were read
    after it, so they are never older than the ledger.
    """

    schema_id: Literal["assize.backup/1"] = Field(alias="schema")
    made_unix_ms: int
    kind: Literal["sqlite", "postgresql"]
    server_major: int | None
    revision: str
    counts: dict[str, int]
    database: File
    files: list[File]
    evidence_folder: str
    evidence_copied: bool
    manifests: list[Digest]

    def write(self, folder: Path) -> None:
        """Write `manifest.json` into the folder."""
        text = self.model_dump_json(by_alias=True, indent=2) + "\n"
        (folder / FILE).write_text(text, encoding="utf-8")


def read(folder: Path) -> Backup:
    """The manifest of a finished backup, every file of it hashed again; `BackupError` otherwise."""
    try:
        raw = (folder / FILE).read_bytes()
    except OSError:
        raise BackupError(
            f"{folder} holds no finished backup", hint="`assize db backup DIR` makes one"
        ) from None
    try:
        backup = Backup.model_validate_json(raw)
    except ValidationError as error:
        raise BackupError(f"{folder / FILE} is no manifest: {error.errors()[0]['msg']}") from None
    for one in (backup.database, *backup.files):
        check(folder, one)
    return backup


def check(folder: Path, one: File) -> None:
    """Hash a file of the backup again; `BackupError` when it is not the one that was written."""
    path = folder / one.path
    if ".." in Path(one.path).parts or Path(one.path).is_absolute():
        raise BackupError(f"{one.path} lies outside of the backup")
    try:
        found = describe(folder, path)
    except OSError as error:
        raise BackupError(f"{path} of the backup cannot be read: {error.strerror}") from None
    if found != one:
        raise BackupError(
            f"{path} is not the file that was backed up", hint="use another copy of this backup"
        )


def describe(folder: Path, path: Path) -> File:
    """Path below `folder`, size and digest of a file as it is now."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return File(path=path.relative_to(folder).as_posix(), size=size, sha256=digest.hexdigest())
