"""A real home whose screening ran with scripted attempts and was certified by the product: no Docker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.agents import registry
from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.evidence import observed
from orchestrator.evidence.claims import FILE_NAME as CLAIMS_FILE
from orchestrator.evidence.manifest import ManifestBuilder, Role
from orchestrator.evidence.store import EvidenceStore
from orchestrator.faults import decide
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.observations import Observations
from orchestrator.packs.pack import Pack, implicit_pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.certify import Certifier
from orchestrator.screenings.images import TaskImages
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.orders import Bench
from orchestrator.screenings.private import PrivateRecord

SCRIPT = {"first": ("passed",), "first/2": ("failed",), "second/1": ("platform_fault", "passed")}
TASKS = ("first", "second")
TRIES = 2
HIDDEN = b"the hidden tests\n"
_IMAGE = "sha256:" + "1" * 64
_SPONSORS = Sponsors("publisher:acme", "publisher:acme", "lab:test")


def make_pack(root: Path) -> Pack:
    """Two tasks; nothing of them is run."""
    for task in TASKS:
        for folder, name, text in (
            ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
            ("solution", "solve.sh", "true\n"),
            ("tests", "test.sh", "true\n"),
        ):
            (root / task / folder).mkdir(parents=True)
            (root / task / folder / name).write_text(text)
        (root / task / "instruction.md").write_text(f"Do the {task}.\n")
        (root / task / "task.toml").write_text('schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n')
    return implicit_pack(root)


class Sealed:
    """A scripted attempt that leaves evidence in the store, hidden tests withheld.

    `claims` is what the agents of the task `second` say of themselves beside the record.
    """

    def __init__(self, store: EvidenceStore, claims: bytes | None = None) -> None:
        self._attempt, self._store, self._claims = StubAttempt(script=SCRIPT), store, claims

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        report = self._attempt(order, control)
        seen = Observations(**report.observations)
        builder = ManifestBuilder(self._store, attempt_id=order.attempt_id, try_id=order.slot_id)
        builder.add_bytes("agent/stdout.txt", Role.COMMAND_LOG, f"{order.attempt_id}\n".encode())
        builder.withhold("grader/tests.tar", Role.HIDDEN_TESTS, HIDDEN)
        builder.add_bytes(observed.FILE_NAME, Role.OBSERVATIONS, observed.encode(seen, decide(seen)))
        if self._claims is not None and order.task_id == "second":
            builder.add_bytes(CLAIMS_FILE, Role.AGENT_TRANSCRIPT, self._claims)
        return replace(report, manifest_digest=builder.seal())


@dataclass(frozen=True)
class CertifiedHome:
    """The home, its pack and its closed screening."""

    home: Home
    pack: Pack
    screening: str

    def certifier(self, installation: Installation) -> Certifier:
        """The signing side of the screening."""
        images = {task: TaskImages(_IMAGE, _IMAGE) for task in TASKS}
        conditions = ScreeningConditions(tries=TRIES, hardware_class="cpu1-mem1g")
        agent = registry.resolve(self.home, "oracle")
        bench = Bench(installation, self.pack, agent, conditions, images)
        issuer = installation.trust_root().issuer
        return Certifier(installation, installation.signer(), issuer, bench, self.screening)

    def try_id(self, task: str, k: int = 1) -> str:
        """The id of a try."""
        installation = Installation.open(self.home)
        try:
            rows = queries.tries(installation.ledger, self.screening, task_id=task)
            return str(next(one.row["id"] for one in rows if one.row["k"] == k))
        finally:
            installation.close()


def make_home(root: Path, *, private: bool = False, claims: bytes | None = None) -> CertifiedHome:
    """Plan, run, certify and close; with `private` the same run leaves evidence and nothing signed."""
    pack = make_pack(root / "pack")
    home = Home(root / "home")
    installation = Installation.open(home)
    try:
        conditions = {"visibility": "private"} if private else {}
        # The keys first: what is planned in the second before they were made could not be signed.
        installation.trust_root()
        screening = plan_stub(installation.ledger, TASKS, tries=TRIES, conditions=conditions)
        made = CertifiedHome(home, pack, screening)
        one: Certifier | PrivateRecord = PrivateRecord() if private else made.certifier(installation)
        one.open(_SPONSORS)
        sealed = Sealed(installation.store, claims)
        callbacks = Callbacks(attempt=sealed, order_for=stub_order, certify=one.certify)
        engine = LocalEngine(installation.ledger, callbacks, Settings(idle_ms=5, back_off_ms=1), who="test")
        engine.run([screening], 1)
        one.close()
    finally:
        installation.close()
    return made
