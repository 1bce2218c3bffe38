"""Where agents' own figures are others than the metered ones: a flag beside card and certificate.

Nothing of it is signed or scored: claims are untrusted, and the record stands whatever an agent says.
"""

from __future__ import annotations

from typing import Final

from orchestrator.errors import AssizeError
from orchestrator.evidence.claims import FILE_NAME, Figures, decode, differing
from orchestrator.evidence.errors import EvidenceError
from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceFile, EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.ledger import queries
from orchestrator.screenings.installation import Installation

_LIMIT_BYTES: Final = 1 << 14


def claims_in(store: EvidenceStore, files: tuple[EvidenceFile, ...]) -> tuple[Figures, Figures] | None:
    """What the agent says of its run, and what was metered; None where it says nothing that can be read."""
    digests = [file.sha256 for file in files if file.path == FILE_NAME and file.sha256]
    try:
        return decode(store.read(digests[0], _LIMIT_BYTES)) if digests else None
    except EvidenceError:
        return None


def claims_under(store: EvidenceStore, manifest_digest: str | None) -> tuple[Figures, Figures] | None:
    """The same by the digest of an attempt's manifest; evidence that is gone says nothing."""
    if manifest_digest is None:
        return None
    try:
        manifest = EvidenceManifest.from_bytes(store.read(manifest_digest, MANIFEST_LIMIT_BYTES))
    except AssizeError:
        return None
    return claims_in(store, manifest.files)


def tries_that_differ(installation: Installation, screening_id: str) -> int:
    """How many tries' newest attempts claim another figure than the record has."""
    newest = queries.manifests(installation.ledger, screening_id).values()
    said = (claims_under(installation.store, digest) for digest in newest)
    return sum(bool(differing(*one)) for one in said if one is not None)
