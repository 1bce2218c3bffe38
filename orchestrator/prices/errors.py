"""What can be wrong with a price sheet, and why a call may have no price."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from orchestrator.errors import UsageError


class PriceError(UsageError):
    """A price sheet cannot be used as it stands; the message names the file, the entry, the value.

    `problems` holds one sentence for each thing that is wrong.
    """

    code = "prices"

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems) or (message,)


class NoPrice(StrEnum):
    """Why a call has no price."""

    UNKNOWN_MODEL = "unknown_model"
    OUTSIDE_VALIDITY = "outside_validity"
    MISSING_DIMENSION = "missing_dimension"


class UnpricedError(PriceError):
    """A call has no price: never a price of zero. `reason` says which of the three cases it is."""

    code = "unpriced"

    def __init__(self, message: str, reason: NoPrice, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


def price_error(subject: str, problems: Sequence[str], *, hint: str | None = None) -> PriceError:
    """One error that lists every problem of `subject`, one per line when there are several."""
    if len(problems) == 1:
        return PriceError(f"{subject}: {problems[0]}", hint=hint, problems=problems)
    lines = "".join(f"\n  - {problem}" for problem in problems)
    return PriceError(f"{subject}: {len(problems)} problems{lines}", hint=hint, problems=problems)
