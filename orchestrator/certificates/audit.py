"""Reads a whole published log as certificates: who signed every entry, and what the statements say.

Beside what `orchestrator.log.audit` finds (the tree, the root, double certification), every entry must be
by a key of the trust root at a position where it may sign, no try may be logged before its opening, and
every statement that is published must be the one that is logged. A statement that is not published is
counted as withheld: its entry still says that it exists. A notice must be published: hidden, it could be
about anything in the log.

A later shard is audited with those before it, which lie in folders of their names beside it: it must begin
with the link to the last checkpoint of the one before, and nothing may be certified again in it: only the
same statement, where its key had been retired or revoked at the earlier place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from orchestrator.certificates import schema, shards
from orchestrator.certificates.bundle import ENTRY_LIMIT_BYTES
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.notices import VOIDING, Notice, notice_of
from orchestrator.certificates.opened import Opened, read_signed
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import internal
from orchestrator.log import audit as log_audit
from orchestrator.log import entry, note, tiles
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import WIDTH, Tiles
from orchestrator.log.tree import EMPTY_ROOT
from orchestrator.log.witness import Witnessing
from orchestrator.verification.errors import EXIT_OK, Finding, VerificationError, worst

_KINDS: Final = {"-opening": schema.OPENING, "-summary": schema.SUMMARY, "-notice": schema.NOTICE}
_LINK: Final = "-shard"
_OTHERS: Final = (
    "-"  # begins the words of entries that are of no try; of a kind unknown here they are counted
)


@dataclass(frozen=True)
class LogAudit:
    """What the audit of a log found. `size` is 0 and `origin` empty for one that could not be opened.

    `statements` counts entries by kind, `read` the published statements, `withheld` those that are not,
    `unclosed` the screenings with an opening and no summary, all over `earlier` shards (origin, size) too.
    `notices` are those that hold, `withdrawn` counts the certificates whose claim they withdraw, `again` the
    statements of keys that were retired or revoked which other keys signed again in a later shard.
    """

    findings: tuple[Finding, ...]
    origin: str = ""
    size: int = 0
    statements: dict[str, int] = field(default_factory=dict)
    read: int = 0
    withheld: int = 0
    unclosed: int = 0
    notices: tuple[Notice, ...] = ()
    withdrawn: int = 0
    again: int = 0
    witnessing: Witnessing | None = None
    earlier: tuple[tuple[str, int], ...] = ()
    quorum: str | None = None

    @property
    def exit_code(self) -> int:
        """0, 1, 2 or 4 as in certificates.md 3.6."""
        return worst({finding.rule.exit_code for finding in self.findings})

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every reason code that changes the exit code, each once."""
        return tuple(dict.fromkeys(f.code for f in self.findings if f.rule.exit_code != EXIT_OK))


def audit_log(folder: Path, trust: TrustRoot, known: CheckpointMemory | None = None) -> LogAudit:
    """Audit the log in `folder` under a trust root that lists it. Never raises for bad input.

    `known` is the verifier's memory; it keeps the checkpoint when nothing was found against the log.
    """
    try:
        return _audit(folder, trust, known)
    except VerificationError as error:
        return LogAudit(error.findings)
    except Exception as error:  # noqa: BLE001 - whatever breaks here must not read as success
        return LogAudit((internal(error),))


def _audit(folder: Path, trust: TrustRoot, known: CheckpointMemory | None) -> LogAudit:
    raw = tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES)
    origin = raw.partition(b"\n")[0].decode(errors="replace")
    if origin not in trust.logs:
        raise VerificationError("origin", f"the trust root lists no log {origin[:200]}")
    reading, found = _Reading(trust), list[Finding]()
    keys = log_audit.Keys(partial(shards.is_void, trust))
    seen: dict[str, log_audit.Audit] = {}
    places: list[tuple[Path, int]] = []
    for name in (*shards.earlier(trust, origin), origin):
        place = folder if name == origin else _beside(folder, origin, name)
        where = "" if name == origin else f"{name}: "
        if place is None:
            if trust.logs[name].final_size == 0:
                continue  # it was closed before anything was entered
            found.append(
                Finding("log-missing", f"the shard {name} is not beside this one, so nothing before is known")
            )
            reading.forget()
            continue
        remembered = None if known is None else known.recall(name)
        verifier = LogVerifier(trust.logs[name].key, trust.witness_policy)
        one = log_audit.audit(place, verifier, remembered, keys)
        size = one.checkpoint.size
        reading.begin(place, name, where)
        for index, entry_bytes in _entries(place, size):
            reading.take(index, entry_bytes)
        found += [replace(finding, where=where + finding.where) for finding in one.findings]
        found += [*_ends(trust, name, size), *_link(trust, name, place, size, seen)]
        seen[name] = one
        places.append((place, size))
    withdrawn = _withdrawn(places, reading.notices) if reading.notices else 0
    result = replace(reading.result(tuple(found), seen, origin), withdrawn=withdrawn)
    if known is not None and result.exit_code == EXIT_OK:
        for one in seen.values():
            known.remember(one.checkpoint)
    return result


def _beside(folder: Path, origin: str, other: str) -> Path | None:
    """The folder of another log where both lie in folders of their names; None where it is not."""
    whole, parts = folder.absolute(), len(origin.split("/"))
    base = whole.parents[parts - 1]
    place = base / other
    return place if base / origin == whole and (place / CHECKPOINT_FILE).is_file() else None


def _ends(trust: TrustRoot, origin: str, size: int) -> list[Finding]:
    """Whether a log that was closed has the size that it ended at."""
    final = trust.logs[origin].final_size
    if final is None or size == final:
        return []
    code = "log-closed" if size > final else "rollback"
    return [Finding(code, f"{origin} ended at {final}, but has {size}")]


def _link(
    trust: TrustRoot, origin: str, folder: Path, size: int, seen: dict[str, log_audit.Audit]
) -> list[Finding]:
    """Whether a shard begins where the one before it ended, and has no other link."""
    before = shards.earlier(trust, origin)
    if not before or not size:
        return []
    first, last = Tiles(folder, size).entry(0), before[-1]
    if last in seen or trust.logs[last].final_size == 0:
        end = seen[last].checkpoint if last in seen else Checkpoint(last, 0, EMPTY_ROOT)
        if first == entry.shard_entry(end):
            return []
        told = f"{origin} does not begin with the last checkpoint of {last} that is published"
        return [Finding("shard-link", told, "entry 0")]
    if first.endswith(f"\n{last} {_LINK} 0 0\n".encode()):
        return []  # what it commits to is not here; that is said already
    return [Finding("shard-link", f"{origin} does not begin with a link to {last}", "entry 0")]


def _entries(folder: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """Every entry in its strict form with its index; the others are findings of the tree's audit."""
    store = Tiles(folder, size)
    for number in range((size + WIDTH - 1) // WIDTH):
        for index, raw in enumerate(store.entries(number), number * WIDTH):
            try:
                entry.check(raw)
            except VerificationError:
                continue
            yield index, raw


def _withdrawn(places: list[tuple[Path, int]], notices: list[Notice]) -> int:
    """How many certificates the notices withdraw, in all shards; one that was certified again counts once."""
    voiding = [one for one in notices if one.finding().code in VOIDING]
    digests = {one.subject.encode() for one in voiding if one.about == schema.TRY_SUBJECT}
    whole = {one.screening for one in voiding if one.about == schema.SCREENING_SUBJECT}
    found = set[bytes]()
    for folder, size in places:
        for _, raw in _entries(folder, size):
            _, digest, _, key = raw.splitlines()
            screening, task, *_ = key.decode().split(" ")
            if not task.startswith(_OTHERS) and (digest in digests or screening in whole):
                found.add(digest)
    return len(found)


class _Reading:
    """Accumulates over the entries of a log and its earlier shards, in their order."""

    def __init__(self, trust: TrustRoot) -> None:
        self._trust = trust
        self._folder, self._origin, self._where = Path(), "", ""
        self._is_whole = True
        self.findings: list[Finding] = []
        self.statements: Counter[str] = Counter()
        self.read = self.withheld = 0
        self.notices: list[Notice] = []
        self.again = 0
        self._doubtful: dict[str, list[Finding]] = {}
        self.opened: set[str] = set()
        self.closed: set[str] = set()

    def begin(self, folder: Path, origin: str, where: str) -> None:
        """The entries that follow are those of this shard."""
        self._folder, self._origin, self._where = folder, origin, where

    def forget(self) -> None:
        """A shard cannot be read: a screening may have been opened in it."""
        self._is_whole = False

    def result(
        self, findings: tuple[Finding, ...], seen: dict[str, log_audit.Audit], origin: str
    ) -> LogAudit:
        """Everything together; what is said of the log itself is that of `origin`."""
        doubtful = [one for held in self._doubtful.values() for one in held]
        return LogAudit(
            (*findings, *self.findings, *doubtful),
            origin,
            seen[origin].checkpoint.size,
            dict(self.statements),
            self.read,
            self.withheld,
            len(self.opened - self.closed),
            tuple(self.notices),
            again=self.again,
            witnessing=seen[origin].witnessing,
            earlier=tuple((name, one.checkpoint.size) for name, one in seen.items() if name != origin),
            quorum=self._trust.witness_policy.rule,
        )

    def take(self, index: int, raw: bytes) -> None:
        """One entry: its key, its order, and its statement where that is published."""
        _, digest, signed_by, key = raw.decode().splitlines()
        screening, task, *_ = key.split(" ")
        where = f"{self._where}entry {index}"
        if task == _LINK:
            if index or not shards.earlier(self._trust, self._origin):
                told = "a link to another shard where none belongs"
                self.findings.append(Finding("shard-link", told, where))
            return
        is_other = task.startswith(_OTHERS) and task not in _KINDS
        kind = f"{task[1:]}/v1" if is_other else _KINDS.get(task, schema.TRY)
        self.statements[kind] += 1
        keyid = signed_by.partition(" ")[0]
        trusted = self._trust.keys.get(keyid)
        if trusted is None or trusted.log != self._origin:
            told = f"key {keyid} is not one that signs for this log"
            self.findings.append(Finding("no-trusted-key", told, where))
            return
        objections = [replace(one, where=where) for one in trusted.objections(index)]
        if objections:
            self._doubtful[digest] = objections
        opened = None
        if kind == schema.NOTICE:
            opened = self._notice(index, digest, raw, where, holds=not objections)
        elif not is_other:
            self._order(kind, screening, where)
            opened = self._statement(kind, digest, raw, where)
        if opened is not None and not objections and self._doubtful.pop(digest, []):
            self.again += 1

    def _order(self, kind: str, screening: str, where: str) -> None:
        if kind == schema.OPENING:
            self.opened.add(screening)
        elif screening not in self.opened and self._is_whole:
            self.findings.append(Finding("time-order", f"{screening} has no opening before this", where))
        if kind == schema.SUMMARY:
            self.closed.add(screening)

    def _notice(self, index: int, digest: str, raw: bytes, where: str, *, holds: bool) -> Opened | None:
        opened = self._statement(schema.NOTICE, digest, raw, where)
        if opened is None:
            if not (self._folder / statement_path(digest)).exists():
                told = "a notice that nobody can read"
                self.findings.append(Finding("notice-withheld", told, where))
        elif holds and all(one.rule.exit_code == EXIT_OK for one in opened.findings):
            self.notices.append(notice_of(opened, index, self._origin))
        return opened

    def _statement(self, kind: str, digest: str, raw: bytes, where: str) -> Opened | None:
        """The published statement of an entry; None where it is not there or is another one."""
        path = self._folder / statement_path(digest)
        try:
            envelope = tiles.read_file(path, ENTRY_LIMIT_BYTES)
        except VerificationError as error:
            if path.exists():  # it is there, and cannot be read as what it should be
                self.findings += [replace(one, where=where) for one in error.findings]
            self.withheld += not path.exists()
            return None
        self.read += 1
        try:
            opened = read_signed(envelope, kind, self._trust)
            place = entry.position(kind, opened.predicate)
            again = entry.digest_entry(opened.digest, opened.keyid, opened.signature, place)
        except VerificationError as error:
            self.findings += [replace(one, where=where) for one in error.findings]
            return None
        self.findings += [replace(one, where=where) for one in opened.findings]
        if again != raw:
            self.findings.append(Finding("inclusion", "the statement is not the one that is logged", where))
            return None
        return opened
