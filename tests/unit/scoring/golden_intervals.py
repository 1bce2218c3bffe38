"""Adapters of the golden groups of the intervals and of the detectable difference (ST-1 .. ST-3, ST-5)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scoring.intervals import clustered_mean, clustered_t, effective_wilson, jeffreys, wilson_counts
from scoring.noise import minimum_detectable_difference
from scoring.numbers import exact


def binomial(given: dict[str, Any]) -> dict[str, object]:
    """ST-1: plain Wilson and Jeffreys."""
    level = exact(str(given["level"]))
    methods = {"wilson": wilson_counts, "jeffreys": jeffreys}
    made = {name: method(given["successes"], given["n"], level) for name, method in methods.items()}
    return {name: [interval.low, interval.high] for name, interval in made.items()}


def over_tasks(given: dict[str, Any]) -> dict[str, object]:
    """ST-2: mean, standard error and t interval over tasks."""
    means = [exact(text) for text in given["task_means"]]
    made, interval = clustered_mean(means), clustered_t(means)
    return {
        "mean": made.mean,
        "se": made.standard_error,
        "ci": [interval.low, interval.high],
        "df": made.degrees,
    }


def of_the_card(given: dict[str, Any]) -> dict[str, object]:
    """ST-3: the interval of the card."""
    means = [exact(text) for text in given["task_means"]]
    made = effective_wilson(means, len(means) * given["tries"])
    return {
        "mean": made.mean,
        "n_effective": made.n_effective,
        "n_t_adjusted": made.n_adjusted,
        "ci": [made.interval.low, made.interval.high],
    }


def detectable(given: dict[str, Any]) -> dict[str, object]:
    """ST-5: the minimum detectable difference."""
    each = exact(given["sigma2_each"])
    mdd = minimum_detectable_difference(
        given["tasks"],
        Fraction(given["tries"]),
        omega2=exact(given["omega2"]),
        sigma2_a=each,
        sigma2_b=each,
        alpha=exact(str(given["alpha"])),
        power=exact(str(given["power"])),
    )
    return {"mdd": mdd}


ADAPTERS = {
    "st-binomial-interval": binomial,
    "st-cluster-t": over_tasks,
    "st-wilson-effective-n": of_the_card,
    "st-mdd": detectable,
}
