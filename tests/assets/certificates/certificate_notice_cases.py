"""Notices about certificates, screenings and keys: what they change, and what is not one (row 48)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from certificate_builder import Builder
from certificate_log import Log
from certificate_log_cases import SIZE, TRY, LogCases
from certificate_world import (
    ORIGIN,
    PASS,
    changed,
    json_bytes,
    key,
    key_event,
    payload_of,
    resign,
    trust_root,
)

from orchestrator.certificates import bundle
from orchestrator.certificates.bundle import ListedNotice, NoticeList
from orchestrator.log import tiles

P = "predicate"
ROW = 48
FAILED = 1
"""Place of a failed try in the genuine screening; 0 is a pass."""


class NoticeCases(LogCases):
    """The genuine screening, logged, and lists of notices that bundles bring along."""

    def listed(self, log: Log, notices: Sequence[bytes], through: int | None = None) -> NoticeList:
        """A list of logged notices with their proofs, complete through the whole log."""
        items = tuple(ListedNotice(one, log.prove(one)) for one in notices)
        return NoticeList(len(log.items) if through is None else through, items)

    def noticed(
        self,
        name: str,
        code: int,
        *codes: str,
        log: Log | None = None,
        notices: Sequence[bytes] = (),
        listed: NoticeList | None = None,
        place: int = 0,
        **more: Any,
    ) -> None:
        """One certificate of the screening in a log that also has `notices`, and the list of them."""
        log = log or self.log.copy().enter(*notices)
        listed = listed or self.listed(log, notices)
        signed, _ = self.shot.certificates[place]
        raw = bundle.encode_try(signed.envelope, signed.manifest or b"", log.prove(signed.envelope), listed)
        more.setdefault("trust", "logged")
        self.b.add(name, ROW, "try", raw, code, *codes, **more)

    def screening(self, name: str, code: int, *codes: str, log: Log, listed: NoticeList, **more: Any) -> None:
        """The genuine screening under a checkpoint of `log`, with a list of notices."""
        proofs = log.shared(self.opening, self.tries, self.summary)
        raw = bundle.encode_screening(self.opening, self.shot.tries(), self.summary, proofs, listed)
        self.pack(name, ROW, code, *codes, raw=raw, **more)

    def published(self, name: str, log: Log, *, withheld: frozenset[int] = frozenset()) -> str:
        """`log` as files below a folder of published logs; returns its name."""
        log.write(self.b.folder / name / ORIGIN, withheld=withheld)
        return name


def add_notices(b: Builder) -> None:
    """Everything about notices."""
    c = NoticeCases(b)
    for part in (
        _add_kinds,
        _add_lists,
        _add_forged,
        _add_foreign,
        _add_published,
        _add_screenings,
        _add_audits,
    ):
        part(c)


def _add_kinds(c: NoticeCases) -> None:
    """What a genuine notice of each kind does to a pass, and to a failure."""
    shot = c.shot
    c.noticed("notice-supersession", 3, "superseded", notices=[shot.noticed(0)])
    other = shot.certificates[2][0].digest
    c.noticed("notice-replaced-by", 3, "superseded", notices=[shot.noticed(0, replaced_by=other)])
    c.noticed("notice-contamination", 3, "contaminated", notices=[shot.noticed(0, "contamination")])
    c.noticed("notice-correction", 0, notices=[shot.noticed(0, "correction")], notes=["corrected"])
    c.noticed("notice-key-event", 0, notices=[key_event(c.b.world)], notes=["key-event"])
    c.noticed("notice-whole-screening", 3, "contaminated", notices=[shot.noticed_whole()])
    early = Log(c.trust).enter(c.opening, shot.noticed_whole(), *c.tries, c.summary)
    listed = c.listed(early, [shot.noticed_whole()])
    c.noticed("notice-whole-screening-while-it-ran", 3, "contaminated", log=early, listed=listed)
    superseded = [shot.noticed(FAILED)]
    c.noticed("notice-about-a-failure", 3, "failed", "superseded", notices=superseded, place=FAILED)
    both = [shot.noticed(0, "correction"), shot.noticed(0)]
    c.noticed("notice-two-kinds", 3, "superseded", notices=both, notes=["corrected"])


def _add_lists(c: NoticeCases) -> None:
    """How far a list says that it goes."""
    c.noticed("notices-none", 0)
    stale = NoticeList(TRY)
    c.noticed("notices-older-than-the-certificate", 4, "notices-stale", listed=stale)
    c.noticed("notices-of-the-empty-log", 4, "notices-stale", listed=NoticeList(0))
    c.noticed("notices-through-the-certificate", 0, listed=NoticeList(TRY + 1))
    c.noticed("notices-beyond-the-checkpoint", 4, "notices-unproven", listed=NoticeList(SIZE + 1))
    good = c.log.copy().enter(c.shot.noticed(0))
    plain = json.loads(
        bundle.encode_try(
            c.envelope, c.b.manifest, good.prove(c.envelope), c.listed(good, [c.shot.noticed(0)])
        )
    )
    item, empty = plain["notices"]["envelopes"][0], {"envelope": "", "proof": None}
    for name, notices in (
        ("notices-not-an-object", [item]),
        ("notices-size-negative", {"throughSize": -1, "envelopes": []}),
        ("notices-size-text", {"throughSize": "40", "envelopes": []}),
        ("notices-without-a-size", {"envelopes": []}),
        ("notices-field-unknown", {"throughSize": 41, "envelopes": [], "keys": []}),
        ("notices-bare-envelopes", {"throughSize": 41, "envelopes": [item["envelope"]]}),
        ("notices-proof-a-number", {"throughSize": 41, "envelopes": [{**item, "proof": 1}]}),
        ("notices-not-base64", {"throughSize": 41, "envelopes": [{**item, "envelope": "A"}]}),
        ("notices-by-the-thousand", {"throughSize": 41, "envelopes": [empty] * 4097}),
    ):
        raw = json_bytes({**plain, "notices": notices})
        c.b.add(name, ROW, "try", raw, 2, "bundle-form", trust="logged")


def _add_forged(c: NoticeCases) -> None:
    """What is no notice of this lab: 1, whatever it says, and the certificate stays authentic."""
    genuine = c.shot.noticed(0)
    bad = "notice-invalid"

    def listed(envelope: bytes, proof: bytes | None) -> NoticeList:
        return NoticeList(SIZE + 1, (ListedNotice(envelope, proof),))

    log = c.log.copy().enter(genuine)
    proof = log.prove(genuine)

    def case(
        name: str, envelope: bytes, *codes: str, proof: bytes | None = proof, code: int = 1, **more: Any
    ) -> None:
        c.noticed(name, code, *(codes or (bad,)), log=log, listed=listed(envelope, proof), **more)

    case("notice-not-logged", genuine, proof=None)
    case("notice-with-the-proof-of-another", genuine, proof=log.prove(c.envelope))
    case("notice-proof-damaged", genuine, proof=proof[:-9])
    data = payload_of(genuine)
    case("notice-by-an-unknown-key", resign(data, key("attacker")))
    case("notice-by-the-log-key", resign(data, key("log")))
    forged = genuine.replace(b'"sig":"', b'"sig":"AAAA', 1)
    case("notice-signature-forged", forged[: len(genuine) - 8] + genuine[-8:])
    case("notice-edited", genuine.replace(genuine[20:24], b"AAAA", 1))
    case("notice-not-an-envelope", b"{}")
    case("notice-is-a-certificate", c.tries[1], proof=log.prove(c.tries[1]))
    case("notice-of-another-kind", resign(changed(genuine, P, "kind", "amnesty")))
    case("notice-without-a-reason", resign(changed(genuine, P, "reason", "")))
    case("notice-reason-cyrillic", resign(changed(genuine, P, "reason", "\u0430")))
    case("notice-private", resign(changed(genuine, P, "visibility", "private")))
    case("notice-by-another-issuer", resign(changed(genuine, P, "issuer", "assize.example/other")))
    version = changed(genuine, "predicateType", "https://assize.example/attestation/notice/v2")
    case("notice-v2", resign(version), "notice-undecided", code=4)
    case("notice-critical", resign(changed(genuine, P, "critical", ["x"])), "notice-undecided", code=4)
    for name, *edit in (
        ("notice-key-event-about-a-certificate", "kind", "key-event"),
        ("notice-correction-with-a-successor", "replacedBy", {"sha256": c.shot.opening.digest}),
        ("notice-replaced-by-itself", "replacedBy", {"sha256": c.shot.certificates[0][0].digest}),
        ("notice-without-its-try", "try", None),
    ):
        base = genuine if "correction" not in name else c.shot.noticed(0, "correction")
        wrong = resign(changed(base, P, *edit))
        c.noticed(name, 1, bad, notices=[wrong])
    three = ["screening-opening/v1", "try-certificate/v1", "screening-summary/v1"]
    c.b.root("logged-without-notices", trust_root(logged=True, usages=three))
    case("notice-by-a-key-without-the-usage", genuine, trust="logged-without-notices")
    revoked = {"fromIndex": SIZE, "reason": "compromise", "announcedAt": "2026-10-09T08:00:00Z"}
    c.b.root("logged-revoked-before-the-notice", trust_root(logged=True, revoked=revoked))
    case("notice-by-a-stolen-key", genuine, trust="logged-revoked-before-the-notice")
    here = c.published("published-stolen", log)
    more: dict[str, Any] = {"trust": "logged-revoked-before-the-notice", "published": here}
    c.noticed("notice-by-a-stolen-key-published", 0, log=log, listed=NoticeList(SIZE + 1), **more)
    old: dict[str, Any] = {"trust": "logged-without-notices", "published": here}
    c.noticed("notice-by-an-unknown-usage-published", 4, "notice-withheld", listed=NoticeList(SIZE), **old)


def _add_foreign(c: NoticeCases) -> None:
    """Genuine notices that are not about this certificate, and those that came before it."""
    shot, foreign = c.shot, "notice-mismatch"
    c.noticed("notice-of-another-certificate", 1, foreign, notices=[shot.noticed(2)])
    other = c.b.world.screening("noticed-elsewhere")
    other.run("alpha", 1, PASS)
    c.noticed("notice-of-another-screening", 1, foreign, notices=[other.noticed_whole()])
    c.noticed("notice-of-another-lab-certificate", 1, foreign, notices=[other.noticed(0)])
    c.noticed("notice-of-another-key", 1, foreign, notices=[key_event(c.b.world, "witness-a")])
    c.noticed("notice-of-the-log-key", 1, foreign, notices=[key_event(c.b.world, "log")])
    notice = shot.noticed(0)
    early = Log(c.trust).enter(notice, c.opening, *c.tries, c.summary)
    c.noticed(
        "notice-before-its-certificate", 1, "notice-invalid", log=early, listed=c.listed(early, [notice])
    )
    log = c.log.copy().enter(notice)
    twice = c.listed(log, [notice, notice])
    c.noticed("notice-twice", 1, "notice-invalid", "superseded", log=log, listed=twice)


def _add_published(c: NoticeCases) -> None:
    """What the published log has and the bundle does not say."""
    notice = c.shot.noticed(0)
    log = c.log.copy().enter(notice).fill(3, "after")
    here = c.published("published", log)
    none = NoticeList(SIZE + 4)
    c.noticed("notice-suppressed", 1, "notice-suppressed", "superseded", log=log, listed=none, published=here)
    c.noticed("notice-suppressed-and-unseen", 0, log=log, listed=none)
    older = NoticeList(SIZE)
    c.noticed("notice-after-the-bundle", 3, "superseded", listed=older, published=here)
    all_of_it = c.listed(log, [notice])
    c.noticed("notice-listed-and-published", 3, "superseded", log=log, listed=all_of_it, published=here)
    c.one("notice-only-published", ROW, 3, "superseded", published=here)
    c.noticed("notices-stale-but-published", 3, "superseded", listed=NoticeList(TRY), published=here)
    c.noticed("notice-of-another-published", 0, log=log, listed=none, place=2, published=here)
    hidden = c.published("published-withheld", log, withheld=frozenset({SIZE}))
    c.noticed("notice-withheld", 4, "notice-withheld", log=log, listed=none, published=hidden)
    cut = c.published("published-cut", log)
    folder = c.b.folder / cut / ORIGIN
    lied = Log(c.trust)
    lied.items = [*log.items[:SIZE], log.items[0], *log.items[SIZE + 1 :]]
    path = tiles.tile_path("entries", 0, len(log.items))
    (folder / path).write_bytes(tiles.join_bundle(lied.items))
    c.noticed("notice-cut-out-of-the-published-log", 4, "notices-unread", log=log, listed=none, published=cut)
    copy = c.published("published-older", Log(c.trust).fill(5))
    c.one("published-copy-older-than-the-certificate", ROW, 0, published=copy)
    early = Log(c.trust).fill(TRY - 2).enter(notice, c.opening, *c.tries, c.summary)
    ahead = c.published("published-before", early)
    c.noticed("published-before-its-certificate", 0, log=early, listed=c.listed(early, []), published=ahead)


def _add_screenings(c: NoticeCases) -> None:
    """Notices about members of a screening, and about all of it."""
    shot = c.shot
    c.screening("screening-notices-none", 0, log=c.log, listed=NoticeList(SIZE))
    c.screening("screening-notices-stale", 4, "notices-stale", log=c.log, listed=NoticeList(TRY + 3))
    c.screening("screening-notices-unproven", 4, "notices-unproven", log=c.log, listed=NoticeList(SIZE + 1))
    for name, notice, code, *codes in (
        ("pass-superseded", shot.noticed(0), 3, "superseded"),
        ("failure-superseded", shot.noticed(FAILED), 3, "superseded"),
        ("contaminated", shot.noticed_whole(), 3, "contaminated"),
        ("corrected", shot.noticed_whole("correction"), 0),
        ("key-event", key_event(c.b.world), 0),
    ):
        log = c.log.copy().enter(notice)
        notes = {"corrected": ["corrected"], "key-event": ["key-event"]}.get(name, [])
        c.screening(f"screening-{name}", code, *codes, log=log, listed=c.listed(log, [notice]), notes=notes)
    other = c.b.world.screening("noticed-elsewhere-again")
    foreign = other.noticed_whole()
    log = c.log.copy().enter(foreign)
    c.screening("screening-notice-of-another", 1, "notice-mismatch", log=log, listed=c.listed(log, [foreign]))
    hidden = c.log.copy().enter(shot.noticed(0))
    here = c.published("published-screening", hidden)
    both = ("notice-suppressed", "superseded")
    none = NoticeList(SIZE + 1)
    c.screening("screening-notice-suppressed", 1, *both, log=hidden, listed=none, published=here)
    proofs = c.log.shared(c.opening, c.tries, c.summary)
    raw = bundle.encode_screening(c.opening, shot.tries(), c.summary, proofs)
    c.pack("screening-notice-only-published", ROW, 3, "superseded", raw=raw, published=here)
    with_both = bundle.encode_screening(c.opening, shot.tries(), c.summary, None, NoticeList(SIZE))
    lost = ("not-logged", "unaccounted", "replaces")
    c.pack("screening-notices-without-proofs", ROW, 1, *lost, raw=with_both)


def _add_audits(c: NoticeCases) -> None:
    """Notices as a reader of the whole log sees them."""
    shot = c.shot
    genuine = Log(c.trust).enter(c.opening, *c.tries, c.summary)

    def audit(
        name: str, code: int, *codes: str, log: Log, withheld: frozenset[int] = frozenset(), **more: Any
    ) -> None:
        folder: Path = log.write(c.b.folder / f"log-{name}", withheld=withheld)
        more.setdefault("trust", "logged")
        c.b.case(f"audit-{name}", ROW, "audit", folder.name, code, *codes, **more)

    noticed = genuine.copy().enter(shot.noticed(0), shot.noticed_whole("correction"), key_event(c.b.world))
    audit("with-notices", 0, log=noticed)
    last = len(genuine.items)
    audit("notice-withheld", 4, "notice-withheld", log=noticed, withheld=frozenset({last}))
    audit("notice-without-the-usage", 1, "key-usage", log=noticed.copy(), trust="logged-without-notices")
    wrong = resign(changed(shot.noticed(0), P, "kind", "key-event"))
    audit("notice-contradicts-itself", 1, "schema", log=genuine.copy().enter(wrong))
    swapped = noticed.copy()
    digests = [raw.split(b"\n")[1].decode() for raw in swapped.items[last : last + 2]]
    swapped.bodies[digests[0]] = swapped.bodies[digests[1]]
    audit("notice-swapped", 1, "inclusion", log=swapped)
