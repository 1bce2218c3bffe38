"""A lab in a real home: ledger, evidence, keys, log; tries are scripted and certified one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchestrator.agents import registry
from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from orchestrator.certificates import trust
from orchestrator.certificates.trust import TrustRoot
from orchestrator.custody import publishing
from orchestrator.custody.custodian import Custodian
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.evidence import observed
from orchestrator.evidence.store import EvidenceStore
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.log.files import Disk
from orchestrator.observations import Observations
from orchestrator.packs.pack import Pack, implicit_pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.certify import Certifier
from orchestrator.screenings.images import TaskImages
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.orders import Bench

SPONSORS = Sponsors("test:local", "test:local", "test:local")
IMAGE = "sha256:" + "1" * 64
NOW_MS = 1_796_000_000_000
TRIES = 3


def make_pack(root: Path) -> Pack:
    """One task; nothing of it is run."""
    for folder, name, text in (
        ("environment", "Dockerfile", "FROM assize/base:1\nWORKDIR /app\n"),
        ("solution", "solve.sh", "true\n"),
        ("tests", "test.sh", "true\n"),
    ):
        (root / "trivial" / folder).mkdir(parents=True)
        (root / "trivial" / folder / name).write_text(text)
    (root / "trivial" / "instruction.md").write_text("Do it.\n")
    (root / "trivial" / "task.toml").write_text('schema_version = "1.4"\n[agent]\ntimeout_sec = 60.0\n')
    return implicit_pack(root)


class Witnessed:
    """A scripted pass whose observations are in the store, so that its end can be certified."""

    def __init__(self, store: EvidenceStore) -> None:
        self._attempt, self._store = StubAttempt(script={"trivial": ("passed",)}), store

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        report = self._attempt(order, control)
        seen = Observations(**report.observations)
        digest, _ = observed.seal_alone(
            self._store, attempt_id=order.attempt_id, try_id=order.slot_id, seen=seen
        )
        return replace(report, manifest_digest=digest)


class Lab:
    """One home with its pack; a screening has `TRIES` tries that ran, with nothing certified yet."""

    def __init__(self, root: Path, pack: Pack) -> None:
        self.home, self.pack = Home(root), pack

    def screening(self, name: str) -> str:
        """Run one; its id."""
        installation = Installation.open(self.home)
        try:
            planned = plan_stub(installation.ledger, ["trivial"], tries=TRIES, name=name)
            callbacks = Callbacks(
                attempt=Witnessed(installation.store), order_for=stub_order, certify=lambda attempt_id: None
            )
            LocalEngine(installation.ledger, callbacks, Settings(idle_ms=5), who="test").run([planned], 1)
        finally:
            installation.close()
        return planned

    def certifier(self, installation: Installation, screening: str) -> Certifier:
        bench = Bench(
            installation,
            self.pack,
            registry.resolve(self.home, "oracle"),
            ScreeningConditions(tries=TRIES, hardware_class="cpu1-mem1g"),
            {"trivial": TaskImages(IMAGE, IMAGE)},
        )
        issuer = installation.trust_root().issuer
        return Certifier(installation, installation.signer(), issuer, bench, screening)

    def certify(
        self,
        screening: str,
        count: int | None = None,
        between: Callable[[int], None] = lambda number: None,
        before: Callable[[Certifier], None] = lambda certifier: None,
    ) -> Path | None:
        """Open, certify `count` of what is not certified (None: all, and close); the bundle when closed.

        `between` is called before each certificate, while the signer is at work, `before` once.
        """
        installation = Installation.open(self.home)
        try:
            one = self.certifier(installation, screening)
            before(one)
            one.open(SPONSORS)
            waiting = [
                view.row["id"]
                for slot in queries.tries(installation.ledger, screening)
                for view in queries.show_try(installation.ledger, slot.row["id"]).attempts
                if view.certificate_digest is None
            ]
            for number, attempt in enumerate(waiting[:count]):
                between(number)
                one.certify(attempt)
            return one.close() if count is None else None
        finally:
            installation.close()

    def custodian(self, disk: Disk | None = None) -> Custodian:
        """The custodian of this home, as a new process would make it."""
        return Custodian(self.home, disk=disk)

    def publish(self) -> TrustRoot:
        """Sign the draft with the root keys that are here, and publish it."""
        custodian = self.custodian()
        publishing.sign_here(custodian)
        return publishing.publish(custodian)

    @property
    def pinned(self) -> TrustRoot:
        """What a reader has who pinned version 1."""
        return trust.parse(self.home.trust_root.read_bytes())

    @property
    def newest(self) -> TrustRoot:
        """What a reader has who got every version."""
        return self.custodian().roots.current()

    def size(self) -> int:
        """Entries of the log that is written to."""
        custodian = self.custodian()
        log = list(custodian.roots.current().logs.values())[-1]
        return custodian.log_size(log)
