"""One entry of the registry: what a published method is called, asks, reads and computes (G-4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scoring.numbers import ratio
from scoring.results import MethodologyResult, Reading


@dataclass(frozen=True)
class Methodology:
    """One published method. `constants` are the numbers that its page renders, imported from the code;
    `default_on` is False for a method that is shown only where it was asked for."""

    id: str
    title: str
    question: str
    scorer: Callable[..., MethodologyResult]
    readings: tuple[Reading, ...]
    constants: tuple[tuple[str, Fraction], ...]
    default_on: bool = True

    def as_data(self) -> dict[str, Any]:
        """Plain data: exact constants as `n/d` strings."""
        return {
            "id": self.id,
            "title": self.title,
            "question": self.question,
            "default_on": self.default_on,
            "readings": [reading.as_data() for reading in self.readings],
            "constants": [{"name": name, "exact": ratio(value)} for name, value in self.constants],
        }
