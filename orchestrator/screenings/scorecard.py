"""From a screening's files to its Pack Score card: verify first, score only what verifies."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from orchestrator.certificates.bundle import ScreeningFiles, decode_screening
from orchestrator.errors import UsageError
from orchestrator.handover import Handover, from_files
from orchestrator.ledger import queries
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.packs.catalog import list_packs
from orchestrator.screenings.certify import SCREENING_FILE, write_screening_bundle
from orchestrator.screenings.installation import Installation
from scoring.classify import View
from scoring.pack_card import PackScoreCard
from scoring.pack_score import score_pack

FLOOR_AGENT = "nop"


@dataclass(frozen=True)
class Scored:
    """A card with the verification it rests on; `closed` tells whether the summary was there."""

    card: PackScoreCard
    handover: Handover
    closed: bool


def score_screening(installation: Installation, screening_id: str, *, with_floor: bool = True) -> Scored:
    """Verify the screening's bundle and score it; an open screening is scored on what is certified so far."""
    files = _files(installation, screening_id)
    row = queries.screening(installation.ledger, screening_id)
    handover = from_files(
        files,
        installation.trust_root(),
        pack_is_current=pack_is_current(installation, row["pack_id"], row["pack_version"]),
        store=installation.store,
    )
    floor = do_nothing_floor(installation, row["pack_digest"]) if with_floor else None
    card = score_pack(handover.plan, handover.tries, view=View.PUBLIC, do_nothing_floor=floor)
    return Scored(card, handover, files.summary is not None)


def _files(installation: Installation, screening_id: str) -> ScreeningFiles:
    path = installation.home.certificates / screening_id / SCREENING_FILE
    if not path.exists():
        if not certificates(installation.ledger, screening_id, CertificateKind.OPENING):
            raise UsageError(
                f"screening {screening_id} was never opened", hint=f"assize status {screening_id}"
            )
        return decode_screening(write_screening_bundle(installation, screening_id, None).read_bytes())
    return decode_screening(path.read_bytes())


def pack_is_current(installation: Installation, pack_id: str, version: str) -> bool:
    """False only when another version of the pack is known and marked current."""
    known = [ref for ref in list_packs(installation.home) if ref.name == pack_id and ref.problem is None]
    current = {ref.version for ref in known if ref.state == "current"}
    return not current or version in current


def do_nothing_floor(installation: Installation, pack_digest: str) -> Fraction | None:
    """The Pack Score of the agent that does nothing on this very pack, from its newest whole screening."""
    for row in queries.screenings(installation.ledger):
        same = row["pack_digest"] == pack_digest and row["agent_id"] == FLOOR_AGENT
        if same and row["state"] == "complete" and row["conditions"].get("tasks") is None:
            return score_screening(installation, row["id"], with_floor=False).card.pack_score
    return None
