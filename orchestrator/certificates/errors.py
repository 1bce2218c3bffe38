"""Errors of the one who makes certificates, keys and trust roots."""

from __future__ import annotations

from orchestrator.errors import AssizeError


class CertificateError(AssizeError):
    """A certificate, key or trust root could not be made or used."""

    code = "certificate"


class SigningRefusedError(CertificateError):
    """The signer will not sign: the statement disagrees with its evidence or with policy."""

    code = "signing-refused"


class KeyPositionError(SigningRefusedError):
    """The key of a statement may not sign at the position that the log has reached: sign it again."""

    code = "key-position"


class KeyFileError(CertificateError):
    """A key file is missing, readable by others, or not a usable key."""

    code = "key-file"
