"""What can go wrong with a fault injection itself."""

from __future__ import annotations

from workers.errors import WorkerError


class FaultlineError(WorkerError):
    """The trouble could not be made: then nothing is shown by how the attempt ended."""
