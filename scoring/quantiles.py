"""Quantiles of the distributions that intervals stand on, by scipy.

scipy takes 0.4 s to load, a third of the start of `assize screen`. So it is loaded by the first quantile, and
not by a command that computes none.
"""

from __future__ import annotations


def normal(probability: float) -> float:
    """The standard normal quantile."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def student(degrees: int, probability: float) -> float:
    """The quantile of Student's t with so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def beta(a: float, b: float, probability: float) -> float:
    """The quantile of the beta distribution."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, probability))
