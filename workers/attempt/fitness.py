"""Whether an agent can be started for this task at all: by its profile, and by what its image really has.

What it lacks by declaration is no failure of its own work: such a try is not evaluable, with the reason.
"""

from __future__ import annotations

from typing import Final

from orchestrator.attempts import AttemptOrder
from workers.adapters import mcp
from workers.adapters.packed import template_of
from workers.errors import WorkerError
from workers.sandbox.image_probe import ImageProbe

START: Final = "sh"
"""What writes a packed agent's files and starts it."""


class UnfitError(WorkerError):
    """The agent cannot be started under these conditions; the message is a sentence for readers."""


def require_fit(probe: ImageProbe, order: AttemptOrder) -> None:
    """Raise `UnfitError` for a packed agent that cannot use the task's servers or run in its image.

    An agent of another kind says nothing of what it needs. Raises `EngineCallError` too.
    """
    if not order.agent.get("launch"):
        return
    template = template_of(order.agent)
    libc = template.libc
    lacks = mcp.lacking(template, order.mcp_servers) or probe.lacking(
        order.agent_image,
        (START, *template.needs),
        "" if libc is None else libc.loader,
        "" if libc is None else libc.glibc,
    )
    if lacks is not None:
        raise UnfitError(lacks)


def home_bytes(order: AttemptOrder) -> int:
    """What a packed agent writes into its HOME at most, by its profile; 0 for any other."""
    return template_of(order.agent).limits.home_mb << 20 if order.agent.get("launch") else 0
