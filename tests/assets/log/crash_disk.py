"""Disks that stop a log writer at any file operation, and what must hold when it is opened again."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.certificates.keys import SigningKey
from orchestrator.log import checkpoint, memory
from orchestrator.log.audit import audit
from orchestrator.log.checkpoint import Checkpoint, log_key
from orchestrator.log.files import Disk
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import WIDTH, Tiles
from orchestrator.log.writer import LogWriter


class Killed(BaseException):
    """The process is gone; nothing of the writer may catch this."""


class CountingDisk(Disk):
    """Stops at operation number `last`: a write in the middle, anything else before it happens."""

    def __init__(self, last: int = 0) -> None:
        super().__init__()
        self.count = 0
        self._last = last

    def _step(self) -> bool:
        self.count += 1
        return self.count == self._last

    def die(self) -> None:
        """End the process, or pretend to."""
        raise Killed

    def make_folder(self, path: str) -> None:
        if self._step():
            self.die()
        super().make_folder(path)

    def write(self, path: str, data: bytes) -> None:
        if self._step():
            super().write(path, data[: len(data) // 2])
            self.die()
        super().write(path, data)

    def settle(self) -> None:
        if self._step():
            self.die()
        super().settle()

    def _each(self, descriptors: list[int]) -> None:
        """No waiting: what a test forgets when the power fails is decided by `LossyDisk`."""

    def sync_folders(self, paths: object) -> None:
        if self._step():
            self.die()

    def replace(self, source: str, target: str) -> None:
        if self._step():
            self.die()
        super().replace(source, target)

    def remove(self, path: str) -> None:
        if self._step():
            self.die()
        super().remove(path)


class KillingDisk(CountingDisk):
    """Kills its own process with SIGKILL."""

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class LossyDisk(CountingDisk):
    """Forgets at the end whatever was not made durable: contents without `settle`, names without a sync."""

    def __init__(self, last: int = 0) -> None:
        super().__init__(last)
        self._unsettled: set[str] = set()
        self._undo: list[tuple[str, Callable[[], object]]] = []

    def make_folder(self, path: str) -> None:
        is_new = not os.path.isdir(path)
        super().make_folder(path)
        if is_new:
            self._undo.append((os.path.dirname(path), lambda: shutil.rmtree(path, ignore_errors=True)))

    def write(self, path: str, data: bytes) -> None:
        if not os.path.exists(path):
            self._undo.append((os.path.dirname(path), lambda: Path(path).unlink(missing_ok=True)))
        self._unsettled.add(path)
        super().write(path, data)

    def settle(self) -> None:
        super().settle()
        self._unsettled.clear()

    def sync_folders(self, paths: object) -> None:
        assert not isinstance(paths, str)
        done = set(paths)  # type: ignore[call-overload]
        super().sync_folders(done)
        self._undo = [(folder, undo) for folder, undo in self._undo if folder not in done]

    def replace(self, source: str, target: str) -> None:
        old = Path(target).read_bytes() if os.path.exists(target) else None
        super().replace(source, target)
        if source in self._unsettled:  # the new name has the old contents, and those are not durable
            self._unsettled.remove(source)
            self._unsettled.add(target)

        def undo() -> None:
            if os.path.exists(target):
                os.rename(target, source)
            if old is not None:
                Path(target).write_bytes(old)

        self._undo.append((os.path.dirname(target), undo))

    def remove(self, path: str) -> None:
        old = None if os.path.isdir(path) else Path(path).read_bytes()
        super().remove(path)

        def undo() -> None:
            if os.path.isdir(os.path.dirname(path)):  # else its folder is durably gone, and it with that
                if old is None:
                    os.mkdir(path)
                else:
                    Path(path).write_bytes(old)

        self._undo.append((os.path.dirname(path), undo))

    def lose_power(self) -> None:
        """Make the folder what a disk may hold after a power failure."""
        for _, undo in reversed(self._undo):
            undo()
        for path in self._unsettled:
            if os.path.exists(path):
                os.truncate(path, 0)


class WatchedKey:
    """Remembers every tree head it signs, over all lives of the writer."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self.public = key.public
        self.signed: dict[int, bytes] = {}

    def sign(self, message: bytes) -> bytes:
        """Sign a checkpoint; the same size with another root is the one thing that must never happen."""
        head = checkpoint.parse_body(message)
        assert self.signed.setdefault(head.size, head.root) == head.root, "one size was signed with two roots"
        return self._key.sign(message)


class Life:
    """A log over several lives of its writer, with what was acknowledged so far."""

    def __init__(
        self, folder: Path, origin: str, key: WatchedKey, batches: Sequence[Sequence[bytes]]
    ) -> None:
        self.folder, self.state, self.origin, self.key = folder / "log", folder / "state", origin, key
        self.batches = batches
        self.acknowledged: dict[bytes, int] = {}
        self.seen: Checkpoint | None = None

    def run(self, disk: Disk) -> None:
        """Open the log and append every batch, until the disk ends it."""
        writer = None
        try:
            writer = LogWriter(self.folder, self.state, self.origin, self.key, disk=disk)
            for batch in self.batches:
                done = writer.append(batch)
                self.acknowledge(batch, done.indexes)
                self.seen = writer.head
        finally:
            if writer is not None:
                writer.close()
            disk.abandon()

    def acknowledge(self, batch: Sequence[bytes], indexes: Sequence[int]) -> None:
        """Entries keep their index for ever."""
        for raw, index in zip(batch, indexes, strict=True):
            assert self.acknowledged.setdefault(raw, index) == index, "an entry has moved"

    def check(self) -> None:
        """Open again, audit everything, compare with what was acknowledged and seen; then finish the work."""
        verifier = LogVerifier(log_key(self.origin, self.key.public))
        with LogWriter(self.folder, self.state, self.origin, self.key, disk=CountingDisk()) as writer:
            self._audit(verifier, writer)
        self.run(CountingDisk())
        with LogWriter(self.folder, self.state, self.origin, self.key, disk=CountingDisk()) as writer:
            wanted = {raw for batch in self.batches for raw in batch}
            assert writer.head.size == len(wanted) == len(self.acknowledged)
            self._audit(verifier, writer)

    def _check_files(self, size: int) -> None:
        """Nothing is published beyond the head, and no partial tile where there is a full one."""
        for path in (self.folder / "tile").rglob("*"):
            assert path.is_file() or any(path.iterdir()), "an empty folder was left behind"
        for path in [path for path in (self.folder / "tile").rglob("*") if path.is_file()]:
            level, *number = path.relative_to(self.folder / "tile").parts
            row = size >> 8 * (0 if level == "entries" else int(level))
            first = int(number[0].removesuffix(".p")) * WIDTH
            end = first + (int(number[1]) if len(number) == 2 else WIDTH)
            assert end <= row, "a file of a batch that was never signed is still there"
            assert len(number) == 1 or first + WIDTH > row, "a partial tile is there beside the full one"

    def _audit(self, verifier: LogVerifier, writer: LogWriter) -> None:
        found = audit(self.folder, verifier, self.seen)
        assert found.findings == () and found.checkpoint == writer.head
        if self.seen is not None and self.seen.size:
            path = Tiles(self.folder, writer.head.size).consistency_proof(self.seen.size)
            memory.compare(self.seen, writer.head, path if self.seen.size < writer.head.size else None)
        size = writer.head.size
        self._check_files(size)
        tiles = Tiles(self.folder, size)
        there = [raw for number in range((size + WIDTH - 1) // WIDTH) for raw in tiles.entries(number)]
        assert len(set(there)) == size, "an entry is there twice"
        for raw, index in self.acknowledged.items():
            assert there[index : index + 1] == [raw], "an acknowledged entry is lost"
