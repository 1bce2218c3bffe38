"""What `assize doctor` says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """`ok`; `warn` hinders nothing yet; `missing` and `broken` stop a screening or its result."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """One check: what was found, and how to mend it when it is not ok."""

    check: str
    health: Health
    detail: str
    mend: str | None = None

    @property
    def blocks(self) -> bool:
        """Whether screening cannot work, or its result cannot be trusted, while this stands."""
        return self.health in (Health.MISSING, Health.BROKEN)


def ok(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Health.OK, detail)


def warn(check: str, detail: str, mend: str) -> Finding:
    """Worth a look."""
    return Finding(check, Health.WARN, detail, mend)


def missing(check: str, detail: str, mend: str) -> Finding:
    """Something that has to be there first."""
    return Finding(check, Health.MISSING, detail, mend)


def broken(check: str, detail: str, mend: str) -> Finding:
    """Something that is there and wrong."""
    return Finding(check, Health.BROKEN, detail, mend)
