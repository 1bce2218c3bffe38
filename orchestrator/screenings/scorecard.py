"""From a screening's files to its Pack Score card: verify first, score only what verifies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from orchestrator.certificates.bundle import ScreeningFiles, decode_screening
from orchestrator.certificates.published import PublishedNotices
from orchestrator.errors import AssizeError, UsageError
from orchestrator.handover import Handover, from_files
from orchestrator.ledger import queries
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.packs.catalog import list_packs
from orchestrator.screenings.bundling import SCREENING_FILE, write_screening_bundle
from orchestrator.screenings.claimed import tries_that_differ
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.private import require_public
from orchestrator.screenings.tags import task_tags
from orchestrator.verification.errors import VerificationError
from scoring.classify import View
from scoring.facts import Population
from scoring.pack_card import PackScoreCard
from scoring.pack_score import score_pack

FLOOR_AGENT = "nop"


class ForeignBundleError(AssizeError):
    """The bundle that lies under a screening's id is the bundle of another screening."""

    code = "foreign-bundle"


@dataclass(frozen=True)
class Scored:
    """A card with the verification it rests on; `closed` tells whether the summary was there.

    `claims_differ` counts tries whose agent says other figures of itself than were metered.
    """

    card: PackScoreCard
    handover: Handover
    closed: bool
    claims_differ: int = 0


def score_screening(installation: Installation, screening_id: str, *, with_floor: bool = True) -> Scored:
    """Verify the screening's bundle and score it; an open screening is scored on what is certified so far.

    Raises `PrivateError` for a private screening: scores rest on what verifies.
    """
    require_public(installation.ledger, screening_id)
    files = _files(installation, screening_id)
    row = queries.screening(installation.ledger, screening_id)
    handover = hand_over(installation, row, files)
    floor = do_nothing_floor(installation, row["pack_digest"]) if with_floor else None
    card = score_pack(handover.plan, handover.tries, view=View.PUBLIC, do_nothing_floor=floor)
    return Scored(card, handover, files.summary is not None, tries_that_differ(installation, screening_id))


def hand_over(installation: Installation, row: Mapping[str, Any], files: ScreeningFiles) -> Handover:
    """Verify the files of the screening in `row`; hand its tries over with what its pack says of the tasks.

    Every screening is one of a benchmark pack (S3-5). Tags are looked up after verification, under the
    signed digest of the pack, and stay None when that pack is not known here any more. Raises
    `ForeignBundleError` for the files of another screening, and `VerificationError`.
    """
    root = installation.trust_root()
    handover = from_files(
        files,
        root,
        pack_is_current=pack_is_current(installation, row["pack_id"], row["pack_version"]),
        population=Population.BENCHMARK_PACK,
        store=installation.store,
        published=PublishedNotices(installation.home.log) if root.logs else None,
    )
    plan = handover.plan
    if plan.screening_id != row["id"]:
        raise ForeignBundleError(
            f"the bundle of screening {row['id']} is that of screening {plan.screening_id}",
            hint="put the right file back, or verify this one by its path: assize verify FILE",
        )
    tags = task_tags(installation.home, plan.pack_id, plan.pack_version, plan.pack_digest)
    return replace(handover, plan=replace(plan, tags=tags))


def closed_files(installation: Installation, screening_id: str) -> ScreeningFiles | None:
    """The files of a screening whose summary is signed; None while there is none."""
    path = installation.home.certificates / screening_id / SCREENING_FILE
    files = decode_screening(path.read_bytes()) if path.exists() else None
    return None if files is None or files.summary is None else files


def _files(installation: Installation, screening_id: str) -> ScreeningFiles:
    """The closed bundle, else one made now of what is certified so far."""
    found = closed_files(installation, screening_id)
    if found is not None:
        return found
    if not certificates(installation.ledger, screening_id, CertificateKind.OPENING):
        raise UsageError(f"screening {screening_id} was never opened", hint=f"assize status {screening_id}")
    return decode_screening(write_screening_bundle(installation, screening_id, None).read_bytes())


def pack_is_current(installation: Installation, pack_id: str, version: str) -> bool:
    """False only when another version of the pack is known and marked current."""
    known = [ref for ref in list_packs(installation.home) if ref.name == pack_id and ref.problem is None]
    current = {ref.version for ref in known if ref.state == "current"}
    return not current or version in current


def do_nothing_floor(installation: Installation, pack_digest: str) -> Fraction | None:
    """The Pack Score of the agent that does nothing on this very pack, from its newest whole screening."""
    for row in queries.screenings(installation.ledger):
        same = row["pack_digest"] == pack_digest and row["agent_id"] == FLOOR_AGENT
        public = row["conditions"].get("visibility") != "private"
        if same and public and row["state"] == "complete" and row["conditions"].get("tasks") is None:
            try:
                return score_screening(installation, row["id"], with_floor=False).card.pack_score
            except (ForeignBundleError, VerificationError):
                continue  # a broken bundle of the floor agent measures nothing, and hides no other card
    return None
