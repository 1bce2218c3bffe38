"""Notices about what is being verified: from the bundle's list, and from the published log where it is here.

Which kinds change what a certificate counts for, and why:

- `supersession` (another statement stands in its place) and `contamination` (the agent could know the
  task, or the sandbox was not clean): a pass no longer counts. What it claims is withdrawn by its issuer.
- `correction` changes nothing: it tells a mistake that decides nothing. Whoever has to correct what does
  decide withdraws the certificate by a supersession, in the open.
- `key-event` changes nothing: which entries a key may sign is decided by the trust root alone. Otherwise
  whoever stole a key could void, by words, what the lab signed with it.

A failure that is superseded or contaminated stays a failure: a notice can lower a score, never raise it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from orchestrator.certificates import schema
from orchestrator.certificates.bundle import ListedNotice, NoticeList
from orchestrator.certificates.logged import LogChecks
from orchestrator.certificates.opened import Opened, open_statement
from orchestrator.certificates.shards import follower
from orchestrator.certificates.trust import TrustRoot
from orchestrator.verification.errors import EXIT_OK, EXIT_UNDECIDED, Finding, VerificationError, worst

_CODE: Final = {
    "correction": "corrected",
    "supersession": "superseded",
    "contamination": "contaminated",
    "key-event": "key-event",
}
VOIDING: Final = frozenset({"superseded", "contaminated"})
"""The reason codes under which a pass no longer counts."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice that holds; `subject` is the digest of what it is about, `index` its place in `log`."""

    digest: str
    kind: str
    subject: str
    about: str
    reason: str
    issued_at: str
    screening: str | None
    place: str
    replaced_by: str | None
    index: int | None
    log: str | None

    def finding(self, where: str = "") -> Finding:
        """What it means for a certificate that it is about."""
        instead = "" if self.replaced_by is None else f", replaced by {self.replaced_by[:12]}"
        return Finding(_CODE[self.kind], f"{self.kind} of {self.issued_at}{instead}: {self.reason}", where)


@dataclass(frozen=True, slots=True)
class Noticed:
    """The notices about what was verified; `through` is the log size up to which they are known, None: not.

    `published` tells that the published log was read, and not only what the bundle brings along. Where it was
    not, `later` is the next log of the trust root, which goes on where this one ended.
    """

    through: int | None = None
    notices: tuple[Notice, ...] = ()
    published: bool = False
    later: str | None = None

    def summary(self) -> str:
        """How many there are, through which size, and where those of later may be."""
        later = "" if self.later is None else f"; later ones are in {self.later} (--log)"
        return f"{len(self.notices) or 'none'} through size {self.through}{later}"

    def about(self, *subjects: str) -> tuple[Notice, ...]:
        """Those about any of these digests."""
        return tuple(one for one in self.notices if one.subject in subjects)


NOTHING_KNOWN: Final = Noticed()


@dataclass(frozen=True)
class Concerned:
    """What a list of notices may be about, in the log `origin`.

    `certificates` and `openings` map digests to log indexes (None where not logged), `keyids` are the keys
    that signed them. `newest` is the last index: a list that ends before it says nothing of that one.
    """

    origin: str | None
    certificates: Mapping[str, int | None]
    openings: Mapping[str, int | None]
    keyids: frozenset[str] = frozenset()
    newest: int | None = None

    def has(self, notice: Notice) -> bool:
        """Whether a notice is about any of it."""
        if notice.about == schema.KEY_SUBJECT:
            return notice.subject[:32] in self.keyids
        return notice.subject in (self.certificates if notice.about == schema.TRY_SUBJECT else self.openings)

    def first(self) -> int:
        """No notice about any of it is logged before this index."""
        return min(
            (index or 0 for index in (*self.openings.values(), *self.certificates.values())), default=0
        )


@dataclass(frozen=True)
class Published:
    """What published logs say: `sizes` by origin, notices that hold, and entries that nobody can read."""

    sizes: Mapping[str, int]
    notices: Sequence[Notice]
    unreadable: Sequence[tuple[str, int, str]] = field(default=())


class NoticeSource(Protocol):
    """Where published notices come from."""

    def read(self, trust: TrustRoot, origin: str, start: int) -> Published | None:
        """Every notice from index `start` of the log `origin` on, and of other logs; None without that log.

        `trust` is the root that was verified with: a bundle may have led to a newer one.
        Raises `VerificationError` when the log is not what its checkpoint says.
        """


def notice_of(opened: Opened, index: int | None, log: str | None) -> Notice:
    """The notice in a statement whose findings are good."""
    body: dict[str, Any] = opened.predicate
    subject = opened.statement["subject"][0]
    slot, screening, key = body["try"], body["screening"], body["key"]
    if slot is not None:
        place = f"{slot['taskId']} try {slot['index']} attempt {slot['attempt']}"
    else:
        place = "the whole screening" if key is None else f"key {key['keyid']} {key['event']}"
    return Notice(
        digest=opened.digest,
        kind=body["kind"],
        subject=subject["digest"]["sha256"],
        about=subject["name"],
        reason=body["reason"],
        issued_at=body["time"]["issuedAt"],
        screening=None if screening is None else screening["id"],
        place=place,
        replaced_by=None if body["replacedBy"] is None else body["replacedBy"]["sha256"],
        index=index,
        log=log,
    )


def gather(
    listed: NoticeList | None, concerned: Concerned, logs: LogChecks, source: NoticeSource | None
) -> tuple[Noticed, list[Finding]]:
    """Every notice about what is concerned, and what is wrong with the list that a bundle brings along."""
    if concerned.origin is None:
        unsupported = Finding("notices-unsupported", "the trust root lists no log that notices could be in")
        return NOTHING_KNOWN, [] if listed is None else [unsupported]
    gathering = _Gathering(concerned, logs)
    if listed is not None:
        gathering.take_list(listed)
    if source is not None:
        gathering.take_published(source, listed)
    return gathering.conclude(listed)


class _Gathering:
    """Collects notices by digest, each once."""

    def __init__(self, concerned: Concerned, logs: LogChecks) -> None:
        self._concerned, self._logs = concerned, logs
        self._found: dict[str, Notice] = {}
        self._findings: list[Finding] = []
        self._through: int | None = None
        self._published = False

    def take_list(self, listed: NoticeList) -> None:
        """The list of a bundle: each must be a notice of this lab about this, and logged."""
        head = self._logs.size_of(self._concerned.origin or "")
        if head is not None and listed.through_size > head:
            told = f"notices through size {listed.through_size} under a checkpoint of size {head}"
            self._findings.append(Finding("notices-unproven", told))
        self._through = listed.through_size if head is None else min(listed.through_size, head)
        for number, item in enumerate(listed.items, 1):
            where = f"notice {number}"
            try:
                self._take(self._open(item), where)
            except VerificationError as error:
                self._refuse(error.findings, where)

    def _open(self, item: ListedNotice) -> Notice:
        opened, index = open_statement(item.envelope, schema.NOTICE, self._logs, item.proof, aside=True)
        wrong = [one for one in opened.findings if one.rule.exit_code != EXIT_OK]
        if wrong:
            first, *more = wrong
            raise VerificationError(first.code, first.detail, more=tuple(more))
        return notice_of(opened, index, self._logs.trust.keys[opened.keyid].log)

    def _take(self, notice: Notice, where: str) -> None:
        concerned = self._concerned
        if not concerned.has(notice):
            told = f"a {notice.kind} about {notice.about} {notice.subject[:12]}, which is not in this bundle"
            self._findings.append(Finding("notice-mismatch", told, where))
        elif notice.digest in self._found:
            self._findings.append(Finding("notice-invalid", "the same notice is listed twice", where))
        elif self._too_early(notice):
            self._findings.append(Finding("notice-invalid", "logged before what it is about", where))
        else:
            self._found[notice.digest] = notice

    def _too_early(self, notice: Notice) -> bool:
        if notice.log != self._concerned.origin or notice.index is None:
            return False
        about = {**self._concerned.openings, **self._concerned.certificates}.get(notice.subject)
        return about is not None and notice.index <= about

    def _refuse(self, wrong: Sequence[Finding], where: str) -> None:
        undecided = worst({one.rule.exit_code for one in wrong}) == EXIT_UNDECIDED
        code = "notice-undecided" if undecided else "notice-invalid"
        told = "; ".join(f"{one.code}: {one.detail}" for one in wrong[:3])
        self._findings.append(Finding(code, told, where))

    def take_published(self, source: NoticeSource, listed: NoticeList | None) -> None:
        """What the published log has beside the list; one that the list leaves out was suppressed."""
        origin = self._concerned.origin or ""
        try:
            seen = source.read(self._logs.trust, origin, self._concerned.first())
        except VerificationError as error:
            self._findings.append(Finding("notices-unread", f"the published log: {error.message}"))
            return
        if seen is None:
            return
        self._published = True
        claimed = -1 if listed is None else listed.through_size
        for notice in seen.notices:
            if notice.digest in self._found or not self._concerned.has(notice) or self._too_early(notice):
                continue
            self._found[notice.digest] = notice
            if notice.log == origin and (notice.index or 0) < claimed:
                told = f"entry {notice.index} is a {notice.kind} that this bundle leaves out"
                self._findings.append(Finding("notice-suppressed", told))
        for log, index, why in seen.unreadable:
            self._findings.append(
                Finding("notice-withheld", f"entry {index} of {log} is a notice, but {why}")
            )
        self._through = max(self._through or 0, seen.sizes[origin])

    def conclude(self, listed: NoticeList | None) -> tuple[Noticed, list[Finding]]:
        """All of it in the order of the log; a list that is older than a certificate knows nothing of it."""
        newest, through = self._concerned.newest, self._through
        if listed is not None and newest is not None and through is not None and through <= newest:
            told = f"notices through size {through}, but entry {newest} is younger"
            self._findings.append(Finding("notices-stale", told))
        if listed is None and newest is not None and through is not None and through <= newest:
            through = None  # a copy of the log that is older than what is verified says nothing of it
        in_order = sorted(self._found.values(), key=lambda one: (one.log or "", one.index or 0))
        later = None if self._published else follower(self._logs.trust, self._concerned.origin or "")
        return Noticed(through, tuple(in_order), self._published, later), self._findings
