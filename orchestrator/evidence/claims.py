"""What an agent says it did, beside what was metered: pure, and only ever a flag for readers.

The record is the relay's transcript. Where an agent's own figures are others, one of the two is wrong or
counts something else; neither outcome nor score rests on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from orchestrator import canonical
from orchestrator.evidence.errors import EvidenceError

FILE_NAME: Final = "agent/claims.json"
COST_TOLERANCE: Final = 100
"""A claimed cost counts as equal within one part in so many: agents reckon in floating point."""
MAX_FIGURE: Final = canonical.MAX_INTEGER


@dataclass(frozen=True)
class Figures:
    """Model calls, tool calls, tokens (input with what was cached) and cost in nano-USD; None: not said."""

    model_calls: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_nusd: int | None = None

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def metered(ledger: Iterable[Mapping[str, Any]], tool_calls: int) -> Figures:
    """The record: of the ledger's lines, and so many tool calls that models made.

    A figure that is not known of every call is not known.
    """
    lines = list(ledger)

    def total(name: str) -> int | None:
        known = [line[name] for line in lines if line[name] is not None]
        return sum(known) if len(known) == len(lines) else None

    return Figures(len(lines), tool_calls, total("inputTokens"), total("outputTokens"), total("costNusd"))


def differing(claimed: Figures, record: Figures) -> tuple[str, ...]:
    """The names of the figures that both have and that are not the same."""
    found = []
    for one in fields(Figures):
        said, known = getattr(claimed, one.name), getattr(record, one.name)
        if said is None or known is None:
            continue
        apart = abs(said - known)
        if apart * COST_TOLERANCE > known if one.name == "cost_nusd" else apart:
            found.append(one.name)
    return tuple(found)


def encode(claimed: Figures, record: Figures) -> bytes:
    """The evidence file of that name."""
    data = {
        "claimed": claimed.as_data(),
        "record": record.as_data(),
        "differs": list(differing(claimed, record)),
    }
    return canonical.encode(data)


def decode(raw: bytes) -> tuple[Figures, Figures]:
    """Claims and record of the evidence file; `EvidenceError` for anything else."""
    try:
        data = canonical.decode_strict(raw)
        claimed, record = Figures(**data["claimed"]), Figures(**data["record"])
    except (canonical.CanonicalFormError, KeyError, TypeError, AttributeError):
        raise EvidenceError(f"{FILE_NAME} is not what it should be") from None
    if any(
        type(value) not in (int, type(None)) for one in (claimed, record) for value in asdict(one).values()
    ):
        raise EvidenceError(f"{FILE_NAME} holds something that is no figure")
    return claimed, record


def sentences(claimed: Figures, record: Figures) -> list[str]:
    """Every difference in words."""
    found = []
    for name in differing(claimed, record):
        said, known = getattr(claimed, name), getattr(record, name)
        words = name.replace("_nusd", " (nano-USD)").replace("_", " ")
        found.append(f"{words}: the agent says {said}, metered were {known}")
    return found
