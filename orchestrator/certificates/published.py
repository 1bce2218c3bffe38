"""Notices in published logs: every entry of that kind, its statement, and that the entries are the tree's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orchestrator.certificates import schema
from orchestrator.certificates.logged import statement_path
from orchestrator.certificates.notices import Notice, Published, notice_of
from orchestrator.certificates.opened import read_signed
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log import entry, note, tiles, tree
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.proof import LogVerifier
from orchestrator.log.tiles import WIDTH, Edge, Tiles
from orchestrator.verification.errors import EXIT_OK, VerificationError

MARK: Final = b" -notice 0 0\n"
"""How the entry of a notice ends."""
_LIMIT_BYTES: Final = 64 * 1024


class PublishedNotices:
    """The notices of the logs that lie below `root`, each in the folder of its origin."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, trust: TrustRoot, origin: str, start: int) -> Published | None:
        """See `NoticeSource`. Logs of other years are read whole: a notice may be about an older certificate.

        The tree is hashed again from its lowest tiles, and the entries from `start` on into those, so that
        no entry can be left out of the folder without being noticed.
        """
        if not (self._root / origin / CHECKPOINT_FILE).is_file():
            return None
        sizes: dict[str, int] = {}
        notices: list[Notice] = []
        unreadable: list[tuple[str, int, str]] = []
        for name, log in trust.logs.items():
            folder = self._root / name
            if not (folder / CHECKPOINT_FILE).is_file():
                continue
            verifier = LogVerifier(log.key, trust.witness_policy)
            checkpoint = verifier.open(tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES))[0]
            sizes[name] = checkpoint.size
            edge = Edge()
            store = Tiles(folder, checkpoint.size)
            for index, raw in _marked(store, start if name == origin else 0, edge):
                try:
                    found = _notice(trust, folder, name, index, raw)
                except VerificationError as error:
                    unreadable.append((name, index, error.message))
                else:
                    notices += [] if found is None else [found]
            if edge.root() != checkpoint.root:
                raise VerificationError("log-root", f"{name} is not the tree of its checkpoint")
        return Published(sizes, notices, unreadable)


def _notice(trust: TrustRoot, folder: Path, origin: str, index: int, raw: bytes) -> Notice | None:
    """The statement behind an entry; raises `VerificationError` where it is absent or does not hold.

    None for one by a key that was retired or revoked at this place: it need not be the lab's.
    """
    entry.check(raw)
    digest = raw.split(b"\n")[1].decode()
    envelope = tiles.read_file(folder / statement_path(digest), _LIMIT_BYTES)
    opened = read_signed(envelope, schema.NOTICE, trust)
    place = entry.position(schema.NOTICE, opened.predicate)
    if entry.digest_entry(opened.digest, opened.keyid, opened.signature, place) != raw:
        raise VerificationError("inclusion", "its statement is not the one that is logged")
    key = trust.keys[opened.keyid]
    wrong = [one for one in opened.findings if one.rule.exit_code != EXIT_OK]
    if key.log != origin:
        raise VerificationError("no-trusted-key", f"key {opened.keyid} does not sign for this log")
    if wrong:
        raise VerificationError(wrong[0].code, wrong[0].detail, more=tuple(wrong[1:]))
    return None if key.objections(index) else notice_of(opened, index, origin)


def _marked(store: Tiles, start: int, edge: Edge) -> Iterator[tuple[int, bytes]]:
    """The entries of notices from `start` on, with their indexes; `edge` grows to the whole tree."""
    for number in range((store.size + WIDTH - 1) // WIDTH):
        first = number * WIDTH
        if first + WIDTH <= start:
            _grow(edge, store.tile(0, number))
            continue
        entries = store.entries(number)
        _grow(edge, tree.leaf_hashes(entries))
        for index, raw in enumerate(entries, first):
            if index >= start and raw.endswith(MARK):
                yield index, raw


def _grow(edge: Edge, leaves: bytes) -> None:
    for _tile in edge.extend(leaves):
        pass
