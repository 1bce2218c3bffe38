"""A parcel."""

from dataclasses import dataclass

EU = frozenset("AT BE DE DK ES FI FR IE IT LU NL PL PT SE".split())


@dataclass(frozen=True)
class Parcel:
    """Weight in grams, sides in millimetres, value in cents, ISO country of the receiver."""

    grams: int
    country: str
    length_mm: int
    width_mm: int
    height_mm: int
    value_cents: int = 0

    @property
    def girth_mm(self):
        """Longest side plus the circumference around the other two."""
        sides = sorted((self.length_mm, self.width_mm, self.height_mm))
        return sides[2] + 2 * (sides[0] + sides[1])

    @property
    def volume_grams(self):
        """Weight that the volume counts as: 5000 cubic centimetres a kilogram, rounded up."""
        volume = self.length_mm * self.width_mm * self.height_mm
        return -(-volume // 5000)
