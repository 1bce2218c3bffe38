"""Our own log and its witnesses: what is sent, what is taken back, what certificates are proven against.

Rules: certificates.md 3.4 and 3.6 (`witnessed`), row 44; C2SP tlog-cosignature, tlog-witness, tlog-tiles.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import bundle, trust
from orchestrator.certificates.audit import audit_log
from orchestrator.certificates.audit_report import audit_text
from orchestrator.certificates.log_status import statuses, verifier_of
from orchestrator.certificates.logbook import Logbook
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.report import screening_text, try_text
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verify import verify_try_bundle
from orchestrator.log import note, publishing, witnessed
from orchestrator.log.checkpoint import Checkpoint, open_checkpoint
from orchestrator.log.files import Disk
from orchestrator.log.proof import ConsistencyProof, parse_consistency
from orchestrator.log.tiles import Tiles
from orchestrator.verification.errors import VerificationError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
LATER = 1_790_200_000  # two days after the screening was opened
TILES_LAYOUT = re.compile(
    r"checkpoint|checkpoint\.witnessed|statement/[0-9a-f]{2}/[0-9a-f]{62}"
    r"|tile/(?:entries|[0-9]|[1-5][0-9]|6[0-3])/(?:x\d{3}/)*\d{3}(?:\.p/(?:[1-9]\d{0,2}))?"
)


@pytest.fixture(scope="module")
def witnesses() -> ModuleType:
    """The module with both kinds of witnesses."""
    if "log_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("log_world", ASSETS / "log" / "log_world.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["log_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["log_world"]


class FastDisk(Disk):
    """Does not wait for the disk."""

    def _each(self, descriptors: list[int]) -> None:
        return


class Place:
    """A home's log under a trust root with three witnesses, of which two must cosign."""

    def __init__(self, lab: Any, witnesses: Any, folder: Path) -> None:
        self.lab = lab
        self.one, self.two = witnesses.Witness("w1.example/a"), witnesses.PostQuantumWitness("w2.example/b")
        self.three = witnesses.Witness("w3.example/c")
        names = {"w1": self.one, "w2": self.two, "w3": self.three}
        lines = [f"witness {name} {one.key.vkey}" for name, one in names.items()]
        policy = "\n".join([*lines, "group two 2 w1 w2 w3", "quorum two", ""])
        self.trust_bytes = lab.trust_root(logged=True, witness_policy=policy)
        self.trust = trust.parse(self.trust_bytes)
        self.root, self.states = folder / "log", folder / "state"
        self.folder, self.state = self.root / lab.ORIGIN, self.states / lab.ORIGIN
        self.verifier = verifier_of(self.trust, lab.ORIGIN)

    def logbook(self) -> Logbook:
        return Logbook(self.root, self.states, self.trust, lambda: self.lab.key("log"), disk=FastDisk)

    def sent(self) -> tuple[bytes, Checkpoint]:
        return witnessed.export(self.folder, self.state, self.verifier)

    def collect(self, answer: bytes) -> witnessed.Collected:
        return witnessed.collect(self.folder, self.state, self.verifier, answer)


@pytest.fixture
def place(lab: Any, witnesses: Any, tmp_path: Path) -> Place:
    return Place(lab, witnesses, tmp_path)


def enter(logbook: Logbook, shot: Any) -> list[bytes]:
    envelopes = [shot.opening.envelope, *(s.envelope for s, _ in shot.certificates), shot.summary().envelope]
    for envelope in envelopes:
        logbook.enter(envelope)
    return envelopes


def packed(logbook: Logbook, shot: Any, envelopes: list[bytes]) -> bytes:
    names = ["opening", *(f"{n:06d}" for n in range(1, len(envelopes) - 1)), "summary"]
    shared = bundle.ScreeningProofs.joined(names, logbook.prove(envelopes))
    return bundle.encode_screening(envelopes[0], shot.tries(), envelopes[-1], shared)


def test_cosignatures_come_back_after_the_log_went_on(place: Place, world: Any) -> None:
    """Both kinds of answer and of key; from the quorum on certificates are proven against that checkpoint."""
    logbook, shot = place.logbook(), world.screening().usual()
    envelopes = enter(logbook, shot)
    raw, head = place.sent()
    late = world.screening("late").opening.envelope
    logbook.enter(late)
    result = verify_screening_bundle(packed(logbook, shot, envelopes), place.trust)
    assert (result.exit_code, result.reasons) == (4, ("quorum",))
    first = place.collect(place.one.cosign(head, LATER).line())
    assert (first.added, first.checkpoint, first.witnessing.met) == (("w1",), head, False)
    assert witnessed.newest(place.folder, place.verifier) is None
    whole = note.parse(raw).with_signatures([place.two.cosign(head, LATER + 60)])
    second = place.collect(whole.encode())
    assert second.added == ("w2",) and second.witnessing.met
    assert place.collect(whole.encode()).added == ()
    bundled = packed(logbook, shot, envelopes)
    result = verify_screening_bundle(bundled, place.trust)
    assert (result.exit_code, result.log and result.log.size) == (0, head.size)
    shown = screening_text(result, place.trust)
    assert "witnessed   yes  2/3 (quorum 2) earliest full quorum 2026-09-23T21:47:40Z" in shown
    (one,) = logbook.prove([late])
    assert open_checkpoint(one.checkpoint, place.verifier.log).checkpoint.size == head.size + 1
    assert statuses(place.root, place.trust)[0].witnessed_size == head.size


def test_cosignatures_of_what_is_published_are_served(place: Place, world: Any) -> None:
    """With the checkpoint itself, until the log goes on; a later witnessed one takes over, none goes back."""
    logbook = place.logbook()
    logbook.enter(world.screening("one").opening.envelope)
    _, small = place.sent()
    logbook.enter(world.screening("two").opening.envelope)
    _, large = place.sent()
    for witness in (place.one, place.three):
        place.collect(witness.cosign(large, LATER).line())
    served = open_checkpoint((place.folder / "checkpoint").read_bytes(), place.verifier.log)
    assert len(served.note.signatures) == 3
    assert audit_log(place.folder, place.trust).exit_code == 0
    assert "witnessed   2/3 (quorum 2)" in audit_text(audit_log(place.folder, place.trust), place.trust)
    for witness in (place.one, place.two):
        place.collect(witness.cosign(small, LATER).line())
    newest = witnessed.newest(place.folder, place.verifier)
    assert newest is not None and newest[1] == large
    logbook.enter(world.screening("three").opening.envelope)
    served = open_checkpoint((place.folder / "checkpoint").read_bytes(), place.verifier.log)
    assert (served.checkpoint.size, len(served.note.signatures)) == (3, 1)


def test_only_witnesses_of_the_policy_are_believed(place: Place, world: Any, witnesses: Any) -> None:
    """Row 44 on our own side: nothing of a refused answer is kept."""
    logbook = place.logbook()
    logbook.enter(world.screening("one").opening.envelope)
    raw, head = place.sent()
    other = Checkpoint(head.origin, head.size, bytes(32))
    foreign = witnesses.Witness("w4.example/d")
    renamed = witnesses.Witness("w1.example/other", seed="w1.example/a")
    good = place.one.cosign(head, LATER)
    late = note.Signature(good.name, good.keyid, (LATER + 1).to_bytes(8, "big") + good.blob[8:])
    fork = note.parse(raw)
    forked = note.Note(other.body(), fork.signatures).with_signatures([place.one.cosign(other, LATER)])
    elsewhere = Checkpoint("assize.example/other/log/2026", head.size, head.root)
    stranger = note.Note(elsewhere.body(), (place.one.cosign(elsewhere, LATER),))
    for answer, told in (
        (foreign.cosign(head, LATER).line(), "cosignature"),
        (renamed.cosign(head, LATER).line(), "cosignature"),
        (place.one.cosign(other, LATER).line(), "cosignature"),
        (late.line(), "cosignature"),
        (fork.with_signatures([foreign.cosign(head, LATER)]).encode(), "cosignature"),
        (forked.encode(), "split-view"),
        (stranger.encode(), "origin"),
        (b"", "checkpoint-form"),
        (b"hello\n", "checkpoint-form"),
        (b"\xff" * 40, "checkpoint-form"),
        (good.line() * 40, "checkpoint-form"),
    ):
        with pytest.raises(VerificationError, match=told):
            place.collect(answer)
    assert open_checkpoint((place.folder / "checkpoint").read_bytes(), place.verifier.log).note == fork
    assert not (place.folder / witnessed.WITNESSED_FILE).exists()


def test_a_checkpoint_that_was_never_sent_can_be_cosigned(place: Place, world: Any) -> None:
    """A witness that follows the published log by itself: its note is checked against the tree."""
    logbook = place.logbook()
    logbook.enter(world.screening("one").opening.envelope)
    raw = (place.folder / "checkpoint").read_bytes()
    head = open_checkpoint(raw, place.verifier.log).checkpoint
    logbook.enter(world.screening("two").opening.envelope)
    lines = [place.one.cosign(head, LATER), place.two.cosign(head, LATER)]
    found = place.collect(note.parse(raw).with_signatures(lines).encode())
    assert found.witnessing.met and found.checkpoint == head
    unsigned = note.Note(head.body(), (lines[0],))
    assert place.collect(unsigned.encode()).added == ()


def test_without_a_quorum_it_is_not_witnessed(lab: Any, place: Place, world: Any) -> None:
    """Case 42: who asks for nobody is told so, also when somebody cosigned."""
    policy = f"witness w1 {place.one.key.vkey}\nquorum none\n"
    root = trust.parse(lab.trust_root(logged=True, witness_policy=policy))
    logbook = Logbook(place.root, place.states, root, lambda: lab.key("log"), disk=FastDisk)
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    logbook.enter(shot.opening.envelope)
    logbook.enter(signed.envelope)
    verifier = verifier_of(root, lab.ORIGIN)
    _, head = witnessed.export(place.folder, place.state, verifier)
    witnessed.collect(place.folder, place.state, verifier, place.one.cosign(head, LATER).line())
    raw = bundle.encode_try(signed.envelope, signed.manifest, logbook.prove([signed.envelope])[0].encode())
    result = verify_try_bundle(raw, root)
    assert result.exit_code == 0
    shown = try_text(result, root)
    assert "witnessed   no   not witnessed: no witness quorum is asked for" in shown
    assert "(1 of 1 known witnesses cosigned)" in shown


def bodies(raw: bytes) -> str:
    return statement_path(raw.split(b"\n")[1].decode())


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_copy_is_a_static_tlog_tiles_folder(place: Place, world: Any, tmp_path: Path) -> None:
    """Every path is one of the specification (or a statement), readable by all; the copy audits, it grows
    with the log, and nothing of another log gets in."""
    logbook, target = place.logbook(), tmp_path / "www" / "log"
    shot = world.screening().usual()
    enter(logbook, shot)
    strict = os.umask(0o027)  # an operator's shell may hide what it makes
    try:
        done = publishing.publish(place.folder, target, place.verifier, bodies)
    finally:
        os.umask(strict)
    assert done.checkpoint.size == 12 and done.files == len(names(target))
    for number in range(300):
        logbook.enter(world.screening(f"more {number}").opening.envelope)
    orphan = place.folder / "statement" / "00" / ("0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"signed, and never logged")
    (place.folder / "checkpoint.new").write_bytes(b"half")
    again = publishing.publish(place.folder, target, place.verifier, bodies)
    assert again.checkpoint.size == 312
    assert publishing.publish(place.folder, target, place.verifier, bodies).files == 0
    assert [name for name in names(target) if not TILES_LAYOUT.fullmatch(name)] == []
    assert not (target / orphan.relative_to(place.folder)).exists()
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*")} == {0o644, 0o755}
    found = audit_log(target, place.trust)
    assert (found.reasons, found.size, found.read, found.withheld) == (("quorum",), 312, 312, 0)
    (target / "tile/0/000").write_bytes(b"rot")
    publishing.publish(place.folder, target, place.verifier, bodies, again=True)
    assert audit_log(target, place.trust).read == 312


def test_a_copy_never_goes_back(place: Place, lab: Any, world: Any, tmp_path: Path) -> None:
    """Rows 39 and 40 for the copy: an older or another history is refused, and the copy stays as it was."""
    logbook, target = place.logbook(), tmp_path / "copy"
    logbook.enter(world.screening("one").opening.envelope)
    shutil.copytree(tmp_path / "log", tmp_path / "old")
    logbook.enter(world.screening("two").opening.envelope)
    publishing.publish(place.folder, target, place.verifier, bodies)
    shown = {name: (target / name).read_bytes() for name in names(target)}
    fork = Logbook(tmp_path / "fork", tmp_path / "s", place.trust, lambda: lab.key("log"), disk=FastDisk)
    for name in ("a", "b", "c"):
        fork.enter(world.screening(name).opening.envelope)
    for source, told in (
        (tmp_path / "old" / lab.ORIGIN, "rollback"),
        (fork.folder(lab.ORIGIN), "split-view"),
    ):
        with pytest.raises(VerificationError, match=told):
            publishing.publish(source, target, place.verifier, bodies)
    (place.folder / "tile/entries/000.p/2").write_bytes(b"\x00\x01x\x00\x01y")
    with pytest.raises(VerificationError, match="log-tile"):
        publishing.publish(place.folder, target, place.verifier, bodies, again=True)
    assert {name: (target / name).read_bytes() for name in names(target)} == shown


def test_a_reader_of_a_growing_copy_sees_a_whole_log(
    place: Place, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every single rename of a publication, and when it is broken off there, the copy audits."""
    logbook, target = place.logbook(), tmp_path / "copy"
    for number in range(250):
        logbook.enter(world.screening(f"a{number}").opening.envelope)
    publishing.publish(place.folder, target, place.verifier, bodies)
    for number in range(20):
        logbook.enter(world.screening(f"b{number}").opening.envelope)
    sizes: list[int] = []
    replace = os.replace

    def watched(source: Any, destination: Any) -> None:
        replace(source, destination)
        if len(sizes) % 7 == 0 or Path(destination).name == "checkpoint":
            found = audit_log(target, place.trust)
            assert found.reasons == ("quorum",)
            sizes.append(found.size)
        else:
            sizes.append(sizes[-1])

    class Stopped(BaseException):
        pass

    def stopping(source: Any, destination: Any) -> None:
        if len(sizes) == 9:
            raise Stopped
        watched(source, destination)

    monkeypatch.setattr(os, "replace", stopping)
    with pytest.raises(Stopped):
        publishing.publish(place.folder, target, place.verifier, bodies)
    assert audit_log(target, place.trust).size == 250
    monkeypatch.setattr(os, "replace", watched)
    publishing.publish(place.folder, target, place.verifier, bodies)
    assert sizes == sorted(sizes) and (sizes[0], sizes[-1]) == (250, 270)
    assert [name for name in names(target) if not TILES_LAYOUT.fullmatch(name)] == []


def test_a_request_is_what_a_witness_takes(place: Place, world: Any) -> None:
    """`old` size, consistency proof, checkpoint: a witness that knows the old tree can check it."""
    logbook = place.logbook()
    for name in ("a", "b", "c"):
        logbook.enter(world.screening(name).opening.envelope)
    raw, head = place.sent()
    request = ConsistencyProof(2, tuple(Tiles(place.folder, head.size).consistency_proof(2)), raw).encode()
    parsed = parse_consistency(request)
    assert (parsed.old_size, parsed.checkpoint) == (2, raw)
