"""The same-question board over the ledger: which screenings stand on it, and why others do not (S1-1, S1-4).

Only what is signed and verifies is ranked. The ledger's rows only say where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.certificates.verdict import ScreeningResult, Verdict
from orchestrator.errors import NotFoundError
from orchestrator.handover import Handover
from orchestrator.ledger import queries
from orchestrator.packs.catalog import list_packs
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.scorecard import (
    ForeignBundleError,
    closed_files,
    hand_over,
    pack_is_current,
)
from orchestrator.verification.errors import VerificationError
from scoring.classify import View
from scoring.facts import Provenance
from scoring.leaderboard.board import Leaderboard
from scoring.leaderboard.entrants import Entrant, entrant_of
from scoring.leaderboard.score import score_board
from scoring.tries import Plan


class Why(StrEnum):
    """Why a closed screening is not on the board."""

    NOT_VERIFIED = "not-verified"
    WITHDRAWN = "withdrawn"
    PART_OF_PACK = "part-of-pack"
    OTHER_REVISION = "other-revision"
    OTHER_VERSION = "other-pack-version"
    NOT_INDEPENDENT = "not-independent"


@dataclass(frozen=True)
class Standing:
    """A verified, complete screening and the verification it rests on."""

    screening_id: str
    handover: Handover

    @property
    def plan(self) -> Plan:
        """What was promised."""
        return self.handover.plan

    @property
    def entrant(self) -> Entrant:
        """The ranked unit that it is of."""
        return entrant_of(self.plan)

    @property
    def pack(self) -> str:
        """`name@version` of its pack."""
        return f"{self.plan.pack_id}@{self.plan.pack_version}"


@dataclass(frozen=True)
class LeftOut:
    """A closed screening that is not on the board; `text` is one sentence."""

    screening_id: str
    agent: str
    why: Why
    text: str


@dataclass(frozen=True)
class LedgerBoard:
    """The board, None while nothing verifies, with the screenings on it and those left out.

    `superseded` counts closed screenings in whose place a newer one of the same agent revision and pack
    version stands.
    """

    leaderboard: Leaderboard | None
    standing: tuple[Standing, ...]
    left_out: tuple[LeftOut, ...]
    superseded: int

    @property
    def in_full(self) -> bool:
        """Whether every closed screening verifies and every one on the board counts in full."""
        whole = all(one.handover.result.exit_code == 0 for one in self.standing)
        return whole and all(one.why not in (Why.NOT_VERIFIED, Why.WITHDRAWN) for one in self.left_out)


@dataclass
class _Found:
    """Accumulates while the ledger is walked, newest first."""

    standing: list[Standing] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    superseded: int = 0

    def leave(self, one: Standing, why: Why, text: str) -> None:
        self.standing.remove(one)
        self.left_out.append(LeftOut(one.screening_id, one.entrant.name, why, text))


def board_of(installation: Installation, *, pack: str | None = None) -> LedgerBoard:
    """`same-question-bt/1` over the newest complete screening of each agent revision on each pack version.

    `pack` (a name or `name@version`) narrows it. Of a pack with several versions the current one stands,
    else the one screened last. Raises `NotFoundError` for a pack that neither the ledger nor the catalogue
    has, and the errors of `score_board`.
    """
    rows = [row for row in queries.screenings(installation.ledger) if pack is None or _is_of(row, pack)]
    if pack is not None and not rows:
        _require_known(installation, pack)
    found = _walk(installation, rows)
    _one_revision(found)
    _one_version(installation, found)
    _only_independent(found)
    chosen = [(one.plan, one.handover.tries) for one in found.standing]
    made = score_board(chosen, view=View.PUBLIC) if chosen else None
    return LedgerBoard(made, tuple(found.standing), tuple(found.left_out), found.superseded)


def _is_of(row: Mapping[str, Any], pack: str) -> bool:
    return pack in (row["pack_id"], f"{row['pack_id']}@{row['pack_version']}")


def _require_known(installation: Installation, pack: str) -> None:
    known = {name for ref in list_packs(installation.home) for name in (ref.name, ref.label)}
    if pack not in known:
        raise NotFoundError(
            f"no pack {pack} was screened here, and none is known", hint="`assize packs list` shows the packs"
        )


def _walk(installation: Installation, rows: Iterable[Mapping[str, Any]]) -> _Found:
    """Verify what is closed; an agent's older screenings are looked at only until one can stand."""
    found, taken = _Found(), set()
    for row in rows:
        if (row["agent_digest"], row["pack_digest"]) in taken:
            found.superseded += closed_files(installation, row["id"]) is not None
            continue
        one = _verified(installation, row)
        if isinstance(one, Standing):
            taken.add((one.plan.agent_digest, one.plan.pack_digest))
            found.standing.append(one)
        elif one is not None:
            if one.why is Why.WITHDRAWN:
                # Else withdrawing the newest screening would put an older, better one in its place.
                taken.add((row["agent_digest"], row["pack_digest"]))
            found.left_out.append(one)
    return found


def _verified(installation: Installation, row: Mapping[str, Any]) -> Standing | LeftOut | None:
    """The screening, or why it cannot stand; None for one that is still open."""
    agent = f"{row['agent_id']}@{row['agent_version']}"
    try:
        files = closed_files(installation, row["id"])
        if files is None:
            return None
        handover = hand_over(installation, row, files)
    except (ForeignBundleError, VerificationError) as error:
        return LeftOut(row["id"], agent, Why.NOT_VERIFIED, f"does not verify: {error.message}")
    result, plan = handover.result, handover.plan
    if not _holds(result):
        reasons = ", ".join(result.reasons)
        return LeftOut(row["id"], agent, Why.NOT_VERIFIED, f"does not verify in full: {reasons}")
    if result.accounting.noticed:
        text = f"notices in the log withdraw {result.accounting.noticed} of its passes"
        return LeftOut(row["id"], agent, Why.WITHDRAWN, text)
    missing = sum(not plan.planned.get(task) for task in plan.pack_tasks)
    if missing:
        text = f"{missing} of {len(plan.pack_tasks)} tasks of the pack were not planned"
        return LeftOut(row["id"], agent, Why.PART_OF_PACK, text)
    return Standing(row["id"], handover)


def _holds(result: ScreeningResult) -> bool:
    """Authentic and complete. Slots that could not be counted are no objection: coverage shows them."""
    return result.authentic is Verdict.YES and result.complete is Verdict.YES


def _one_revision(found: _Found) -> None:
    """Two revisions under one name are not one entrant: the newest stands."""
    newest: dict[str, str] = {}
    for one in tuple(found.standing):
        if newest.setdefault(one.entrant.name, one.plan.agent_digest) != one.plan.agent_digest:
            found.leave(one, Why.OTHER_REVISION, "a newer revision has the same name and version")


def _one_version(installation: Installation, found: _Found) -> None:
    """Two versions of a pack are not the same questions (S1-1, S3-2)."""
    by_pack: dict[str, list[Standing]] = {}
    for one in found.standing:
        by_pack.setdefault(one.plan.pack_id, []).append(one)
    for pack_id, members in by_pack.items():
        kept = next((one for one in members if _is_current(installation, one)), members[0]).plan.pack_digest
        for one in members:
            if one.plan.pack_digest != kept:
                found.leave(one, Why.OTHER_VERSION, f"{one.pack} is another version of {pack_id}")


def _is_current(installation: Installation, one: Standing) -> bool:
    return pack_is_current(installation, one.plan.pack_id, one.plan.pack_version)


def _only_independent(found: _Found) -> None:
    """Labels are never merged, and only independent results rank (S4-1, S4-2)."""
    for one in tuple(found.standing):
        if one.plan.provenance is not Provenance.INDEPENDENT:
            found.leave(one, Why.NOT_INDEPENDENT, f"its results are {one.plan.provenance} and do not rank")
