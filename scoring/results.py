"""What every methodology's result has in common: one id, its readings, and no arithmetic (G-4).

A published figure is never added to, averaged with or ranked against a figure of another methodology;
nor may two results of one methodology be summed into something that no document defines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from scoring.errors import MethodologyMixError


@dataclass(frozen=True)
class Reading:
    """An interpretation that was chosen where the source document is silent or contradicts itself.

    `code` is stable; `text` is one sentence for the methodology page and is printed with each result.
    """

    code: str
    requirement: str
    text: str

    def as_data(self) -> dict[str, str]:
        """Plain data."""
        return {"code": self.code, "requirement": self.requirement, "text": self.text}


class MethodologyResult:
    """Base of the frozen results; `methodology` is the one id that a result of the class carries."""

    methodology: ClassVar[str]
    readings: ClassVar[tuple[Reading, ...]]

    def _refuse(self, other: object) -> NoReturn:
        if isinstance(other, MethodologyResult) and other.methodology != self.methodology:
            raise MethodologyMixError(
                "methodology-mix",
                f"a {self.methodology} result cannot be combined with or ranked against {other.methodology}",
            )
        raise TypeError(f"a {self.methodology} result is not a number; take one of its figures by name")

    def __add__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __radd__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __sub__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __rsub__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __mul__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __rmul__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __truediv__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __lt__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __le__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __gt__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __ge__(self, other: object) -> NoReturn:
        self._refuse(other)
