"""The one joint fit of a page: Bradley-Terry with fixed reference opponents, by Newton steps (S1-11 ..
S1-18).

Maximises  sum_ij W_ij log s(t_i - t_j) + sum_i [log s(t_i - r_i) + log s(r_i - t_i)],  s the logistic
function, t in natural-log units: every comparison at once, and for each entrant two draws against a private
opponent held at its reference r_i. Strictly concave and falling to minus infinity both ways, so there is
exactly one finite maximum for any data: all wins, all losses, groups that never met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.errors import MalformedInputError, ScoringError
from scoring.leaderboard.elo import ELO_PER_NAT, REFERENCE_DRAWS, REFERENCE_WINS
from scoring.leaderboard.half_wins import Ints
from scoring.leaderboard.operators import Floats, Pairs, pairs_of

TOLERANCE: Final = 1e-9
"""No score leaves the solver unless the Euclidean norm of the exact gradient is at most this."""
TARGET: Final = 2.5e-10
"""Steps go on until the norm is this small, so that the rounding of whoever recomputes it has room."""
MAX_STEPS: Final = 100
STEP_NATS: Final = 2.0
"""Longest move of any entrant in one step."""
ARMIJO: Final = 1e-4
HALVINGS: Final = 60
REFERENCE_REACH_ELO: Final = 20_000.0
"""References farther than this from their mean are refused; within it `MAX_STEPS` can cross any distance."""
CG_ACCURACY: Final = 1e-2
"""Relative accuracy of the first Newton directions; near the optimum it tightens with the gradient."""
CG_FLOOR: Final = 1e-11


class NotConvergedError(ScoringError):
    """The exact gradient did not reach the tolerance: no score is published instead of a wrong one."""


@dataclass(frozen=True)
class Fit:
    """Scores in Elo (unrounded), the norm of the exact gradient there, and the work: Newton steps,
    products."""

    scores: Floats
    gradient_norm: float
    steps: int
    products: int


def fit_rows(winners: Ints, losers: Ints, weights: Floats, references: Floats) -> Fit:
    """Fit from aggregated (winner, loser, weight) rows, entrants numbered 0..n-1 along `references` (Elo).

    Raises `MalformedInputError` (`rows`, `reference`) and `NotConvergedError("not-converged")`.
    """
    size = len(references)
    if not len(winners) == len(losers) == len(weights) or (
        len(weights) and not _sound(winners, losers, size)
    ):
        raise MalformedInputError("rows", "each row names two different entrants of the page and a weight")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise MalformedInputError("rows", "a weight is negative or not a number")
    if not np.all(np.isfinite(references)):
        raise MalformedInputError("reference", "a reference score is not a number")
    if size and np.max(np.abs(references - np.mean(references))) > REFERENCE_REACH_ELO:
        raise MalformedInputError("reference", "reference scores are too far apart")
    with np.errstate(all="ignore"):  # an overflow makes the norm infinite or no number, which is refused
        return _Newton(pairs_of(size, winners, losers, weights), references).run()


def _sound(winners: Ints, losers: Ints, size: int) -> bool:
    low, high = min(int(winners.min()), int(losers.min())), max(int(winners.max()), int(losers.max()))
    return low >= 0 and high < size and not np.any(winners == losers)


class _Newton:
    """One fit. `move` is t - r in nats, so an entrant without comparisons keeps its reference exactly."""

    def __init__(self, pairs: Pairs, references: Floats) -> None:
        self._pairs = pairs
        self._references = references
        self._base = (references - np.mean(references)) / ELO_PER_NAT if len(references) else references
        self._held = np.exp(self._base)
        self._credit = pairs.wins + REFERENCE_WINS
        self._products = 0

    def run(self) -> Fit:
        """Steps until the target, or as far as rounding allows within the tolerance."""
        pairs = self._pairs
        # The closed form against opponents held at the reference: close, and exact where nothing was played.
        move = np.log(self._credit / (pairs.games - pairs.wins + REFERENCE_WINS))
        gradient = self._look(move)
        norm, steps = _norm(gradient), 0
        while norm > TARGET and steps < MAX_STEPS:
            steps += 1
            step = self._direction(gradient)
            ahead = self._look(move + step)
            if not _norm(ahead) < norm:
                if norm <= TOLERANCE:
                    break  # within the tolerance and nothing left to gain but rounding noise
                step = self._backtrack(move, step, float(gradient @ step))
                ahead = self._look(move + step)
            move, gradient, norm = move + step, ahead, _norm(ahead)
        if not norm <= TOLERANCE:
            raise NotConvergedError(
                "not-converged", f"the gradient is {norm:.3g} after {steps} steps; no score is published"
            )
        return Fit(self._references + ELO_PER_NAT * move, norm, steps, self._products)

    def _look(self, move: Floats) -> Floats:
        """The exact gradient at `move`; keeps what a direction from there needs."""
        self._strengths = np.exp(self._base + move)
        expected = self._strengths * self._pairs.linearise(self._strengths)
        self._share = self._strengths / (self._strengths + self._held)
        gradient: Floats = self._credit - expected - REFERENCE_DRAWS * self._share
        return gradient

    def _direction(self, gradient: Floats) -> Floats:
        """Newton step from the last look: conjugate gradients on Laplacian + prior, Jacobi preconditioned.

        An inexact solution is still an ascent direction; no entrant moves by more than `STEP_NATS`.
        """
        x, pairs = self._strengths, self._pairs
        diagonal = x * pairs.curvature(x) + REFERENCE_DRAWS * self._share * (1 - self._share)
        inverse = 1 / diagonal
        squared = float(gradient @ gradient)
        enough = max(squared * min(CG_ACCURACY**2, squared), CG_FLOOR**2)
        step, rest = np.zeros_like(gradient), gradient.copy()
        scaled = rest * inverse
        along, product = scaled, float(rest @ scaled)
        for _ in range(2 * len(gradient) + 50):
            bent = diagonal * along - x * pairs.curvature(x * along)
            self._products += 1
            length = product / float(along @ bent)
            step += length * along
            rest -= length * bent
            if float(rest @ rest) <= enough:
                break
            scaled = rest * inverse
            following = float(rest @ scaled)
            along = scaled + (following / product) * along
            product = following
        clipped: Floats = np.clip(step, -STEP_NATS, STEP_NATS)
        if float(gradient @ clipped) > 0:
            return clipped
        return step * (STEP_NATS / float(np.max(np.abs(step))))  # the direction itself always ascends

    def _backtrack(self, move: Floats, step: Floats, slope: float) -> Floats:
        """Halve the step until the likelihood rises as Armijo asks; the gradient norm may rise meanwhile."""
        here = self._likelihood(move)
        for _ in range(HALVINGS):
            if self._likelihood(move + step) >= here + ARMIJO * slope:
                return step
            step, slope = step / 2, slope / 2
        raise NotConvergedError("not-converged", "no step raises the likelihood; no score is published")

    def _likelihood(self, move: Floats) -> float:
        level = self._base + move
        total = float(self._pairs.wins @ level) - self._pairs.log_sum(np.exp(level))
        # log s(m) + log s(-m) = -|m| - 2 log(1 + exp(-|m|)), weight 1 each
        reference = np.abs(move) + 2 * np.log1p(np.exp(-np.abs(move)))
        return total - REFERENCE_WINS * float(np.sum(reference))


def _norm(gradient: Floats) -> float:
    return float(np.sqrt(gradient @ gradient))
