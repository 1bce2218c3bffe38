"""What can go wrong with a backup on purpose."""

from __future__ import annotations

from orchestrator.errors import HostError, UsageError


class BackupError(HostError):
    """The copy could not be made or read; what was there before is as it was."""

    code = "backup"


class TargetError(UsageError):
    """The place that was named holds something already; nothing was changed."""

    code = "backup-target"
