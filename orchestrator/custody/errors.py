"""Errors of keys and trust roots in custody."""

from __future__ import annotations

from orchestrator.errors import AssizeError, UsageError


class CustodyError(AssizeError):
    """A key or a version of the trust root could not be made or used."""

    code = "custody"


class KeyMissingError(CustodyError):
    """A key that the trust root lists is not held here."""

    code = "key-missing"


class KeyFrozenError(CustodyError):
    """The key may not sign any more: its revocation is under way, or its log is being closed."""

    code = "key-frozen"


class KeyCommandError(CustodyError):
    """The external program that holds a key gave no signature that verifies."""

    code = "key-command"


class RootRollbackError(CustodyError):
    """The home has an older trust root than it had before."""

    code = "trust-root-rollback"


class DraftError(CustodyError):
    """The draft is not one, or does not go with what is asked."""

    code = "draft"


class ChangeError(UsageError):
    """What is asked of the trust root cannot be; nothing was changed."""

    code = "change"
