"""The custodian of one home: its keys, its trust roots, the draft of the next one, and its logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.certificates import founding
from orchestrator.certificates.trust import TrustedLog, TrustRoot
from orchestrator.custody import draft, passphrase
from orchestrator.custody.draft import Draft
from orchestrator.custody.errors import ChangeError, CustodyError, DraftError
from orchestrator.custody.keyring import Keyring
from orchestrator.custody.lock import locked
from orchestrator.custody.roots import RootStore
from orchestrator.home import Home
from orchestrator.log import note, tiles
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import open_checkpoint, parse_body
from orchestrator.log.files import Disk
from orchestrator.log.tiles import WIDTH, Tiles
from orchestrator.log.writer import SIGNED_FILE, LogWriter
from orchestrator.verification import ed25519

DRAFT_FILE: Final = "draft.json"


def now_unix_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


class Custodian:
    """What the steps of a trust root's life work on; `disk` and `clock` are replaced by tests."""

    def __init__(
        self, home: Home, *, disk: Disk | None = None, clock: Callable[[], int] = now_unix_ms
    ) -> None:
        self.home = home
        self.disk = disk or Disk()
        self.roots = RootStore.of(home, disk=self.disk)
        self._clock = clock

    @cached_property
    def keyring(self) -> Keyring:
        """The keys of the home."""
        return Keyring(self.home.keys, lambda: passphrase.path_of(self.home.keys), disk=self.disk)

    def trust_root(self) -> TrustRoot:
        """The current version; raises `ChangeError` in a home that has none yet."""
        if not self.roots.exists:
            raise ChangeError(
                "this home has no trust root yet", hint="assize keys ceremony, or a first screening"
            )
        return self.roots.current()

    def dates(self) -> tuple[str, str]:
        """Now, and when what is issued now expires, as UTC text."""
        now = datetime.fromtimestamp(self._clock() // 1000, UTC)
        return now.strftime("%Y-%m-%dT%H:%M:%SZ"), founding.years_later(now)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """One step at a time: the lock of the key folder, which is made when it is missing."""
        self.home.prepare()
        with locked(self.home.keys):
            yield

    def provide_passphrase(self) -> Path:
        """The passphrase for a key that is about to be made here."""
        return passphrase.provide(self.home.keys, self.disk).path

    # The draft

    @property
    def draft_path(self) -> Path:
        """Where the draft of the next version lies."""
        return self.home.keys / DRAFT_FILE

    def stored_draft(self) -> Draft | None:
        """The draft that lies here, published or not."""
        if not self.draft_path.exists():
            return None
        return draft.parse(self.draft_path.read_bytes())

    def draft(self) -> Draft | None:
        """The draft in progress; one whose version is there meanwhile is none any more."""
        found = self.stored_draft()
        if found is not None and self.roots.exists and found.version <= self.roots.current().version:
            return None
        return found

    def some_draft(self) -> Draft:
        """The draft in progress; raises `DraftError` when there is none."""
        found = self.draft()
        if found is None:
            raise DraftError("no draft is in progress", hint="assize keys status says what can be done")
        return found

    def write_draft(self, made: Draft) -> None:
        """Replace the draft, all or nothing."""
        self.disk.publish(str(self.draft_path), made.encode())

    def drop_draft(self) -> None:
        """Remove the draft; it may be gone."""
        if self.draft_path.exists():
            self.disk.remove(str(self.draft_path))
            self.disk.sync_folders([str(self.home.keys)])

    # The logs

    def log_size(self, log: TrustedLog) -> int:
        """How many entries a log has by its signed checkpoint; 0 for one that does not exist yet."""
        origin = log.key.origin
        path = self.home.log / origin / CHECKPOINT_FILE
        if not path.exists():
            if not self.signed_size(origin):
                return 0
            # Another process may have begun it between the two looks: it is published before its first entry.
            if not path.exists():
                raise CustodyError(
                    f"the log {origin} was written to, but is not in {path.parent}",
                    hint="restore it from the published copy",
                )
        return open_checkpoint(tiles.read_file(path, note.LIMIT_BYTES), log.key).checkpoint.size

    def signed_size(self, origin: str) -> int:
        """The size that the writer of a log signed last, or was about to."""
        path = self.home.log_state / origin / SIGNED_FILE
        return parse_body(tiles.read_file(path, note.LIMIT_BYTES)).size if path.exists() else 0

    def recover(self, log: TrustedLog) -> None:
        """Publish what an interrupted writer had signed, where the key of the log is still here."""
        origin, keyid = log.key.origin, ed25519.key_id(log.key.key.raw)
        if self.signed_size(origin) > self.log_size(log) and self.keyring.holds(keyid):
            key = self.keyring.holder(keyid)
            LogWriter(self.home.log / origin, self.home.log_state / origin, origin, key).close()

    def entries(self, log: TrustedLog, start: int) -> Iterator[tuple[int, bytes]]:
        """The entries of a log from index `start` on."""
        size = self.log_size(log)
        store = Tiles(self.home.log / log.key.origin, size)
        for number in range(start // WIDTH, (size + WIDTH - 1) // WIDTH):
            for index, raw in enumerate(store.entries(number), number * WIDTH):
                if index >= start:
                    yield index, raw

    def signed_by(self, keyid: str, log: TrustedLog, start: int) -> list[int]:
        """The indexes from `start` on of the entries that a certificate key signed."""
        name = keyid.encode() + b" "
        return [index for index, raw in self.entries(log, start) if raw.split(b"\n")[2].startswith(name)]

    @contextmanager
    def logs_at_rest(self) -> Iterator[None]:
        """No process writes to a log of the trust root meanwhile."""
        origins = self.roots.current().logs if self.roots.exists else ()
        folders = [self.home.log / origin for origin in origins]
        with _all_locked([folder for folder in folders if folder.is_dir()]):
            yield

    def log_of(self, keyid: str) -> tuple[TrustRoot, TrustedLog]:
        """The current trust root and the log of one of its certificate keys; raises `ChangeError`."""
        root = self.trust_root()
        key = root.keys.get(keyid)
        if key is None:
            raise ChangeError(f"the trust root lists no certificate key {keyid}", hint="assize keys status")
        if key.log is None:
            raise ChangeError(
                "this trust root lists no log, so its keys have no positions to change at",
                hint="begin a new home; certificates of this one go on to verify under its trust root",
            )
        return root, root.logs[key.log]


@contextmanager
def _all_locked(folders: list[Path]) -> Iterator[None]:
    if not folders:
        yield
        return
    with locked(folders[0]), _all_locked(folders[1:]):
        yield
