"""The ranked unit: a harness with its models (S1-1), and which screenings may stand on one board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.tries import Plan

SHORT_DIGEST: Final = 12
UNDECLARED: Final = "undeclared model"


@dataclass(frozen=True)
class Entrant:
    """A pairing of harness and model. The same model in another harness is another entrant."""

    harness: str
    model: str

    @property
    def name(self) -> str:
        """`<harness> + <model>`, what pages print and sort by."""
        return f"{self.harness} + {self.model}"


def entrant_of(plan: Plan) -> Entrant:
    """Agent id with its version (its digest where it has none), and the models that it declares."""
    version = plan.agent_version or plan.agent_digest[:SHORT_DIGEST]
    models = sorted({model.snapshot or model.id for model in plan.models or ()})
    return Entrant(f"{plan.agent_id}@{version}", ", ".join(models) or UNDECLARED)


def require_one_board(plans: Sequence[Plan]) -> None:
    """Refuse what may not be mixed: packs in two versions, judges, provenance labels, names of two revisions.

    Raises `MalformedInputError` (`no-screening`, `duplicate-screening`, `entrant-mix`) and
    `MethodologyMixError` (`pack-mix`, `judge-mix`, `provenance-mix`).
    """
    if not plans:
        raise MalformedInputError("no-screening", "a board needs at least one screening")
    if len({plan.screening_id for plan in plans}) < len(plans):
        raise MalformedInputError("duplicate-screening", "a screening is listed twice")
    if not _one_each(plans, lambda plan: entrant_of(plan).name, lambda plan: plan.agent_digest):
        raise MalformedInputError("entrant-mix", "two agent revisions share the name of one entrant")
    if not _one_each(plans, _pack, lambda plan: (plan.pack_version, plan.pack_digest)):
        raise MethodologyMixError("pack-mix", "two versions of a pack are not the same questions")
    if not _one_each(plans, _pack, lambda plan: plan.judge):
        raise MethodologyMixError("judge-mix", "scores under different judges are not comparable")
    if not _one_each(plans, lambda plan: None, lambda plan: plan.provenance):
        raise MethodologyMixError("provenance-mix", "results under two provenance labels are never merged")


def _pack(plan: Plan) -> str:
    return plan.pack_id


def _one_each(plans: Sequence[Plan], of: Callable[[Plan], object], what: Callable[[Plan], object]) -> bool:
    """Whether each value of `of` goes with one value of `what`."""
    return len({(of(plan), what(plan)) for plan in plans}) == len({of(plan) for plan in plans})
