"""Whether an agent can be started for this task at all: by its profile, and by what its image really has.

What it lacks by declaration is no failure of its own work: such a try is not evaluable, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from orchestrator.attempts import AttemptOrder
from workers.adapters import mcp
from workers.adapters.packed import template_of
from workers.errors import WorkerError
from workers.sandbox.image_probe import ImageProbe

START: Final = "sh"
"""What writes a packed agent's files and starts it."""


class UnfitError(WorkerError):
    """The agent cannot be started under these conditions; the message is a sentence for readers."""


def lacking(
    probe: ImageProbe, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
) -> str | None:
    """Why a packed agent cannot use the task's servers or run in its image, as a sentence; None if it can.

    An agent of another kind says nothing of what it needs. Raises `EngineCallError`.
    """
    if not agent.get("launch"):
        return None
    template = template_of(agent)
    libc = template.libc
    return mcp.lacking(template, mcp_servers) or probe.lacking(
        image_id,
        (START, *template.needs),
        "" if libc is None else libc.loader,
        "" if libc is None else libc.glibc,
    )


def require_fit(probe: ImageProbe, order: AttemptOrder) -> None:
    """Raise `UnfitError` for an order whose agent cannot be started; `EngineCallError` too."""
    lacks = lacking(probe, order.agent, order.agent_image, order.mcp_servers)
    if lacks is not None:
        raise UnfitError(lacks)


def home_bytes(order: AttemptOrder) -> int:
    """What a packed agent writes into its HOME at most, by its profile; 0 for any other."""
    return template_of(order.agent).limits.home_mb << 20 if order.agent.get("launch") else 0
