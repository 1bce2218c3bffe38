"""How the engine of many hosts can fail before anything runs."""

from __future__ import annotations

from orchestrator.errors import HostError, UsageError


class BrokerError(HostError):
    """The broker does not answer."""

    code = "broker"


class BrokerNameError(UsageError):
    """No broker is named, or what is named is none."""

    code = "broker-name"
