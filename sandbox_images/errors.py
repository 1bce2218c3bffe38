"""The one error root of the sandbox_images package."""

from __future__ import annotations


class ImageError(Exception):
    """Base of everything this package raises on purpose; `hint` says what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
