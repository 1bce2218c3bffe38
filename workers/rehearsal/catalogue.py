"""The list of models, and one of its entries, in each family's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from workers.rehearsal.dialect import Dialect
from workers.rehearsal.gemini import GEMINI
from workers.rehearsal.messages import MESSAGES

_METHODS: Final = ["generateContent", "streamGenerateContent", "countTokens"]
_BORN_S: Final = 1_700_000_000
_BORN: Final = "2023-11-14T22:13:20Z"


def listing(dialect: Dialect, models: Sequence[str]) -> dict[str, Any]:
    """Every model of the script."""
    entries = [entry(dialect, model) for model in models]
    if dialect is GEMINI:
        return {"models": entries}
    if dialect is MESSAGES:
        return {"data": entries, "has_more": False, "first_id": models[0], "last_id": models[-1]}
    return {"object": "list", "data": entries}


def entry(dialect: Dialect, model: str) -> dict[str, Any]:
    """One model."""
    if dialect is GEMINI:
        return {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": _METHODS}
    if dialect is MESSAGES:
        return {"type": "model", "id": model, "display_name": model, "created_at": _BORN}
    return {"id": model, "object": "model", "created": _BORN_S, "owned_by": "rehearsal"}
