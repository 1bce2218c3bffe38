"""Certificates on their way to a stranger: one bundle, or a folder with everything that can be shown."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.certificates import bundle
from orchestrator.certificates.bundle import TRY_LIMIT_BYTES, TRY_SUFFIX, decode_try, is_screening
from orchestrator.errors import UsageError
from orchestrator.evidence.errors import EvidenceError, EvidenceMissingError
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.ledger.records import CertificateKind, StoredCertificate, certificates
from orchestrator.screenings.bundling import (
    SCREENING_FILE,
    predicate_of,
    proven,
    screening_bundle,
    statement_of,
    write_file,
)
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.lookup import Meant, opening_of
from orchestrator.verification.errors import VerificationError

EVIDENCE_FOLDER: Final = "evidence"
TRIES_FOLDER: Final = "tries"
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass
class Exported:
    """What was written; `withheld` counts evidence files of which only the salted digest is public."""

    files: list[Path] = field(default_factory=list)
    evidence: int = 0
    withheld: int = 0
    missing: list[str] = field(default_factory=list)


def try_bundle_name(stored: StoredCertificate) -> str:
    """The file name of a try bundle."""
    body = predicate_of(stored)
    slot = body["try"]
    task = _UNFIT.sub("_", body["task"]["id"])
    return f"{task}.try{slot['index']}.attempt{slot['attempt']}{TRY_SUFFIX}"


def try_bundle(installation: Installation, stored: StoredCertificate) -> bytes:
    """A try bundle as of now: its log proof, every notice about it, every version of the trust root."""
    logbook, envelope = installation.logbook(), stored.envelope
    if logbook is not None:
        envelope = logbook.renewed([envelope])[0]
    found = proven(installation, [envelope])
    proof, notices = (None, None) if found is None else (found.proofs[0].encode(), found.notices)
    subject = statement_of(envelope)["subject"][0]["digest"]["sha256"]
    manifest = installation.store.read(subject, MANIFEST_LIMIT_BYTES)
    return bundle.encode_try(envelope, manifest, proof, notices, installation.roots.chain())


def export_file(installation: Installation, meant: Meant, out: Path | None) -> Exported:
    """One bundle in one file; by default in the working folder under its own name."""
    stored = meant.certificate
    if stored is None or stored.kind is not CertificateKind.TRY:
        name, raw = f"{meant.screening_id}.zip", _screening(installation, meant.screening_id)
    else:
        name, raw = try_bundle_name(stored), try_bundle(installation, stored)
    path = out or Path(name)
    if path.is_dir():
        path = path / name
    return Exported([_replace(path, raw)])


def export_folder(installation: Installation, meant: Meant, out: Path | None, *, evidence: bool) -> Exported:
    """A folder: trust root, the screening's bundle and one per try (or the one that is meant), evidence.

    Withheld files are never exported. What is in the folder already and is the same stays as it is.
    """
    ledger, stored = installation.ledger, meant.certificate
    folder = out or Path(f"{meant.screening_id}-certificates")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", hint="name another folder with --out")
    done = Exported()
    tries = [one for one in certificates(ledger, meant.screening_id) if one.kind is CertificateKind.TRY]
    if stored is not None and stored.kind is CertificateKind.TRY:
        tries = [stored]
    else:
        raw = _screening(installation, meant.screening_id)
        done.files.append(_replace(folder / SCREENING_FILE, raw))
    for one in tries:
        raw = try_bundle(installation, one)
        done.files.append(_replace(folder / TRIES_FOLDER / try_bundle_name(one), raw))
    for path in installation.roots.files():
        done.files.append(write_file(folder / path.name, path.read_bytes()))
    if evidence:
        _copy_evidence(installation, tries, folder / EVIDENCE_FOLDER, done)
    return done


def _screening(installation: Installation, screening_id: str) -> bytes:
    opening_of(installation.ledger, screening_id)
    closed = certificates(installation.ledger, screening_id, CertificateKind.SUMMARY)
    return screening_bundle(installation, screening_id, closed[0].envelope if closed else None)


def _replace(path: Path, raw: bytes) -> Path:
    """Write a bundle; over another bundle, but never over anything else."""
    if path.exists() and not _is_bundle(path):
        raise UsageError(
            f"{path} exists and is no bundle; nothing was written over it", hint="--out names another"
        )
    return write_file(path, raw)


def _is_bundle(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(TRY_LIMIT_BYTES + 1)
    if is_screening(head):
        return True
    try:
        decode_try(head)
    except VerificationError:
        return False
    return True


def _copy_evidence(
    installation: Installation, tries: Iterable[StoredCertificate], folder: Path, done: Exported
) -> None:
    """Copy what certificates list, hashed again on the way; what is absent is said, not passed over."""
    target = EvidenceStore(folder)
    for digest in _listed(installation, tries, done):
        try:
            installation.store.verify(digest)
        except EvidenceMissingError:
            done.missing.append(digest)
            continue
        path = target.path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.new")
            shutil.copyfile(installation.store.path(digest), temporary)
            temporary.replace(path)
        if target.verify(digest).sha256 != digest:
            raise EvidenceError(f"evidence {digest[:12]} was altered while it was copied")
        done.evidence += 1


def _listed(installation: Installation, tries: Iterable[StoredCertificate], done: Exported) -> Iterator[str]:
    """The digests of manifests and of what they list in the open, each once."""
    seen = set[str]()
    for one in tries:
        manifest = statement_of(one.envelope)["subject"][0]["digest"]["sha256"]
        listed = EvidenceManifest.from_bytes(installation.store.read(manifest, MANIFEST_LIMIT_BYTES))
        done.withheld += sum(file.sha256 is None for file in listed.files)
        for digest in (manifest, *(file.sha256 for file in listed.files)):
            if digest is not None and digest not in seen:
                seen.add(digest)
                yield digest
