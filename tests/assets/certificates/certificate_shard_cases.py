"""A screening that was under way when one shard of the log ended and the next began (rows 6, 22, 38-41)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from certificate_builder import Builder
from certificate_log import Log
from certificate_world import ORIGIN, key, payload_of, resign, trust_root

from orchestrator.certificates import bundle, founding, trust
from orchestrator.log import entry

NEXT = "assize.example/test-lab/log/2027"
IN_OLD = 4
"""How many of the ten tries were certified before the new shard began."""


def shards_root(final_size: int | None = None, until_index: int | None = None) -> bytes:
    """Two shards, each with its own certificate key; the first is closed where a final size is given."""
    years: dict[str, Any] = {"not_before": "2026-01-01T00:00:00Z", "not_after": "2028-01-01T00:00:00Z"}
    keys = [
        founding.key_entry(key("cert").public, log=ORIGIN, until_index=until_index, **years),
        founding.key_entry(key("cert-2027").public, log=NEXT, **years),
    ]
    logs = [
        founding.log_entry(ORIGIN, key("log").public, final_size=final_size),
        founding.log_entry(NEXT, key("log").public),
    ]
    return trust_root(keys=keys, logs=logs)


def again(envelope: bytes) -> bytes:
    """The same statement, signed with the key of the new shard."""
    return resign(payload_of(envelope), key("cert-2027"))


class Shards:
    """The genuine screening in two shards, and the same with one part replaced."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        b.root("shards", shards_root())
        self.trust = trust.parse(b.roots["shards"])
        self.shot = b.base
        self.opening = b.base.opening.envelope
        signed = [one.envelope for one, _ in b.base.certificates]
        self.tries = signed[:IN_OLD] + [again(one) for one in signed[IN_OLD:]]
        self.summary = again(b.base.summary().envelope)
        self.old = Log(self.trust).enter(self.opening, *self.tries[:IN_OLD])
        self.new = self.after(self.old).enter(*self.tries[IN_OLD:], self.summary)

    def after(self, old: Log) -> Log:
        """A new shard that begins with the link to another."""
        new = Log(self.trust, origin=NEXT)
        new.items.append(entry.shard_entry(old.head()))
        return new

    def pack(self, old: Log, new: Log, opening: bytes, tries: Sequence[bytes], summary: bytes) -> bytes:
        """The screening bundle with every member's proof in the shard that it is in."""
        envelopes = [opening, *tries, summary]
        names = ["opening", *(f"{n:06d}" for n in range(1, len(tries) + 1)), "summary"]
        proofs = []
        for envelope in envelopes:
            raw = entry_in(envelope, self.trust)
            log = new if raw in new.items else old
            proofs.append(log.prove_at(log.items.index(raw)))
        manifests = [one.manifest or b"" for one, _ in self.shot.certificates]
        bodies = [bundle.encode_try(e, m) for e, m in zip(tries, manifests, strict=True)]
        return bundle.encode_screening(opening, bodies, summary, bundle.ScreeningProofs.joined(names, proofs))


def entry_in(envelope: bytes, root: trust.TrustRoot) -> bytes:
    """The log entry of an envelope."""
    return Log(root).enter(envelope).items[0]


def add_shards(b: Builder) -> None:
    """Everything about shards."""
    s = Shards(b)
    _add_screenings(s)
    _add_audits(s)


def _add_screenings(s: Shards) -> None:
    b = s.b

    def pack(name: str, row: int, code: int, *codes: str, raw: bytes, root: str = "shards") -> None:
        b.add(name, row, "screening", raw, code, *codes, trust=root)

    good = s.pack(s.old, s.new, s.opening, s.tries, s.summary)
    pack("shards-screening", 6, 0, raw=good)
    b.root("shards-closed", shards_root(final_size=len(s.old.items), until_index=len(s.old.items)))
    pack("shards-screening-old-one-closed", 6, 0, raw=good, root="shards-closed")
    b.root("shards-closed-early", shards_root(final_size=len(s.old.items) - 1))
    lost = ("unaccounted", "replaces")
    pack("shards-old-one-ended-before", 38, 1, "log-closed", *lost[:1], raw=good, root="shards-closed-early")
    late = s.after(s.old).enter(again(s.opening), *s.tries[IN_OLD:], s.summary)
    raw = s.pack(s.old, late, again(s.opening), s.tries, s.summary)
    pack("shards-tries-before-their-opening", 7, 1, "time-order", "unaccounted", raw=raw)
    foreign = s.old.copy(signer="foreign")
    raw = s.pack(foreign, s.new, s.opening, s.tries, s.summary)
    pack("shards-old-checkpoint-by-a-foreign-key", 35, 1, "checkpoint-unsigned", *lost[:1], raw=raw)


def _add_audits(s: Shards) -> None:
    b = s.b

    def audit(
        name: str,
        row: int,
        code: int,
        *codes: str,
        old: Log | None = s.old,
        new: Log = s.new,
        root: str = "shards",
        of: str = NEXT,
    ) -> None:
        base = b.folder / f"log-shards-{name}"
        for log in (old, new):
            if log is not None:
                log.write(base / log.origin)
        b.case(f"audit-shards-{name}", row, "audit", f"{base.name}/{of}", code, *codes, trust=root)

    audit("good", 6, 0)
    audit("closed", 6, 0, root="shards-closed")
    audit("the-old-one", 6, 0, root="shards-closed", of=ORIGIN)
    audit("old-one-missing", 38, 4, "log-missing", old=None)
    bare = Log(s.trust, origin=NEXT).enter(*s.tries[IN_OLD:], s.summary)
    audit("without-a-link", 41, 1, "shard-link", new=bare)
    audit("without-a-link-or-the-old-one", 41, 1, "shard-link", "log-missing", new=bare, old=None)
    fork = s.old.copy()
    del fork.items[1]
    audit("linked-to-another-history", 40, 1, "shard-link", new=s.after(fork).enter(*s.tries[IN_OLD:]))
    went_on = s.old.copy().enter(s.shot.noticed(0))
    b.root("shards-ended", shards_root(final_size=len(s.old.items)))
    audit("old-one-went-on", 41, 1, "shard-link", old=went_on)
    audit(
        "old-one-longer-than-it-ended",
        38,
        1,
        "log-closed",
        "shard-link",
        old=went_on,
        root="shards-ended",
    )
    audit(
        "old-one-cut",
        39,
        1,
        "rollback",
        "shard-link",
        old=Log(s.trust).enter(s.opening),
        root="shards-closed",
    )
    twice = s.after(s.old).enter(again(s.tries[0]), *s.tries[IN_OLD:], s.summary)
    audit("certified-again", 22, 1, "double", new=twice)
    linked = s.after(s.old).enter(*s.tries[IN_OLD:])
    linked.items.append(entry.shard_entry(Log(s.trust, origin="assize.example/test-lab/log/2025").head()))
    audit("a-link-in-the-middle", 41, 1, "shard-link", new=linked)
    stray = s.old.copy()
    stray.items.insert(0, entry.shard_entry(Log(s.trust, origin="assize.example/test-lab/log/2025").head()))
    audit("the-first-with-a-link", 41, 1, "shard-link", old=stray, new=s.after(stray).enter(s.tries[-1]))
