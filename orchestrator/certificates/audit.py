"""Reads a whole published log as certificates: who signed every entry, and what the statements say.

Beside what `orchestrator.log.audit` finds (the tree, the root, double certification), every entry must be
by a key of the trust root at a position where it may sign, no try may be logged before its opening, and
every statement that is published must be the one that is logged. A statement that is not published is
counted as withheld: its entry still says that it exists. A notice must be published: hidden, it could be
about anything in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from orchestrator.certificates import schema
from orchestrator.certificates.bundle import ENTRY_LIMIT_BYTES
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.notices import VOIDING, Notice, notice_of
from orchestrator.certificates.opened import Opened, read_signed
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import internal
from orchestrator.log import audit as log_audit
from orchestrator.log import entry, note, tiles
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import WIDTH, Tiles
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
    `unclosed` the screenings with an opening and no summary. `notices` are those that hold, and `withdrawn`
    counts the certificates of this log whose claim they withdraw.
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
    witnessing: Witnessing | None = None

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
    log = trust.logs.get(origin)
    if log is None:
        raise VerificationError("origin", f"the trust root lists no log {origin[:200]}")
    verifier = LogVerifier(log.key, trust.witness_policy)
    remembered = None if known is None else known.recall(origin)
    tree = log_audit.audit(folder, verifier, remembered)
    size = tree.checkpoint.size
    reading = _Reading(folder, trust, origin)
    for index, one in _entries(folder, size):
        reading.take(index, one)
    withdrawn = _withdrawn(folder, size, reading.notices) if reading.notices else 0
    findings = [*tree.findings, *reading.findings]
    if log.final_size is not None and size > log.final_size:
        findings.append(Finding("log-closed", f"{origin} ended at {log.final_size}, but has {size}"))
    found = LogAudit(
        tuple(findings),
        origin,
        size,
        dict(reading.statements),
        reading.read,
        reading.withheld,
        len(reading.opened - reading.closed),
        tuple(reading.notices),
        withdrawn,
        tree.witnessing,
    )
    if known is not None and found.exit_code == EXIT_OK:
        known.remember(tree.checkpoint)
    return found


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


def _withdrawn(folder: Path, size: int, notices: list[Notice]) -> int:
    """How many certificates of this log the notices withdraw; those in logs of other years are theirs."""
    voiding = [one for one in notices if one.finding().code in VOIDING]
    digests = {one.subject.encode() for one in voiding if one.about == schema.TRY_SUBJECT}
    whole = {one.screening for one in voiding if one.about == schema.SCREENING_SUBJECT}
    found = 0
    for _, raw in _entries(folder, size):
        _, digest, _, key = raw.splitlines()
        screening, task, *_ = key.decode().split(" ")
        is_try = not task.startswith(_OTHERS)
        found += is_try and (digest in digests or screening in whole)
    return found


class _Reading:
    """Accumulates over the entries of one log, in their order."""

    def __init__(self, folder: Path, trust: TrustRoot, origin: str) -> None:
        self._folder, self._trust, self._origin = folder, trust, origin
        self.findings: list[Finding] = []
        self.statements: Counter[str] = Counter()
        self.read = self.withheld = 0
        self.notices: list[Notice] = []
        self.opened: set[str] = set()
        self.closed: set[str] = set()

    def take(self, index: int, raw: bytes) -> None:
        """One entry: its key, its order, and its statement where that is published."""
        _, digest, signed_by, key = raw.decode().splitlines()
        screening, task, *_ = key.split(" ")
        if task == _LINK:
            return
        is_other = task.startswith(_OTHERS) and task not in _KINDS
        kind = f"{task[1:]}/v1" if is_other else _KINDS.get(task, schema.TRY)
        self.statements[kind] += 1
        where = f"entry {index}"
        keyid = signed_by.partition(" ")[0]
        trusted = self._trust.keys.get(keyid)
        if trusted is None or trusted.log != self._origin:
            told = f"key {keyid} is not one that signs for this log"
            self.findings.append(Finding("no-trusted-key", told, where))
            return
        self.findings += [replace(one, where=where) for one in trusted.objections(index)]
        if kind == schema.NOTICE:
            self._notice(index, digest, raw, where)
        elif not is_other:
            self._order(kind, screening, where)
            self._statement(kind, digest, raw, where)

    def _order(self, kind: str, screening: str, where: str) -> None:
        if kind == schema.OPENING:
            self.opened.add(screening)
        elif screening not in self.opened:
            self.findings.append(Finding("time-order", f"{screening} has no opening before this", where))
        if kind == schema.SUMMARY:
            self.closed.add(screening)

    def _notice(self, index: int, digest: str, raw: bytes, where: str) -> None:
        opened = self._statement(schema.NOTICE, digest, raw, where)
        if opened is None:
            if not (self._folder / statement_path(digest)).exists():
                told = "a notice that nobody can read"
                self.findings.append(Finding("notice-withheld", told, where))
        elif all(one.rule.exit_code == EXIT_OK for one in opened.findings):
            self.notices.append(notice_of(opened, index, self._origin))

    def _statement(self, kind: str, digest: str, raw: bytes, where: str) -> Opened | None:
        """The published statement of an entry; None where it is not there or is another one."""
        path = self._folder / statement_path(digest)
        if not path.exists():
            self.withheld += 1
            return None
        self.read += 1
        try:
            envelope = tiles.read_file(path, ENTRY_LIMIT_BYTES)
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
