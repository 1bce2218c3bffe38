"""The logs of one installation, from the signing side: statements go in, proofs come out.

`root` is a folder that a web server may publish as it is: each log lies in a folder of its origin, and in
there beside the tiles every logged envelope under its digest (`statement/ab/cdef..`), so that an auditor
can read what was certified. Entering is serialised by the lock of the log's writer and may be repeated:
an envelope that is in the log stays where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import dsse, schema
from orchestrator.certificates.bundle import ENTRY_LIMIT_BYTES
from orchestrator.certificates.errors import CertificateError, KeyPositionError
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.opened import signer_of
from orchestrator.certificates.trust import TrustedLog, TrustRoot
from orchestrator.log import entry
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint, NoteKey
from orchestrator.log.errors import LogBusyError
from orchestrator.log.files import Disk
from orchestrator.log.proof import LogVerifier, TlogProof
from orchestrator.log.reader import LogReader
from orchestrator.log.tree import EMPTY_ROOT
from orchestrator.log.writer import LogWriter

WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.02


def entry_of(envelope: bytes, trust: TrustRoot) -> tuple[str, bytes]:
    """The key id that signed an envelope and its log entry; raises `VerificationError`."""
    opened = dsse.decode(envelope, dsse.STATEMENT_TYPE, ENTRY_LIMIT_BYTES)
    signed = opened.signed_bytes()
    keyid, signature, _ = signer_of(opened, signed, trust)
    statement: dict[str, Any] = canonical.decode_strict(opened.payload)
    kind = statement["predicateType"].removeprefix(schema.PREFIX)
    where = entry.position(kind, statement["predicate"])
    return keyid, entry.statement_entry(signed, keyid, signature, where)


class Logbook:
    """Enters signed statements into the log that `key` signs for, and proves where they are.

    `state` is a folder beside the keys; `key` is asked for only when something is entered. `trust` may be
    asked for again and again: what is published while we run holds from the next entry on. `disk` is
    replaced by tests.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        trust: TrustRoot | Callable[[], TrustRoot],
        key: Callable[[], NoteKey],
        *,
        disk: Callable[[], Disk] = Disk,
        wait_s: float = WAIT_S,
    ) -> None:
        self._root, self._state = root, state
        self._current: Callable[[], TrustRoot] = trust if callable(trust) else (lambda: trust)
        self._key = key
        self._disk = disk
        self._wait_s = wait_s

    @property
    def _trust(self) -> TrustRoot:
        return self._current()

    def folder(self, origin: str) -> Path:
        """The published folder of a log."""
        return self._root / origin

    def enter(self, envelope: bytes) -> int:
        """Log an envelope; returns its index when that is durable.

        Raises `LogBusyError` when another process keeps the log for too long, `LogConflictError` when
        something else is logged in the place of this statement, `KeyPositionError` when its key may not
        sign at the next position, and other `LogError`s. Nothing is lost by trying again.
        """
        keyid, raw = entry_of(envelope, self._trust)
        key = self._key()
        origin = self._log_of(key).key.origin
        signs_for = self._trust.keys[keyid].log
        if signs_for != origin:
            raise KeyPositionError(f"key {keyid} signs for the log {signs_for}, not for {origin}")
        with self._writer(origin, key) as writer:
            self._link(writer, origin)
            index = writer.place(raw)
            # Asked under the lock of the log: no version is published that this entry does not know.
            signer, log = self._trust.keys[keyid], self._trust.logs[origin]
            objections = signer.objections(index)
            if objections or (log.final_size is not None and index >= log.final_size):
                told = objections[0].detail if objections else f"{origin} is closed"
                raise KeyPositionError(f"the statement may not be logged: {told}")
            self._publish(origin, raw, envelope)
            return writer.append([raw]).indexes[0]

    def statement(self, raw: bytes) -> bytes | None:
        """The published envelope of a log entry; None where it is not there or not the one that is logged."""
        digest = raw.split(b"\n")[1].decode()
        for origin in self._trust.logs:
            path = self.folder(origin) / statement_path(digest)
            if path.is_file():
                envelope = path.read_bytes()
                return envelope if entry_of(envelope, self._trust)[1] == raw else None
        return None

    def renewed(self, envelopes: Sequence[bytes]) -> list[bytes]:
        """The same statements as the newest log has all of them: certified again they have new signatures.

        The given ones where no log has all.
        """
        digests = [entry_of(envelope, self._trust)[1].split(b"\n")[1].decode() for envelope in envelopes]
        for origin in reversed(list(self._trust.logs)):
            paths = [self.folder(origin) / statement_path(digest) for digest in digests]
            if all(path.is_file() for path in paths):
                return [path.read_bytes() for path in paths]
        return list(envelopes)

    def prove(self, envelopes: Sequence[bytes]) -> list[TlogProof]:
        """The proofs of logged envelopes of one log, all against the checkpoint that is published now.

        Takes no lock and needs no key. Raises `VerificationError` for one that is not there.
        """
        found = [entry_of(envelope, self._trust) for envelope in envelopes]
        origins = {self._trust.keys[keyid].log for keyid, _ in found}
        if len(origins) != 1:
            raise CertificateError(f"these certificates are in {len(origins)} logs, not in one")
        origin = origins.pop() or ""
        verifier = LogVerifier(self._trust.logs[origin].key, self._trust.witness_policy)
        reader = LogReader(self.folder(origin), verifier)
        return [reader.prove(index) for index in reader.find([raw for _, raw in found])]

    def _link(self, writer: LogWriter, origin: str) -> None:
        """The first entry of a log that follows another one commits to the last checkpoint of that."""
        if writer.head.size:
            return
        origins = list(self._trust.logs)
        place = origins.index(origin)
        if not place:
            return
        before = self._trust.logs[origins[place - 1]]
        name = before.key.origin
        if (self.folder(name) / CHECKPOINT_FILE).exists():
            last = LogReader(self.folder(name), LogVerifier(before.key)).checkpoint
        else:
            last = Checkpoint(name, 0, EMPTY_ROOT)
        if last.size != before.final_size:
            raise CertificateError(
                f"{origin} cannot begin: {name} has {last.size} entries, not {before.final_size}",
                hint=f"restore {self.folder(name)} from the published copy",
            )
        writer.append([entry.shard_entry(last)])

    def _log_of(self, key: NoteKey) -> TrustedLog:
        for log in self._trust.logs.values():
            if log.key.key.raw == key.public:
                return log
        raise CertificateError("the log key of this installation is that of no log in the trust root")

    @contextmanager
    def _writer(self, origin: str, key: NoteKey) -> Iterator[LogWriter]:
        """The log, opened for writing as soon as nobody else writes."""
        until = time.monotonic() + self._wait_s
        while True:
            try:
                writer = LogWriter(self.folder(origin), self._state / origin, origin, key, disk=self._disk())
                break
            except LogBusyError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)
        with writer:
            yield writer

    def _publish(self, origin: str, raw: bytes, envelope: bytes) -> None:
        """Put the envelope where auditors look, durably, before the log commits to it."""
        digest = raw.split(b"\n")[1].decode()
        path = self.folder(origin) / statement_path(digest)
        disk = self._disk()
        for folder in (path.parent.parent, path.parent):
            if not folder.exists():
                disk.make_folder(str(folder))
                disk.sync_folders([str(folder.parent)])
        disk.publish(str(path), envelope)
