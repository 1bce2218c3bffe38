"""`assize verify` with a log: single bundles, memory, chains of trust roots, and the audit of a whole log."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import bundle, founding, trust
from orchestrator.certificates.logbook import Logbook

LAB = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certificate_world.py"


@pytest.fixture(scope="module")
def lab() -> ModuleType:
    """The lab with seeded keys that the certificate tests use."""
    if "certificate_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("certificate_world", LAB)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["certificate_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["certificate_world"]


class Published:
    """What a lab hands to a stranger: trust root, log, bundles."""

    def __init__(self, lab: Any, root: Path) -> None:
        self.lab, self.folder, self.logs = lab, root, root / "logs"
        self.root = root / "trust-root.json"
        self.root.write_bytes(lab.trust_root(logged=True))
        self.log = self.logs / lab.ORIGIN
        self.shot = lab.World(root / "store").screening().usual()
        checked = trust.load(self.root)
        self.logbook = Logbook(self.logs, root / "state", checked, lambda: lab.key("log"))
        signed = [self.shot.opening, *(one for one, _ in self.shot.certificates), self.shot.summary()]
        self.envelopes = [one.envelope for one in signed]
        for envelope in self.envelopes:
            self.logbook.enter(envelope)

    def screening(self) -> Path:
        """The screening bundle under the checkpoint of now."""
        names = ["opening", *(f"{n:06d}" for n in range(1, len(self.envelopes) - 1)), "summary"]
        proofs = self.logbook.prove(self.envelopes)
        members = {name: one.without_checkpoint() for name, one in zip(names, proofs, strict=True)}
        shared = bundle.ScreeningProofs(proofs[0].checkpoint, members)
        raw = bundle.encode_screening(self.envelopes[0], self.shot.tries(), self.envelopes[-1], shared)
        path = self.folder / f"screening-{len(proofs[0].checkpoint)}-{proofs[0].checkpoint[-20:].hex()}.zip"
        path.write_bytes(raw)
        return path

    def one(self, *, logged: bool = True) -> Path:
        """The bundle of the first try, a pass."""
        signed = self.shot.certificates[0][0]
        proof = self.logbook.prove([signed.envelope])[0].encode() if logged else None
        path = self.folder / f"one-{logged}.trybundle.json"
        path.write_bytes(bundle.encode_try(signed.envelope, signed.manifest, proof))
        return path

    def grow(self, name: str) -> None:
        """Somebody else's screening is opened."""
        self.logbook.enter(self.shot.world.screening(name).opening.envelope)


Ask = Callable[..., Any]


@pytest.fixture
def ask(cli: Any) -> Ask:
    """`assize verify` with these arguments."""
    return lambda *arguments: cli("verify", *map(str, arguments))


@pytest.fixture
def lot(lab: ModuleType, tmp_path: Path) -> Published:
    return Published(lab, tmp_path)


def test_a_logged_bundle_and_one_without_its_proof(ask: Ask, lot: Published) -> None:
    """Exit 0 and the place in the log; the same certificate without a proof is INVALID by name."""
    ran = ask(lot.one(), "--trust-root", lot.root, "--no-evidence")
    assert ran.code == 0 and "index 1 of 12" in ran.out and "not witnessed" in ran.out
    ran = ask(lot.one(logged=False), "--trust-root", lot.root, "--no-evidence", "--json")
    data = json.loads(ran.out)
    assert (ran.code, data["reasons"], data["log"]) == (1, ["not-logged"], None)


def test_remembered_checkpoints(ask: Ask, lot: Published) -> None:
    """`--remember`: rollback is noticed later, growth needs the published log (`--log`) as its proof."""
    memory = lot.folder / "memory"
    old = lot.screening()
    asked = ("--trust-root", lot.root, "--no-evidence", "--json", "--remember", memory)
    assert ask(old, *asked).code == 0
    lot.grow("other")
    new = lot.screening()
    ran = ask(new, *asked)
    assert (ran.code, json.loads(ran.out)["reasons"]) == (4, ["consistency-missing"])
    ran = ask(new, *asked, "--log", lot.logs)
    assert ran.code == 0
    seen = json.loads(ran.out)["log"]
    assert (seen["size"], seen["entries"], seen["remembered"]) == (13, 12, 12)
    ran = ask(old, *asked)
    assert (ran.code, json.loads(ran.out)["reasons"]) == (1, ["rollback"])
    assert ask(old, *asked, "--log", lot.logs).code == 0


def test_a_refused_bundle_is_not_remembered(ask: Ask, lot: Published) -> None:
    """Only what is authentic moves the memory on."""
    memory = lot.folder / "memory"
    broken = lot.folder / "broken.zip"
    raw = bytearray(lot.screening().read_bytes())
    raw[raw.index(b"log/checkpoint") + 40] ^= 1
    broken.write_bytes(raw)
    assert ask(broken, "--trust-root", lot.root, "--no-evidence", "--remember", memory).code != 0
    assert not memory.exists()


def test_audit_of_a_published_log(ask: Ask, lot: Published) -> None:
    """A whole log: exit 0, counts of statements; a withheld one is counted, a swapped one INVALID."""
    memory = lot.folder / "memory"
    ran = ask("--audit", lot.log, "--trust-root", lot.root, "--remember", memory)
    assert ran.code == 0
    assert "1 screening-opening/v1, 1 screening-summary/v1, 10 try-certificate/v1" in ran.out
    assert "12 published and checked, 0 withheld" in ran.out
    published = sorted((lot.log / "statement").rglob("*/*"))
    published[0].unlink()
    ran = ask("--audit", lot.log, "--trust-root", lot.root, "--json", "--remember", memory)
    data = json.loads(ran.out)
    assert (ran.code, data["schema"], data["withheld"]) == (0, "assize.verify-audit/1", 1)
    published[1].write_bytes(published[2].read_bytes())
    ran = ask("--audit", lot.log, "--trust-root", lot.root, "--json")
    assert ran.code == 1 and set(json.loads(ran.out)["reasons"]) <= {"inclusion", "predicate-type"}


def test_a_chain_of_trust_roots(ask: Ask, lab: Any, lot: Published) -> None:
    """`--trust-root` once per version, oldest first; a later version alone is not enough without its hash."""
    one = trust.load(lot.root)
    entry = founding.key_entry(
        lab.key("cert").public,
        log=lab.ORIGIN,
        not_before="2026-01-01T00:00:00Z",
        not_after="2028-01-01T00:00:00Z",
    )
    raw = founding.build(
        [lab.key("root")],
        [entry],
        issuer=lab.ISSUER,
        issued_at="2026-01-01T00:00:00Z",
        expires_at="2028-01-01T00:00:00Z",
        logs=[founding.log_entry(lab.ORIGIN, lab.key("log").public)],
        previous=one,
    )
    second = lot.folder / "trust-root.2.json"
    second.write_bytes(raw)
    path = lot.one()
    ran = ask(path, "--trust-root", lot.root, "--trust-root", second, "--no-evidence", "--json")
    assert (ran.code, json.loads(ran.out)["trustRoot"]["version"]) == (0, 2)
    assert ask(path, "--trust-root", second, "--no-evidence").code == 2
    pinned = trust.follow(one, raw).sha256
    assert ask(path, "--trust-root", second, "--pin", pinned, "--no-evidence").code == 0
    assert ask(path, "--trust-root", second, "--trust-root", lot.root, "--no-evidence").code == 2


def test_one_thing_at_a_time(ask: Ask, lot: Published) -> None:
    """A bundle or a log, not both and not neither; a log folder that is not there is said in a sentence."""
    for arguments in ((), (lot.one(), "--audit", lot.log), ("--audit", lot.folder / "nowhere")):
        ran = ask(*arguments, "--trust-root", lot.root)
        assert ran.code == 2 and "Traceback" not in ran.err
