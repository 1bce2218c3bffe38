"""Where evidence lies beside the folder of this host: an archive that all hosts share.

A worker keeps what it captures in its own folder and, before the end of an attempt is recorded, in the
archive. Whoever does not have a file takes it from there, once. Without an archive the folder itself is what
hosts share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from orchestrator.evidence.s3 import S3Archive
from orchestrator.evidence.store import EvidenceStore

VARIABLE: Final = "ASSIZE_EVIDENCE_ARCHIVE"
"""`s3://bucket/prefix`; unset or empty: there is no archive."""


def open_store(root: Path, environment: Mapping[str, str] = os.environ) -> EvidenceStore:
    """The evidence store of a home's folder `root`, with the archive that the environment names.

    Raises `EvidenceError` for a name that is none.
    """
    url = environment.get(VARIABLE)
    return EvidenceStore(root, archive=S3Archive(url) if url else None)
