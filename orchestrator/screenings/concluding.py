"""Screenings that ended while nobody signed: their tries are certified before they are summed up.

Workers of many hosts end and close a campaign without its signer, and a run may die between its last try and
its summary. A summary that was signed then would say of honest tries that they are not accounted for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.engine.base import RunResult
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import Launch, Outcome
from orchestrator.screenings.notary import certify_ended, only_one


def conclude(installation: Installation, launches: Sequence[Launch]) -> Outcome:
    """Certify what is left of closed screenings, sign their summaries, write their bundles.

    A screening with an attempt that cannot be certified now gets neither; a warning says why, and the same
    call later does it. No other process of the home certifies meanwhile.
    """
    bundles, warnings = _signed(installation, launches) if launches else ({}, [])
    states = {one.screening_id: one.state for one in launches}
    return Outcome(RunResult(states, False, 0), bundles, tuple(dict.fromkeys(warnings)))


def together(one: Outcome, other: Outcome) -> Outcome:
    """What two groups of screenings of one command came to; `one` says how it ended."""
    result = RunResult(
        {**other.result.states, **one.result.states},
        one.result.interrupted,
        one.result.attempts + other.result.attempts,
    )
    warnings = dict.fromkeys((*other.warnings, *one.warnings))
    return Outcome(result, {**other.bundles, **one.bundles}, tuple(warnings))


def _signed(installation: Installation, launches: Sequence[Launch]) -> tuple[dict[str, Path], list[str]]:
    """Bundles by screening, and what is left without a certificate."""
    bundles: dict[str, Path] = {}
    warnings: list[str] = []
    with only_one(installation.home.keys, wait=True):
        for one in launches:
            left = [] if one.private else certify_ended(installation, one.certifier, one.screening_id)
            path = None if left else one.certifier.close()
            if path is not None:
                bundles[one.screening_id] = path
            warnings += left
    return bundles, warnings
