"""The one error root of the workers package."""

from __future__ import annotations


class WorkerError(Exception):
    """Base of everything the workers package raises on purpose."""
