"""What can go wrong with evidence."""

from __future__ import annotations

from orchestrator.errors import AssizeError


class EvidenceError(AssizeError):
    """Evidence could not be stored, found or read back unchanged."""

    code = "evidence"


class EvidenceMissingError(EvidenceError):
    """The store holds no blob with this digest."""

    code = "evidence-missing"
    exit_code = 4


class EvidenceUnreachableError(EvidenceError):
    """The archive does not answer or refuses: nothing is known of the evidence in it."""

    code = "evidence-unreachable"
    exit_code = 4


class EvidenceAlteredError(EvidenceError):
    """A stored blob no longer has the digest it is filed under."""

    code = "evidence-altered"


class EvidenceLimitError(EvidenceError):
    """A blob is larger than the caller is willing to read."""

    code = "evidence-limit"
