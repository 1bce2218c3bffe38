"""In which wire format an agent calls its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def wire_of(
    revision: AgentRevision,
    models: Sequence[PinnedModel],
    families_of: Callable[[str], Sequence[FamilyName]],
) -> FamilyName:
    """The first format that the agent shares with the provider of each model; the scripted one speaks all.

    `families_of` gives the formats of a provider by name. `UsageError` when there is none.
    """
    launch = revision.launch
    known = BARE_WIRES if launch is None else tuple(one for one in _PREFERRED if one in launch.wires)
    main = models[0]
    if main.provider == REHEARSAL:
        named = _REHEARSED.get(main.model, "openai-chat")
        return named if named in known else known[0]
    if launch is None:
        models = models[:1]  # an agent's own command asks each of its models as it likes
    for wire in known:
        if all(wire in families_of(model.provider) for model in models):
            return wire
    providers = " and ".join(dict.fromkeys(model.provider for model in models))
    raise UsageError(
        f"provider {providers} speaks no format in which agent {revision.label} can ask",
        hint=f"the agent asks in {' or '.join(known)}",
    )
