"""Evidence on the terminal: found by role, hashed again while it is read, made safe unless raw."""

from __future__ import annotations

import hashlib
import json
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from orchestrator.cli.output import cell, emit, safe, say
from orchestrator.errors import AssizeError, NotFoundError, UsageError
from orchestrator.evidence.archive import open_store
from orchestrator.evidence.errors import EvidenceAlteredError, EvidenceError, EvidenceMissingError
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceFile, EvidenceManifest, Role
from orchestrator.evidence.store import CHUNK_BYTES, EvidenceStore
from orchestrator.home import Home

SCHEMA: Final = "assize.try-evidence/1"
JSON_LIMIT_BYTES: Final = 16 << 20
_PRETTY_LIMIT_BYTES: Final = 1 << 20

_ROLES: Final[dict[str, tuple[Role, ...]]] = {
    "transcript": (Role.TRANSCRIPT, Role.COMMAND_LOG),
    "diff": (Role.DIFF,),
    "grader": (Role.GRADER_OUTPUT,),
    "observations": (Role.OBSERVATIONS,),
    "report": (Role.SANDBOX_REPORT,),
}


@dataclass(frozen=True)
class Wanted:
    """Which evidence to print: an option's roles, or one path."""

    option: str
    path: str | None = None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Wanted | None:
        """From the options of `assize try`; `UsageError` for more than one."""
        named = [name for name in _ROLES if asked[name]]
        if asked["file"] is not None:
            named.append("file")
        if len(named) > 1:
            raise UsageError(f"one file option at a time, not {' and '.join('--' + name for name in named)}")
        return cls(named[0], asked["file"]) if named else None

    def fits(self, file: EvidenceFile) -> bool:
        """Whether this is (one of) the evidence asked for."""
        return file.path == self.path if self.option == "file" else file.role in _ROLES[self.option]


@dataclass(frozen=True)
class Found:
    """The manifest of an attempt, or `problem`: why it cannot be shown."""

    store: EvidenceStore
    files: tuple[EvidenceFile, ...] = ()
    problem: str | None = None
    error: AssizeError | None = None

    def as_data(self) -> list[dict[str, Any]] | None:
        """The files as they stand in the manifest, None when it cannot be read."""
        if self.problem is not None:
            return None
        return [{**file.as_data(), "withheld": file.sha256 is None} for file in self.files]


def read_manifest(home: Home, digest: str | None) -> Found:
    """The evidence of an attempt by its manifest digest; never raises, `problem` says what is wrong."""
    store = open_store(home.evidence)
    if digest is None:
        return Found(store, problem="no evidence was recorded")
    try:
        manifest = EvidenceManifest.from_bytes(store.read(digest, MANIFEST_LIMIT_BYTES))
    except EvidenceMissingError as error:
        return Found(store, problem=f"its manifest is not in {store.root}", error=error)
    except AssizeError as error:
        return Found(store, problem=error.message, error=error)
    return Found(store, manifest.files)


def trouble_of(found: Found) -> str | None:
    """What the sandbox report says of an agent or a service that could not be started; None for nothing."""
    digests = [file.sha256 for file in found.files if file.role is Role.SANDBOX_REPORT and file.sha256]
    try:
        report = json.loads(found.store.read(digests[0], JSON_LIMIT_BYTES)) if digests else {}
    except (EvidenceError, ValueError):
        return None
    trouble = report.get("trouble") if isinstance(report, dict) else None
    return trouble if isinstance(trouble, str) else None


def print_files(found: Found, wanted: Wanted, place: str, *, raw: bool, as_json: bool) -> None:
    """Print the evidence asked for; raises `EvidenceError` when it is absent or altered."""
    if found.error is not None:
        raise found.error
    fitting = [file for file in found.files if wanted.fits(file)]
    if wanted.option == "transcript" and any(file.role is Role.TRANSCRIPT for file in fitting):
        fitting = [file for file in fitting if file.role is Role.TRANSCRIPT]
    if not fitting:
        what = cell(wanted.path or "") if wanted.option == "file" else f"{wanted.option} evidence"
        listed = ", ".join(file.path for file in found.files) or found.problem
        raise NotFoundError(f"{place} has no {what}", hint=f"it has: {listed}")
    hidden = [file.path for file in fitting if file.sha256 is None]
    if hidden:
        raise UsageError(f"{hidden[0]} of {place} is withheld: only its salted digest is published")
    if as_json:
        emit(SCHEMA, {"place": place, "files": [_as_data(found.store, file) for file in fitting]})
        return
    if not raw and not any(file.size for file in fitting):
        say(f"{place}: {', '.join(file.path for file in fitting)} is empty")
    for file in fitting:
        if len(fitting) > 1 and not raw:
            click.echo(cell(f"==> {file.path} ({file.size} bytes)"))
        _print(found.store, file, raw=raw)


def _as_data(store: EvidenceStore, file: EvidenceFile) -> dict[str, Any]:
    if file.size > JSON_LIMIT_BYTES:
        raise UsageError(
            f"{file.path} has {file.size} bytes, too many for one JSON object", hint="use --raw instead"
        )
    text = store.read(file.sha256 or "", JSON_LIMIT_BYTES).decode("utf-8", errors="replace")
    return {**file.as_data(), "text": text}


def _print(store: EvidenceStore, file: EvidenceFile, *, raw: bool) -> None:
    if raw:
        out = sys.stdout.buffer
        for chunk in _verified(store, file):
            out.write(chunk)
        out.flush()
        return
    if file.path.endswith(".json") and file.size <= _PRETTY_LIMIT_BYTES:
        click.echo(safe(_indented(store.read(file.sha256 or "", _PRETTY_LIMIT_BYTES))))
        return
    decoder = getincrementaldecoder("utf-8")("replace")
    last = "\n"
    for chunk in _verified(store, file):
        text = decoder.decode(chunk)
        click.echo(safe(text), nl=False)
        last = text[-1:] or last
    rest = decoder.decode(b"", final=True)
    click.echo(rest, nl=(rest or last) != "\n")


def _indented(raw: bytes) -> str:
    """Canonical JSON is one long line; a person gets it indented, anything else as it is."""
    try:
        return json.dumps(json.loads(raw), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return raw.decode("utf-8", errors="replace")


def _verified(store: EvidenceStore, file: EvidenceFile) -> Iterator[bytes]:
    """The chunks of a file; it is hashed before anything is shown and again while it is shown."""
    sha256 = file.sha256 or ""
    found = store.verify(sha256)
    if found.size != file.size:
        raise EvidenceError(f"{file.path} has {found.size} bytes, its manifest says {file.size}")
    again = hashlib.sha256()
    with store.open(sha256) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            again.update(chunk)
            yield chunk
    if again.hexdigest() != sha256:
        raise EvidenceAlteredError(f"{file.path} was altered while it was read")
