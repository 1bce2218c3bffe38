"""In which wire format an agent calls its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from orchestrator.agents.revision import AgentRevision
from orchestrator.attempts import PinnedModel
from orchestrator.errors import UsageError
from orchestrator.providers import REHEARSAL, FamilyName

BARE_WIRES: Final[tuple[FamilyName, ...]] = ("openai-chat", "anthropic-messages", "google-generate-content")
"""Formats in which the worker itself can ask a bare model, the preferred one first."""
_PREFERRED: Final[tuple[FamilyName, ...]] = ("openai-chat", "openai-responses", *BARE_WIRES[1:])
_REHEARSED: Final[dict[str, FamilyName]] = {
    "rehearsal-anthropic": "anthropic-messages",
    "rehearsal-google": "google-generate-content",
}


def wire_of(revision: AgentRevision, model: PinnedModel, families: Sequence[FamilyName]) -> FamilyName:
    """The first format that agent and provider share; the scripted provider speaks all of them.

    `families` are the provider's. `UsageError` when there is none.
    """
    launch = revision.launch
    known = BARE_WIRES if launch is None else tuple(one for one in _PREFERRED if one in launch.wires)
    if model.provider == REHEARSAL:
        named = _REHEARSED.get(model.model, "openai-chat")
        return named if named in known else known[0]
    for wire in known:
        if wire in families:
            return wire
    raise UsageError(
        f"provider {model.provider} speaks no format in which agent {revision.label} can ask",
        hint=f"the agent asks in {' or '.join(known)}",
    )
