"""What goes wrong before an endpoint is asked for the first time."""

from __future__ import annotations

from workers.errors import WorkerError


class EndpointRefusedError(WorkerError):
    """The endpoint may not be called."""


class AddressRefusedError(EndpointRefusedError):
    """Its name leads nowhere, or where we do not go."""
