"""The logs of one installation, from the signing side: statements go in, proofs come out.

`root` is a folder that a web server may publish as it is: each log lies in a folder of its origin, and in
there beside the tiles every logged envelope under its digest (`statement/ab/cdef..`), so that an auditor
can read what was certified. Entering is serialised by the lock of the log's writer and may be repeated:
an envelope that is in the log stays where it is. A shard that no entry is in yet begins with its link.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import dsse, schema, shards
from orchestrator.certificates.bundle import ENTRY_LIMIT_BYTES
from orchestrator.certificates.errors import CertificateError, KeyPositionError
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.opened import signer_of
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log import cleaning, entry, witnessed
from orchestrator.log.checkpoint import Checkpoint, NoteKey
from orchestrator.log.errors import LogBusyError, LogConflictError, LogError, LogStateError
from orchestrator.log.files import Disk
from orchestrator.log.held import HeldEntries
from orchestrator.log.proof import LogVerifier, TlogProof
from orchestrator.log.reader import LogReader
from orchestrator.log.writer import CLOSED_FILE, LogWriter, end_log
from orchestrator.verification.errors import VerificationError

WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.02
_STATEMENT_NEW: Final = cleaning.LEFT_OVER[1]


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
    """Enters signed statements into the logs that `key` signs for, and proves where they are.

    `state` is a folder beside the keys; `key` is asked for only when something is entered. `stored` gives
    the envelope that was kept last as certified, which must be in its log: a log that was lost or put back
    from an old copy is not written on. `trust` may be asked for again and again: what is published while we
    run holds from the next entry on. `disk` is replaced by tests. A log stays open here between entries,
    without its lock, so that only the first entry costs reading it. Usable by several threads.
    """

    def __init__(
        self,
        root: Path,
        state: Path,
        trust: TrustRoot | Callable[[], TrustRoot],
        key: Callable[[], NoteKey],
        *,
        stored: Callable[[], bytes | None] = lambda: None,
        disk: Callable[[], Disk] = Disk,
        wait_s: float = WAIT_S,
    ) -> None:
        self._root, self._state = root, state
        self._current: Callable[[], TrustRoot] = trust if callable(trust) else (lambda: trust)
        self._key = key
        self._stored = stored
        self._disk = disk
        self._wait_s = wait_s
        self._turn = threading.RLock()
        self._open: dict[str, LogWriter] = {}
        self._held: dict[str, HeldEntries] = {}

    @property
    def _trust(self) -> TrustRoot:
        return self._current()

    def folder(self, origin: str) -> Path:
        """The published folder of a log."""
        return self._root / origin

    def enter(self, envelope: bytes) -> int:
        """Log an envelope in the shard of its key; returns its index when that is durable.

        Raises `LogBusyError` when another process keeps the log for too long, `LogConflictError` when
        something else is logged in the place of this statement (in this shard or an earlier one; the same
        statement by a key that was revoked there does not count), `KeyPositionError` when its key may not
        sign at the next position, and other `LogError`s. Nothing is lost by trying again.
        """
        keyid, raw = entry_of(envelope, self._trust)
        origin = self._origin_of(self._trust.keys[keyid].log, keyid)
        with self._turn, self._writing(origin) as writer:
            index = writer.place(raw)
            if index == writer.head.size:
                self._check_open(origin)
                if not index and shards.earlier(self._trust, origin):
                    self._begin(origin, writer)
                    index = writer.place(raw)
                # Earlier shards take nothing more from here on, so what is not in them now never will be.
                self._check_earlier(origin, writer, raw)
            # Asked under the lock of the log: no version is published that this entry does not know.
            objections = self._trust.keys[keyid].objections(index)
            if objections:
                raise KeyPositionError(f"the statement may not be logged: {objections[0].detail}")
            if index < writer.head.size:
                return index
            self._publish(origin, raw, envelope)
            return writer.append([raw]).indexes[0]

    def begin(self, origin: str) -> Checkpoint:
        """Begin a shard that the trust root lists, with its link to the one before; again: nothing changes.

        From then on the earlier shard takes nothing more. Entering a first statement does the same.
        """
        with self._turn, self._writing(origin) as writer:
            if not writer.head.size and shards.earlier(self._trust, origin):
                self._check_open(origin)
                self._begin(origin, writer)
            return writer.head

    def last(self, origin: str) -> Checkpoint:
        """The checkpoint that a shard ended with: its size is the `finalSize` of the next trust root.

        Raises `LogError` while it is still written, `VerificationError` for files that do not hold.
        """
        if not self._has_ended(origin):
            raise LogError(f"{origin} is not closed: begin the next shard first")
        return shards.published(self.folder(origin), self._trust, origin)

    def statement(self, raw: bytes) -> bytes | None:
        """The published envelope of a log entry; None where it is not there or not the one that is logged."""
        digest = raw.split(b"\n")[1].decode()
        for origin in self._trust.logs:
            path = self.folder(origin) / statement_path(digest)
            if path.is_file():
                envelope = path.read_bytes()
                if entry_of(envelope, self._trust)[1] == raw:
                    return envelope
        return None

    def renewed(self, envelopes: Sequence[bytes]) -> list[bytes]:
        """The same statements as the newest log has them: certified again they have other signatures."""
        return (
            [self._renewed(envelope) for envelope in envelopes] if len(self._trust.logs) > 1 else [*envelopes]
        )

    def _renewed(self, envelope: bytes) -> bytes:
        digest = entry_of(envelope, self._trust)[1].split(b"\n")[1].decode()
        for origin in reversed(list(self._trust.logs)):
            path = self.folder(origin) / statement_path(digest)
            if path.is_file():
                return path.read_bytes()
        return envelope

    def is_void(self, envelope: bytes) -> bool:
        """Whether the key of a logged envelope could not make its entry where it is, by what is known now."""
        keyid, raw = entry_of(envelope, self._trust)
        origin = self._origin_of(self._trust.keys[keyid].log, keyid)
        reader = LogReader(self.folder(origin), LogVerifier(self._trust.logs[origin].key))
        return shards.is_void(self._trust, origin, reader.find([raw])[0], raw)

    def prove(self, envelopes: Sequence[bytes]) -> list[TlogProof]:
        """The proofs of logged envelopes, those of one log against one checkpoint.

        That is the newest one that witnesses cosigned as the trust root asks, where it covers them, else
        the one that is published now. Takes no lock and needs no key. Raises `VerificationError` for one
        that is not there.
        """
        found = [entry_of(envelope, self._trust) for envelope in envelopes]
        by_log: dict[str, list[bytes]] = {}
        for keyid, raw in found:
            by_log.setdefault(self._origin_of(self._trust.keys[keyid].log, keyid), []).append(raw)
        proofs: dict[bytes, TlogProof] = {}
        for origin, entries in by_log.items():
            verifier = LogVerifier(self._trust.logs[origin].key, self._trust.witness_policy)
            reader = LogReader(self.folder(origin), verifier)
            indexes = reader.find(entries)
            seen = witnessed.newest(self.folder(origin), verifier)
            if seen is not None and max(indexes) < seen[1].size:
                reader = LogReader(self.folder(origin), verifier, seen[0])
            proofs |= {raw: reader.prove(index) for raw, index in zip(entries, indexes, strict=True)}
        return [proofs[raw] for _, raw in found]

    def _origin_of(self, origin: str | None, keyid: str) -> str:
        if origin is None:
            raise CertificateError(f"key {keyid} signs for no log of the trust root")
        return origin

    def _key_of(self, origin: str) -> NoteKey:
        key = self._key()
        if self._trust.logs[origin].key.key.raw == key.public:
            return key
        if any(log.key.key.raw == key.public for log in self._trust.logs.values()):
            raise KeyPositionError(f"{origin} is not the log that is written to; it has another key")
        raise CertificateError("the log key of this installation is that of no log in the trust root")

    def _has_ended(self, origin: str) -> bool:
        """Whether a log takes nothing more: by the trust root, or because the next one was begun."""
        closed = self._trust.logs[origin].final_size is not None
        return closed or (self._state / origin / CLOSED_FILE).exists()

    def _check_open(self, origin: str) -> None:
        """Nothing is added to a shard that ended; asked under its lock, which `_begin` takes as well."""
        if self._has_ended(origin):
            raise KeyPositionError(
                f"the statement may not be logged: {origin} is closed",
                hint="sign with the key of the shard after it",
            )

    def _check_earlier(self, origin: str, writer: LogWriter, raw: bytes) -> None:
        """A screening that was opened in an earlier shard may have this statement there already."""
        key = raw[raw.rfind(b"\n", 0, -1) + 1 :]
        if writer.has(key.split(b" ")[0] + b" -opening 0 0\n"):
            return
        for name in shards.earlier(self._trust, origin):
            if name not in self._held:
                size = shards.ended(self.folder(name), self._trust, name).size
                self._held[name] = HeldEntries(self.folder(name), size)
            held = self._held[name].find(key)
            if held is not None and not self._is_renewed(name, held, raw):
                told = key.decode(errors="replace").strip()
                raise LogConflictError(f"{told} is in the log {name} already", held[1])

    def _is_renewed(self, name: str, held: tuple[int, bytes], raw: bytes) -> bool:
        """Whether `raw` is the same statement as a void entry of an earlier shard."""
        return held[1].split(b"\n")[1] == raw.split(b"\n")[1] and shards.is_void(self._trust, name, *held)

    def _begin(self, origin: str, writer: LogWriter) -> None:
        """Append the link; the earlier shard is ended, and locked while its last checkpoint is linked to."""
        name = shards.earlier(self._trust, origin)[-1]
        log = self._trust.logs[name]
        if log.final_size is not None:
            writer.append([entry.shard_entry(self._ended(name, origin))])
        elif log.key.key.raw == self._key().public:
            with self._writing(name) as last:
                writer.append([entry.shard_entry(last.end(origin))])
        else:
            raise LogStateError(
                f"{name} is signed by another key, and the trust root does not say where it ended",
                hint="record its final size in the trust root first",
            )

    def _ended(self, name: str, origin: str) -> Checkpoint:
        """The last checkpoint of a closed shard that `origin` follows; raises `LogStateError`."""
        try:
            head = shards.ended(self.folder(name), self._trust, name)
        except VerificationError as error:
            raise LogStateError(
                f"the shard after {name} cannot begin: {error.message}",
                hint=f"restore {self.folder(name)} from the published copy",
            ) from error
        disk = self._disk()
        disk.make_folder(str(self._state / name))
        end_log(self._state / name, origin, disk)
        return head

    @contextmanager
    def _writing(self, origin: str) -> Iterator[LogWriter]:
        """The log with its lock, as soon as nobody else writes."""
        key = self._key_of(origin)
        writer = self._waited(lambda: self._opened(origin, key))
        try:
            yield writer
        finally:
            if writer.is_usable:
                writer.release()
            else:  # what is half done is found when it is opened again
                self._open.pop(origin, writer).close()

    def _waited(self, take: Callable[[], LogWriter]) -> LogWriter:
        until = time.monotonic() + self._wait_s
        while True:
            try:
                return take()
            except LogBusyError:
                if time.monotonic() >= until:
                    raise
            except VerificationError as error:
                raise LogStateError(f"the log does not hold: {error.message}") from error
            time.sleep(_PAUSE_S)

    def _opened(self, origin: str, key: NoteKey) -> LogWriter:
        if origin in self._open:
            try:
                self._open[origin].resume()
            except LogBusyError:
                raise
            except BaseException:
                del self._open[origin]
                raise
            return self._open[origin]
        place = self._newest_stored()
        writer = LogWriter(
            self.folder(origin),
            self._state / origin,
            origin,
            key,
            disk=self._disk(),
            is_new=False if place is not None and place[0] == origin else None,
        )
        try:
            self._check_whole(origin, writer, place)
        except BaseException:
            writer.close()
            raise
        self._open[origin] = writer
        return writer

    def _newest_stored(self) -> tuple[str, bytes] | None:
        """Origin and entry of what the ledger has as certified last; None where nothing is logged."""
        envelope = self._stored()
        if envelope is None:
            return None
        try:
            keyid, raw = entry_of(envelope, self._trust)
        except VerificationError:
            return None  # its key left the trust root, so no verifier takes it and no log is asked for it
        origin = self._trust.keys[keyid].log
        return None if origin is None else (origin, raw)

    def _check_whole(self, origin: str, writer: LogWriter, place: tuple[str, bytes] | None) -> None:
        """What was certified last is still there, and the shard goes on from the one before it."""
        if place is not None and place[0] == origin and writer.place(place[1]) == writer.head.size:
            key = place[1].rstrip(b"\n").rpartition(b"\n")[2].decode()
            raise LogStateError(
                f"the log {origin} has lost entries: {key} is certified in the ledger and not in its "
                f"{writer.head.size} entries",
                hint="restore the log and its record; an older copy of both would show another history",
            )
        before = shards.earlier(self._trust, origin)
        if writer.head.size and before:
            try:
                head = shards.ended(self.folder(before[-1]), self._trust, before[-1])
            except VerificationError as error:
                told = f"{origin} goes on from {before[-1]}, which does not hold: {error.message}"
                raise LogStateError(told) from error
            shards.check_link(self.folder(origin), writer.head.size, head)

    def _publish(self, origin: str, raw: bytes, envelope: bytes) -> None:
        """Put the envelope where auditors look, durably, before the log commits to it."""
        digest = raw.split(b"\n")[1].decode()
        path, disk = self.folder(origin) / statement_path(digest), self._disk()
        for folder in (path.parent.parent, path.parent):
            if not folder.exists():
                disk.make_folder(str(folder))
                disk.sync_folders([str(folder.parent)])
        # One name for all that is being written: the next one replaces what an interrupted one left.
        temporary = str(self.folder(origin) / _STATEMENT_NEW)
        disk.write(temporary, envelope)
        disk.settle()
        disk.replace(temporary, str(path))
        disk.sync_folders([str(path.parent), str(self.folder(origin))])
