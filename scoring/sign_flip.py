"""The exact paired sign-flip test over tasks (ST-4): integer convolution, no asymptotics, no sampling.

Under "both agents are the same" each task's difference could as well have had the other sign. The p-value
is the share of the 2^G sign choices whose sum is at least as far from 0 as the observed one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Final

from scoring.errors import MalformedInputError

MAX_DIFFERENCE: Final = 1
"""A difference of two shares lies in -1..1."""


def sign_flip_p(differences: Sequence[Fraction]) -> Fraction:
    """Exact two-sided p-value of task differences, each in -1..1 and exact.

    Tasks without a difference say nothing and change nothing; without any difference p is 1. Never below
    2^(1-G) for G non-zero differences. Raises `MalformedInputError`: `number`, `range`, `too-few-tasks`
    (no task at all).
    """
    if not differences:
        raise MalformedInputError("too-few-tasks", "a paired test needs at least one task")
    for value in differences:
        if not isinstance(value, Fraction):
            raise MalformedInputError("number", f"a difference is {value!r:.60}, not an exact number")
        if abs(value) > MAX_DIFFERENCE:
            raise MalformedInputError("range", f"a difference of two shares is {value}")
    scale = lcm(*(value.denominator for value in differences))
    whole = [int(value * scale) for value in differences if value]
    observed = abs(sum(whole))
    if not whole or not observed:
        return Fraction(1)
    sizes = sorted(abs(value) for value in whole)
    # Choosing the subset with a flipped sign takes twice its sum off the total, and the far tails are mirror
    # images: both hold the subsets whose sum is at most half of what lies between total and observed.
    return Fraction(2 * subsets_up_to(sizes, (sum(sizes) - observed) // 2), 2 ** len(sizes))


def subsets_up_to(sizes: Sequence[int], most: int) -> int:
    """Number of subsets of positive `sizes` whose sum is at most `most`, by integer convolution.

    The counts of all sums stand side by side in one integer; multiplying by 1 + x^size is a shift and an
    addition. Costs len(sizes) additions of `most` x len(sizes) bits.
    """
    width = (len(sizes) + 8) // 8 * 8  # bits per count: 2^G fits, in whole bytes
    kept = (1 << (most + 1) * width) - 1
    counts = 1
    for size in sizes:
        if size > most:
            continue
        counts = (counts + (counts << size * width)) & kept
    data, step = counts.to_bytes((most + 1) * width // 8, "little"), width // 8
    return sum(int.from_bytes(data[at : at + step], "little") for at in range(0, len(data), step))


def fewest_differences(alpha: Fraction) -> int:
    """The least number of non-zero differences with which p can get down to `alpha`: 6 for 5%."""
    if not 0 < alpha < 1:
        raise MalformedInputError("level", f"alpha {alpha}")
    needed = 1
    while Fraction(2, 2**needed) > alpha:
        needed += 1
    return needed
