"""What can go wrong with the ledger on purpose."""

from __future__ import annotations

from orchestrator.errors import AssizeError, HostError, UsageError


class LedgerError(AssizeError):
    """The ledger refused a change that its rules do not allow."""

    code = "ledger"


class StateError(UsageError):
    """A screening is not in a state from which the requested step is possible; nothing was changed."""

    code = "ledger-state"


class SchemaError(HostError):
    """The database has another schema than this version needs, or lost one of its rules."""

    code = "ledger-schema"


class DatabaseUrlError(UsageError):
    """The URL of the database names none that Assize can use; the message never shows the URL itself."""

    code = "database-url"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        usual = "sqlite:////folder/ledger.db or postgresql://user@host/database"
        super().__init__(message, hint=hint or f"ASSIZE_DATABASE_URL is {usual}")
