"""The one error root of the scoring package."""

from __future__ import annotations


class ScoringError(Exception):
    """Base of everything the scoring package raises on purpose.

    `code` is stable and machine readable; the message is one sentence for a person.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MalformedInputError(ScoringError):
    """An input value is out of its domain; it is refused, never coerced."""


class MethodologyMixError(ScoringError, TypeError):
    """Results of two methodology ids (or two keys) were about to be combined; a type error, not a warning."""
