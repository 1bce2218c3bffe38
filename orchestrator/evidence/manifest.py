"""The evidence manifest: what one attempt left behind, as canonical bytes with one digest.

A certificate's only subject is this digest. The manifest names attempt and try, so two attempts with
equal files still have different subjects and evidence cannot be moved between them. A withheld file is
listed with SHA-256(salt || bytes) only; the 32-byte salt stays in the store's side file.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from orchestrator import canonical
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.store import CHUNK_BYTES, Blob, EvidenceStore

MANIFEST_LIMIT_BYTES: Final = 256 * 1024
SALT_BYTES: Final = 32

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]


class Role(StrEnum):
    """What a file of evidence is."""

    TRANSCRIPT = "transcript"
    COMMAND_LOG = "command-log"
    DIFF = "diff"
    CHANGES = "changes"
    ARTIFACTS = "artifacts"
    GRADER_OUTPUT = "grader-output"
    METERING_LEDGER = "metering-ledger"
    TOOL_CALLS = "tool-calls"
    TRAJECTORY = "trajectory"
    AGENT_TRANSCRIPT = "agent-transcript"
    SANDBOX_REPORT = "sandbox-report"
    OBSERVATIONS = "observations"
    HIDDEN_TESTS = "hidden-tests"


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, populate_by_name=True
    )


class EvidenceFile(_Strict):
    """One file: relative path, role, size in bytes and exactly one of the two digests."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    role: Annotated[Role, Field(strict=False)]
    size: Annotated[int, Field(ge=0, le=canonical.MAX_INTEGER)]
    sha256: Digest | None = None
    salted_sha256: Digest | None = None

    @model_validator(mode="after")
    def _shape(self) -> EvidenceFile:
        if (self.sha256 is None) == (self.salted_sha256 is None):
            raise ValueError("exactly one of sha256 and saltedSha256")
        if not self.path.isprintable() or any(part in ("", ".", "..") for part in self.path.split("/")):
            raise ValueError("path must be relative, printable and without empty, . or .. parts")
        return self

    def as_data(self) -> dict[str, Any]:
        """The wire form, without the digest that is not there."""
        digest = {"sha256": self.sha256} if self.sha256 else {"saltedSha256": self.salted_sha256}
        return {"path": self.path, "role": self.role.value, "size": self.size, **digest}


class EvidenceManifest(_Strict):
    """All files of one attempt, sorted by path, every path once."""

    attempt_id: Ulid
    try_id: Ulid
    files: tuple[EvidenceFile, ...]

    @model_validator(mode="after")
    def _order(self) -> EvidenceManifest:
        paths = [file.path for file in self.files]
        if paths != sorted(set(paths)):
            raise ValueError("files must be sorted by path, every path once")
        return self

    def to_bytes(self) -> bytes:
        """Canonical bytes; their SHA-256 is the manifest's digest."""
        files = [file.as_data() for file in self.files]
        return canonical.encode({"attemptId": self.attempt_id, "tryId": self.try_id, "files": files})

    @classmethod
    def from_bytes(cls, raw: bytes) -> EvidenceManifest:
        """Parse canonical bytes; raises `EvidenceError` for anything else."""
        data = canonical.decode_strict(raw)
        if isinstance(data, dict) and isinstance(data.get("files"), list):
            data["files"] = tuple(data["files"])
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise EvidenceError(f"not an evidence manifest: {error.errors()[0]['msg']}") from None


class WithheldFile(_Strict):
    """The secret side of a withheld file: its salt (64 hex) and its plain digest."""

    salt: Digest
    sha256: Digest


def seal(
    manifest: EvidenceManifest,
    store: EvidenceStore,
    withheld: dict[str, WithheldFile] | None = None,
    *,
    sync: bool = False,
) -> str:
    """Store the manifest's canonical bytes and the salts of its withheld files; returns its digest.

    Before that every file is in the store's archive, if it has one; `sync` forces all of them to the disk.
    Raises `EvidenceError`, also when the salts given are not exactly those of the withheld files.
    """
    secret = withheld or {}
    hidden = {file.path for file in manifest.files if file.sha256 is None}
    if hidden != set(secret):
        raise EvidenceError("every withheld file needs its salt, and no other file has one")
    raw = manifest.to_bytes()
    if len(raw) > MANIFEST_LIMIT_BYTES:
        raise EvidenceError(f"the evidence manifest is larger than {MANIFEST_LIMIT_BYTES} bytes")
    digest = store.put_bytes(raw).sha256
    if secret:
        side = {path: {"salt": item.salt, "sha256": item.sha256} for path, item in secret.items()}
        store.write_side_file(digest, canonical.encode({"withheld": [{"path": p, **side[p]} for p in side]}))
    paths = [store.path(file.sha256) for file in manifest.files if file.sha256]
    paths += [store.path(item.sha256, withheld=True) for item in secret.values()]
    paths += [store.side_file(digest)] if secret else []
    paths.append(store.path(digest))
    if sync:
        store.sync(paths)
    store.share(paths)
    return digest


def read_withheld(store: EvidenceStore, manifest_digest: str) -> dict[str, WithheldFile]:
    """The salts of a manifest's withheld files by path; empty where this store does not hold them."""
    raw = store.read_side_file(manifest_digest)
    if raw is None:
        return {}
    data = canonical.decode_strict(raw)
    try:
        return {
            item["path"]: WithheldFile(salt=item["salt"], sha256=item["sha256"]) for item in data["withheld"]
        }
    except (KeyError, TypeError, ValidationError):
        raise EvidenceError(f"the salts of manifest {manifest_digest[:12]} cannot be read") from None


class ManifestBuilder:
    """Collects the files of one attempt and seals them."""

    def __init__(self, store: EvidenceStore, *, attempt_id: str, try_id: str) -> None:
        self._store = store
        self._attempt_id = attempt_id
        self._try_id = try_id
        self._files: dict[str, EvidenceFile] = {}
        self._withheld: dict[str, WithheldFile] = {}

    def _add(self, file: EvidenceFile) -> None:
        if file.path in self._files:
            raise EvidenceError(f"evidence file {file.path!r} was added twice")
        self._files[file.path] = file

    def add_blob(self, path: str, role: Role, blob: Blob) -> Blob:
        """List a blob that the store already holds."""
        self._add(EvidenceFile(path=path, role=role, size=blob.size, sha256=blob.sha256))
        return blob

    def add_bytes(self, path: str, role: Role, data: bytes) -> Blob:
        """Store `data` and list it."""
        return self.add_blob(path, role, self._store.put_bytes(data))

    def add_file(self, path: str, role: Role, source: Path) -> Blob:
        """Copy a file into the store and list it; raises `EvidenceError` when it cannot be read."""
        try:
            with source.open("rb") as file:
                return self.add_blob(
                    path, role, self._store.put_stream(iter(lambda: file.read(CHUNK_BYTES), b""))
                )
        except OSError as error:
            raise EvidenceError(f"evidence file {source.name} cannot be read: {error.strerror}") from error

    def withhold(self, path: str, role: Role, data: bytes) -> Blob:
        """Store `data` apart and list only its size and salted digest, under a fresh secret salt."""
        blob = self._store.put_bytes(data, withheld=True)
        salt = secrets.token_bytes(SALT_BYTES)
        _, salted = self._store.digests(blob.sha256, salt, withheld=True)
        self._add(EvidenceFile(path=path, role=role, size=blob.size, salted_sha256=salted))
        self._withheld[path] = WithheldFile(salt=salt.hex(), sha256=blob.sha256)
        return blob

    def seal(self, *, sync: bool = False) -> str:
        """Store the manifest and return its digest; see `seal`."""
        files = tuple(self._files[path] for path in sorted(self._files))
        manifest = EvidenceManifest(attempt_id=self._attempt_id, try_id=self._try_id, files=files)
        return seal(manifest, self._store, self._withheld, sync=sync)
