"""Certificates and their place in the log: positions, proofs, forks, witnesses (rows 5-7, 22, 34-44)."""

from __future__ import annotations

import json
from typing import Any

from certificate_builder import Builder
from certificate_log import Log, Witness, filler
from certificate_world import (
    ORIGIN,
    PASS,
    WRONG,
    Screening,
    changed,
    json_bytes,
    resign,
    trust_root,
)

from orchestrator.certificates import archive, bundle, founding, trust
from orchestrator.log.note import Signature
from orchestrator.log.proof import HEADER, TlogProof

P = "predicate"
FIRST, SIZE = 10, 40
TRY = FIRST + 1
"""Index of the opening, size of the log, index of the first try."""
ISSUED = 1_790_000_073  # 2026-09-21T14:14:33Z, when the first try was certified
LATER = ISSUED + 86_400
WITNESSES = tuple(Witness(f"witness-{name}.example/w") for name in "abc")
_NAMES = [f"witness {one.key.name} {one.key.vkey}" for one in WITNESSES]
POLICY = "\n".join([*_NAMES, "group two 2 " + " ".join(one.key.name for one in WITNESSES), "quorum two", ""])
OTHER = "assize.example/test-lab/log/2025"


class LogCases:
    """The genuine screening in a log among entries of others, and how a case about it is added."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        b.root("logged", trust_root(logged=True))
        self.trust = trust.parse(b.roots["logged"])
        self.shot = b.base
        self.tries = [signed.envelope for signed, _ in self.shot.certificates]
        self.opening, self.summary = self.shot.opening.envelope, self.shot.summary().envelope
        self.log = Log(self.trust).fill(FIRST).enter(self.opening, *self.tries, self.summary)
        self.log.fill(SIZE - len(self.log.items), "later")
        self.envelope = self.tries[0]
        assert self.log.index(self.envelope) == TRY

    def one(
        self,
        name: str,
        row: int,
        code: int,
        *codes: str,
        proof: bytes | TlogProof | None = None,
        envelope: bytes | None = None,
        **more: Any,
    ) -> None:
        """The genuine certificate (or another) with a proof (by default the genuine one)."""
        if proof is None:
            proof = self.log.prove(envelope or self.envelope)
        raw = proof.encode() if isinstance(proof, TlogProof) else proof
        data = bundle.encode_try(envelope or self.envelope, self.b.manifest, raw)
        more.setdefault("trust", "logged")
        self.b.add(name, row, "try", data, code, *codes, **more)

    def pack(self, name: str, row: int, code: int, *codes: str, **more: Any) -> None:
        """The genuine screening with some of its parts replaced."""
        proofs = more.pop("proofs", None) or self.log.shared(self.opening, self.tries, self.summary)
        raw = more.pop("raw", None)
        if raw is None:
            raw = bundle.encode_screening(self.opening, self.shot.tries(), self.summary, proofs)
        more.setdefault("trust", "logged")
        self.b.add(name, row, "screening", raw, code, *codes, **more)


def add_logged(b: Builder) -> None:
    """Everything about certificates that are in a log."""
    c = LogCases(b)
    c.one("logged-pass", 0, 0)
    c.one("logged-pass-with-evidence", 0, 0, store="good")
    c.pack("logged-screening", 0, 0)
    plain = bundle.encode_try(c.envelope, b.manifest)
    b.add("not-logged", 37, "try", plain, 1, "not-logged", trust="logged")
    c.one("proof-under-a-root-without-logs", 34, 4, "proof-unsupported", trust="good")
    for part in (_add_positions, _add_proofs, _add_memory, _add_witnesses, _add_screenings, _add_audits):
        part(c)


def _add_positions(c: LogCases) -> None:
    """Rows 5, 6, 7: a key is valid at positions; dates are only claims."""

    def root(name: str, **changes: Any) -> str:
        c.b.root(f"logged-{name}", trust_root(logged=True, **changes))
        return f"logged-{name}"

    def revoked(index: int) -> dict[str, Any]:
        return {"fromIndex": index, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}

    early, late = root("revoked-from", revoked=revoked(TRY)), root("revoked-after", revoked=revoked(TRY + 1))
    c.one("revoked-from-this-entry", 5, 1, "key-revoked", trust=early)
    c.one("revoked-after-this-entry", 5, 0, trust=late)
    c.pack("revoked-in-the-middle", 5, 1, "key-revoked", "unaccounted", "replaces", trust=late)
    ended, open_until = root("ended", until_index=TRY), root("closed", until_index=TRY + 1)
    c.one("retired-key-later-position", 6, 1, "key-window", trust=ended)
    c.one("retired-key-last-position", 6, 0, trust=open_until)
    c.one("key-before-its-first-position", 6, 1, "key-window", trust=root("begins", from_index=TRY + 1))
    c.one("key-at-its-first-position", 6, 0, trust=root("begun", from_index=TRY))
    shot = c.b.world.screening("backdated")
    stale = shot.run("alpha", 1, PASS)
    again = c.log.copy().enter(shot.opening.envelope, stale.envelope)
    back = again.prove(stale.envelope)
    data = bundle.encode_try(stale.envelope, stale.manifest or b"", back)
    retired = root("retired", until_index=SIZE)
    c.b.add("retired-key-back-dated", 6, "try", data, 1, "key-window", trust=retired)
    years = c.log.copy().fill(300, "years")
    c.one("old-certificate-late-checkpoint", 6, 0, proof=years.prove(c.envelope), trust=open_until)
    expiry = {"expires_at": "2026-06-01T00:00:00Z"}
    c.one("expired-root-new-entry", 6, 4, "trust-root-expired", trust=root("expired", **expiry))
    known = root("expired-recorded", until_index=SIZE, **expiry)
    c.one("expired-root-below-a-recorded-size", 6, 0, trust=known)
    gone = root("expired-before", until_index=TRY, **expiry)
    c.one("expired-root-beyond-its-size", 6, 1, "key-window", trust=gone)
    key_entry = [founding.log_entry(ORIGIN, c.log.key.public, final_size=SIZE - 1)]
    closed = root("final", logs=key_entry)
    c.one("checkpoint-beyond-the-final-size", 38, 1, "log-closed", trust=closed)
    c.one("checkpoint-at-the-final-size", 38, 0, proof=c.log.prove(c.envelope, SIZE - 1), trust=closed)


def _add_proofs(c: LogCases) -> None:
    """Rows 34 to 38: what is not a proof of this entry in this log."""
    good = c.log.prove_at(TRY)
    path, checkpoint = good.path, good.checkpoint
    bad = "inclusion"

    def edited(**changes: Any) -> TlogProof:
        values = {"index": TRY, "path": path, "checkpoint": checkpoint, **changes}
        return TlogProof(**values)

    c.one("proof-for-another-size", 34, 1, bad, proof=edited(checkpoint=c.log.signed(SIZE - 7)))
    c.one("proof-for-another-index", 34, 1, bad, proof=edited(index=TRY + 1))
    c.one("proof-index-beyond-the-tree", 34, 1, bad, proof=edited(index=SIZE))
    c.one("proof-index-plus-size", 34, 1, bad, proof=edited(index=TRY + 64))
    c.one("proof-lengthened", 34, 1, bad, proof=edited(path=(*path, bytes(32))))
    c.one("proof-shortened", 34, 1, bad, proof=edited(path=path[:-1]))
    c.one("proof-swapped", 34, 1, bad, proof=edited(path=(path[1], path[0], *path[2:])))
    c.one("proof-empty", 34, 1, bad, proof=edited(path=()))
    text = good.encode()
    form = "proof-form"
    c.one("proof-not-a-proof", 34, 1, form, proof=b"c2sp.org/tlog-proof@v2\n")
    c.one("proof-carriage-returns", 34, 1, form, proof=text.replace(b"\n", b"\r\n"))
    c.one("proof-index-leading-zero", 34, 1, form, proof=text.replace(b"index 11", b"index 011"))
    c.one("proof-without-a-checkpoint", 34, 1, "checkpoint-form", proof=good.without_checkpoint())
    c.one("proof-trailing-text", 34, 1, "checkpoint-form", proof=text + b"x\n")
    number = json.loads(bundle.encode_try(c.envelope, c.b.manifest, text))
    c.b.add("proof-not-text", 47, "try", json_bytes({**number, "proof": 1}), 2, "bundle-form", trust="logged")
    foreign = c.log.copy(signer="foreign")
    alone = Log(c.trust, signer="foreign").enter(c.envelope)
    unsigned = "checkpoint-unsigned"
    c.one("one-leaf-tree-by-a-foreign-key", 35, 1, unsigned, proof=alone.prove(c.envelope))
    c.one("foreign-key-same-tree", 35, 1, unsigned, proof=foreign.prove(c.envelope))
    certificate = c.log.copy(signer="cert")
    c.one("checkpoint-by-the-certificate-key", 4, 1, unsigned, proof=certificate.prove(c.envelope))
    altered = checkpoint.replace(b"\n40\n", b"\n41\n")
    c.one("checkpoint-size-altered", 35, 1, unsigned, proof=edited(checkpoint=altered))
    elsewhere = c.log.copy(origin=OTHER)
    c.one("foreign-origin-same-key", 36, 1, "origin", proof=elsewhere.prove(c.envelope))
    root = trust_root(
        logged=True, logs=[founding.log_entry(name, c.log.key.public) for name in (ORIGIN, OTHER)]
    )
    c.b.root("logged-two-logs", root)
    c.one("other-log-of-the-lab", 36, 1, "origin", proof=elsewhere.prove(c.envelope), trust="logged-two-logs")
    c.one("entry-of-another-certificate", 37, 1, bad, proof=c.log.prove(c.tries[1]))
    c.one("entry-of-a-stranger", 37, 1, bad, proof=c.log.prove_at(0))
    edited_statement = resign(changed(c.envelope, P, "time", "wallMs", 1))
    c.one("statement-that-is-not-logged", 37, 1, bad, proof=good, envelope=edited_statement)
    c.one("log-truncated-before-the-entry", 38, 1, bad, proof=edited(checkpoint=c.log.signed(TRY)))


def _add_memory(c: LogCases) -> None:
    """Rows 39 to 42: what a verifier notices because it remembers, and what it cannot notice."""
    log, envelope = c.log, c.envelope
    small, large = log.prove(envelope, 30), log.prove(envelope)

    def case(name: str, row: int, code: int, *codes: str, **more: Any) -> None:
        for what in ("remembered", "consistency"):
            if what in more:
                more[what] = c.b.file(f"{name}.{what}", more[what])
        c.one(name, row, code, *codes, **more)

    case("remembered-the-same", 39, 0, proof=large, remembered=log.signed())
    case("checkpoint-rolled-back", 39, 1, "rollback", proof=small, remembered=log.signed())
    proven = log.consistency(30)
    case("older-checkpoint-proven", 39, 0, proof=small, remembered=log.signed(), consistency=proven)
    case("newer-checkpoint-proven", 39, 0, proof=large, remembered=log.signed(30), consistency=proven)
    case("newer-checkpoint-unproven", 39, 4, "consistency-missing", proof=large, remembered=log.signed(30))
    fork = log.copy()
    fork.items[0] = filler(0, "forged")
    forked = fork.prove(envelope)
    case("fork-of-the-same-size", 40, 1, "split-view", proof=forked, remembered=log.signed())
    lie = fork.consistency(30)
    case("fork-that-grew", 40, 1, "split-view", proof=forked, remembered=log.signed(30), consistency=lie)
    rebuilt = log.copy()
    del rebuilt.items[3]
    shorter = rebuilt.fill(5, "rebuilt").prove(envelope)
    lie = rebuilt.consistency(SIZE)
    case("leaf-deleted", 41, 1, "split-view", proof=shorter, remembered=log.signed(), consistency=lie)
    case("fork-nobody-notices", 42, 0, proof=forked)
    case("memory-damaged", 39, 2, "unreadable", proof=large, remembered=b"not a checkpoint\n")
    zero = HEADER + b"index 11\n\n" + log.signed(0)
    c.one("proof-in-the-empty-tree", 43, 1, "inclusion", proof=zero)
    empty_root = log.signed().replace(log.signed().split(b"\n")[2], b"")
    broken = TlogProof(TRY, log.prove_at(TRY).path, empty_root)
    c.one("checkpoint-root-empty", 43, 1, "checkpoint-form", proof=broken)


def _add_witnesses(c: LogCases) -> None:
    """Rows 7 and 44: cosignatures that count, and those that do not."""
    c.b.root("witnessed", trust_root(logged=True, witness_policy=POLICY))
    a, b, _ = WITNESSES
    head = c.log.head()

    def case(name: str, row: int, code: int, *codes: str, lines: list[Signature]) -> None:
        c.one(name, row, code, *codes, proof=c.log.prove(c.envelope, more=lines), trust="witnessed")

    one, two = a.cosign(head, LATER), b.cosign(head, LATER + 5)
    case("witnessed", 44, 0, lines=[one, two])
    case("witnessed-by-all", 44, 0, lines=[w.cosign(head, LATER) for w in WITNESSES])
    case("witnessed-by-too-few", 44, 4, "quorum", lines=[one])
    case("witnessed-by-none", 44, 4, "quorum", lines=[])
    case("witness-twice", 44, 4, "quorum", lines=[one, a.cosign(head, LATER + 9)])
    renamed = Witness("witness-d.example/w", seed=a.key.name)
    case("witness-under-another-name", 44, 4, "quorum", lines=[one, renamed.cosign(head, LATER)])
    own = Witness(ORIGIN, seed="log").cosign(head, LATER)
    case("log-cosigns-itself", 44, 4, "quorum", lines=[one, own])
    stranger = Witness("witness-x.example/w").cosign(head, LATER)
    case("witness-that-is-not-trusted", 44, 4, "quorum", lines=[one, stranger])
    other = b.cosign(c.log.head(SIZE - 1), LATER)
    case("cosignature-of-another-checkpoint", 44, 1, "cosignature", lines=[one, other])
    late = Signature(two.name, two.keyid, (LATER + 6).to_bytes(8, "big") + two.blob[8:])
    case("cosignature-time-altered", 44, 1, "cosignature", lines=[one, late])
    plain = Signature(two.name, two.keyid, two.blob[8:])
    case("cosignature-of-another-type", 44, 1, "cosignature", lines=[one, plain])
    before = b.cosign(head, ISSUED - 1)
    case("issued-after-a-witness-saw-it", 7, 1, "time-order", lines=[one, before])
    case("issued-when-a-witness-saw-it", 7, 0, lines=[one, b.cosign(head, ISSUED)])
    case("witness-without-a-clock", 7, 0, lines=[one, b.cosign(head, 0)])
    c.pack("screening-issued-after-a-witness", 7, 1, "time-order", proofs=_early(c), trust="witnessed")
    late_lines = [w.cosign(head, LATER + 86_400) for w in WITNESSES]
    whole = c.log.shared(c.opening, c.tries, c.summary, more=late_lines)
    c.pack("screening-witnessed", 44, 0, proofs=whole, trust="witnessed")
    few = c.log.shared(c.opening, c.tries, c.summary, more=late_lines[:1])
    c.pack("screening-witnessed-by-too-few", 44, 4, "quorum", proofs=few, trust="witnessed")


def _early(c: LogCases) -> bundle.ScreeningProofs:
    """Witnesses saw the whole log before its summary says that it was issued."""
    lines = [one.cosign(c.log.head(), LATER - 30_000) for one in WITNESSES]
    return c.log.shared(c.opening, c.tries, c.summary, more=lines)


def _add_screenings(c: LogCases) -> None:
    """One checkpoint for all members; rows 22, 24, 34 to 37, 47 on the level of a screening."""
    good = c.log.shared(c.opening, c.tries, c.summary)
    shared, names = dict(good.members), list(good.members)

    def with_members(members: dict[str, bytes]) -> bundle.ScreeningProofs:
        return bundle.ScreeningProofs(good.checkpoint, members)

    def without(name: str) -> bundle.ScreeningProofs:
        return with_members({key: one for key, one in shared.items() if key != name})

    lost = ("not-logged", "unaccounted")
    plain = bundle.encode_screening(c.opening, c.shot.tries(), c.summary)
    c.pack("screening-not-logged", 37, 1, *lost, "replaces", raw=plain)
    c.pack("screening-try-not-logged", 37, 1, *lost, proofs=without("000002"))
    c.pack("screening-opening-not-logged", 37, 1, "not-logged", proofs=without("opening"))
    c.pack("screening-summary-not-logged", 37, 1, "not-logged", proofs=without("summary"))
    unknown = ("proof-unsupported", "unaccounted")
    c.pack("screening-proofs-under-a-root-without-logs", 34, 4, *unknown, trust="good")
    swapped = {**shared, "000001": shared["000002"], "000002": shared["000001"]}
    c.pack("screening-proofs-swapped", 37, 1, "inclusion", "unaccounted", proofs=with_members(swapped))
    foreign = bundle.ScreeningProofs(c.log.copy(signer="foreign").signed(), shared)
    unsigned = ("checkpoint-unsigned", "unaccounted", "replaces")
    c.pack("screening-checkpoint-by-a-foreign-key", 35, 1, *unsigned, proofs=foreign)
    other = bundle.ScreeningProofs(c.log.copy(origin=OTHER).signed(), shared)
    lost = ("unaccounted", "replaces")
    c.pack("screening-checkpoint-of-another-log", 36, 1, "origin", *lost, proofs=other)
    cut = bundle.ScreeningProofs(c.log.signed(FIRST + 6), shared)
    c.pack("screening-log-truncated", 38, 1, "inclusion", *lost, proofs=cut)
    tried = Log(c.trust).fill(3).enter(c.tries[0], c.opening, *c.tries[1:], c.summary)
    before = tried.shared(c.opening, c.tries, c.summary)
    c.pack("screening-try-logged-before-its-opening", 7, 1, "time-order", "unaccounted", proofs=before)
    _add_mixed(c)
    _add_double(c)
    entries = archive.read(
        bundle.encode_screening(c.opening, c.shot.tries(), c.summary, good), entry_limit_bytes=1 << 20
    )
    at = [name for name, _ in entries].index(bundle.CHECKPOINT_NAME)
    for name, listed in (
        ("proof-of-nobody", [*entries, ("log/000099.proof", shared["000001"])]),
        ("proof-out-of-order", [*entries[:-2], entries[-1], entries[-2]]),
        ("proof-twice", [*entries, entries[-1]]),
        ("proof-without-a-checkpoint", [*entries[:at], *entries[at + 1 :]]),
        ("log-before-the-summary", [*entries[: at - 1], *entries[at:], entries[at - 1]]),
        ("log-with-a-stranger", [*entries, ("log/vkey", b"")]),
    ):
        c.pack(f"zip-{name}", 47, 2, "bundle-form", raw=archive.write(listed))
    assert names[0] == "opening" and names[-1] == "summary"


def _add_mixed(c: LogCases) -> None:
    """A member that brings a proof of its own, under another checkpoint than the others."""
    fork = c.log.copy()
    fork.items[0] = filler(0, "forged")
    good = c.log.shared(c.opening, c.tries, c.summary)
    first = c.shot.certificates[0][0]
    for name, log, size, code, reasons in (
        ("screening-member-under-the-same-checkpoint", c.log, SIZE, 0, ()),
        ("screening-member-under-an-older-checkpoint", c.log, 30, 4, ("consistency-missing",)),
        ("screening-member-in-a-fork", fork, SIZE, 1, ("split-view",)),
    ):
        own = bundle.encode_try(c.envelope, first.manifest or b"", log.prove(c.envelope, size))
        tries = [own, *c.shot.tries()[1:]]
        raw = bundle.encode_screening(c.opening, tries, c.summary, good)
        c.pack(name, 40, code, *reasons, raw=raw)


def _double(c: LogCases) -> tuple[Screening, Log]:
    """A lab that certifies one try twice and logs both."""
    shot = c.b.world.screening("double-logged", tasks=("alpha",))
    shot.run("alpha", 1, WRONG)
    shot.run("alpha", 1, PASS)
    for index in (2, 3):
        shot.run("alpha", index, PASS)
    log = Log(c.trust).enter(shot.opening.envelope, *(one.envelope for one, _ in shot.certificates))
    return shot, log.enter(shot.summary().envelope)


def _add_double(c: LogCases) -> None:
    shot, log = _double(c)
    envelopes = [one.envelope for one, _ in shot.certificates]
    proofs = log.shared(shot.opening.envelope, envelopes, shot.summary().envelope)
    raw = bundle.encode_screening(shot.opening.envelope, shot.tries(), shot.summary().envelope, proofs)
    c.pack("screening-certified-twice-and-logged", 22, 1, "double", "unaccounted", raw=raw)
    # The second end alone, as if the first one had never been: the bundle cannot show it, the log does.
    hidden = [envelopes[1], *envelopes[2:]]
    del shot.certificates[0]
    closing = shot.summary().envelope
    lie = log.copy().enter(closing)
    proofs = lie.shared(shot.opening.envelope, hidden, closing)
    raw = bundle.encode_screening(shot.opening.envelope, shot.tries(), closing, proofs)
    c.pack("screening-first-certificate-hidden", 22, 0, raw=raw)


def _add_audits(c: LogCases) -> None:
    """Rows 5, 6, 22, 39 to 41: what only a reader of the whole log sees."""
    genuine = Log(c.trust).enter(c.opening, *c.tries, c.summary)

    def audit(name: str, row: int, code: int, *codes: str, log: Log, **more: Any) -> None:
        withheld = more.pop("withheld", frozenset())
        folder = log.write(c.b.folder / f"log-{name}", withheld=withheld)
        if "remembered" in more:
            more["remembered"] = c.b.file(f"audit-{name}.remembered", more["remembered"])
        edit = more.pop("edit", None)
        if edit is not None:
            edit(folder)
        more.setdefault("trust", "logged")
        c.b.case(f"audit-{name}", row, "audit", folder.name, code, *codes, **more)

    audit("good", 22, 0, log=genuine)
    audit("withheld", 31, 0, log=genuine, withheld=frozenset({2, 3}))
    _, twice = _double(c)
    audit("certified-twice", 22, 1, "double", log=twice)
    _, twice = _double(c)
    audit("certified-twice-and-withheld", 22, 1, "double", log=twice, withheld=frozenset(range(9)))
    early = Log(c.trust).enter(c.tries[0], c.opening, *c.tries[1:], c.summary)
    audit("try-before-its-opening", 7, 1, "time-order", log=early)
    audit("no-opening", 24, 1, "time-order", log=Log(c.trust).enter(*c.tries))
    audit("revoked-in-the-middle", 5, 1, "key-revoked", log=genuine.copy(), trust="audit-revoked")
    audit("retired-in-the-middle", 6, 1, "key-window", log=genuine.copy(), trust="audit-retired")
    revoked = {"fromIndex": 5, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}
    c.b.root("audit-revoked", trust_root(logged=True, revoked=revoked))
    c.b.root("audit-retired", trust_root(logged=True, until_index=5))
    audit("key-of-nobody", 3, 1, "no-trusted-key", log=genuine, trust="logged-attacker")
    years: dict[str, Any] = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
    attacker = founding.key_entry(Witness("attacker").key.raw, log=ORIGIN, **years)
    c.b.root("logged-attacker", trust_root(logged=True, keys=[attacker]))
    swapped = genuine.copy()
    digests = list(swapped.bodies)
    first, second = digests[1], digests[2]
    swapped.bodies[first], swapped.bodies[second] = swapped.bodies[second], swapped.bodies[first]
    audit("statements-swapped", 37, 1, "inclusion", log=swapped)
    spoilt = genuine.copy()
    spoilt.bodies[first] = spoilt.bodies[first].replace(b'"sig":"', b'"sig":"A', 1)
    audit("statement-damaged", 30, 1, "form", log=spoilt)
    fork = genuine.copy()
    fork.items[0] = filler(0, "forged")
    audit("fork", 40, 1, "split-view", log=genuine.copy(), remembered=fork.signed(8))
    audit("rollback", 39, 1, "rollback", log=genuine.copy(), remembered=genuine.copy().fill(3).signed())
    audit("remembered", 39, 0, log=genuine.copy(), remembered=genuine.signed(8))
    deleted = genuine.copy()
    del deleted.items[4]
    audit("leaf-deleted", 41, 1, "split-view", log=deleted.enter(c.tries[3]), remembered=genuine.signed(9))
    audit("foreign-key", 35, 1, "checkpoint-unsigned", log=genuine.copy(signer="foreign"))
    audit("unknown-log", 36, 1, "origin", log=genuine.copy(origin=OTHER))
    ended = trust_root(logged=True, logs=[founding.log_entry(ORIGIN, genuine.key.public, final_size=5)])
    c.b.root("audit-ended", ended)
    audit("beyond-its-final-size", 38, 1, "log-closed", log=genuine.copy(), trust="audit-ended")
