"""Rows of the drill with a service beside the agent's container: killed, ended, or never up."""

from __future__ import annotations

from typing import Final

from orchestrator.drills.rows import Row, Scene
from scoring.vocabulary import Reason

_FOR_GOOD: Final = 3
_LISTENS: Final = "exec python3 -c \"import socket; socket.create_server(('0.0.0.0', 7000)).accept()\""
"""Ends with the first client."""
_ENDS_IT: Final = (
    "python3 -c \"import socket, time; at = ('beside', 7000)\n"
    "while True:\n"
    "    try: socket.create_connection(at, 2).close(); time.sleep(0.1)\n"
    "    except OSError: break\n"
    'time.sleep(5)"'
)
"""Until nobody listens any more; with the container its address goes, and a call to nobody has no end.
It stays on until that is noticed: an agent that leaves in the same moment is judged by its work alone."""

SERVICES: Final = (
    Row(
        "service-killed",
        "somebody kills a service of the task while the agent works",
        ("sandbox 12",),
        Scene.PLAIN,
        Reason.SANDBOX_LOST,
        ("sidecar", "sidecar_death"),
        blow="kill-service",
        service="exec sleep 600",
    ),
    Row(
        "service-not-up",
        "a service of the task ends before the agent begins",
        ("harbor 6",),
        Scene.PLAIN,
        Reason.SANDBOX_START,
        ("start_error", "agent_started"),
        blows=_FOR_GOOD,
        service="exit 1",
    ),
    Row(
        "service-ended-unproven",
        "the agent makes a service end and fails, on a path that the oracle never passed",
        (),
        Scene.PLAIN,
        Reason.SANDBOX_LOST,
        ("sidecar", "sidecar_death", "grader_proven"),
        blows=_FOR_GOOD,
        suspect=True,
        work=_ENDS_IT,
        wall_s=61,  # another task than the one below, whose proof would hold for this one too
        service=_LISTENS,
    ),
    Row(
        "service-ended",
        "the same, where the oracle passed beside a service that stood",
        (),
        Scene.PLAIN,
        Reason.CRASH,
        ("sidecar", "sidecar_death", "grader_proven", "reward"),
        work=_ENDS_IT,
        service=_LISTENS,
        proven=True,
    ),
)
"""Trouble with a task's own services: who made it end decides, and what the gate saw."""
