"""The shards of a lab's log: one after the other, each beginning with a link to the one before it.

The logs of a trust root are the shards of one log, oldest first. A shard begins with an entry that commits
to the last checkpoint of the one before (certificates.md 3.5), and from that moment the earlier shard takes
nothing more: what is in it came before everything in the later one. A later trust root records its final
size. Which shard a statement belongs to follows from the key that signed it.
"""

from __future__ import annotations

from pathlib import Path

from orchestrator.certificates.trust import TrustRoot
from orchestrator.log import checkpoint, entry, note, tiles
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.errors import LogStateError
from orchestrator.log.tiles import Tiles
from orchestrator.log.tree import EMPTY_ROOT
from orchestrator.verification.errors import VerificationError


def earlier(trust: TrustRoot, origin: str) -> tuple[str, ...]:
    """The shards before `origin`, oldest first."""
    chain = tuple(trust.logs)
    return chain[: chain.index(origin)]


def follower(trust: TrustRoot, origin: str) -> str | None:
    """The shard after `origin`; None for the newest one, and for one that the trust root does not list."""
    chain = tuple(trust.logs)
    at = chain.index(origin) + 1 if origin in trust.logs else len(chain)
    return chain[at] if at < len(chain) else None


def published(folder: Path, trust: TrustRoot, origin: str) -> Checkpoint:
    """The checkpoint that the log of `origin` publishes in `folder`, its signature checked.

    Raises `VerificationError`; for a closed log also when it is not of its final size (`rollback`,
    `log-closed`).
    """
    raw = tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES)
    log = trust.logs[origin]
    head = checkpoint.open_checkpoint(raw, log.key).checkpoint
    if log.final_size is not None and head.size != log.final_size:
        code = "log-closed" if head.size > log.final_size else "rollback"
        raise VerificationError(code, f"{origin} ended at {log.final_size}, published is {head.size}")
    return head


def ended(folder: Path, trust: TrustRoot, origin: str) -> Checkpoint:
    """Like `published`; a log that was closed before anything was entered need not be there at all."""
    if trust.logs[origin].final_size == 0 and not (folder / CHECKPOINT_FILE).exists():
        return Checkpoint(origin, 0, EMPTY_ROOT)
    return published(folder, trust, origin)


def is_void(trust: TrustRoot, origin: str, index: int, raw: bytes) -> bool:
    """Whether the key of an entry could not make it there: retired or revoked, it holds for nobody."""
    key = trust.keys.get(raw.split(b"\n")[2].partition(b" ")[0].decode())
    return key is not None and key.log == origin and bool(key.objections(index))


def check_link(folder: Path, size: int, previous: Checkpoint) -> None:
    """That the log in `folder` begins with the link to `previous`; raises `LogStateError`."""
    first = Tiles(folder, size).entry(0)
    if first != entry.shard_entry(previous):
        raise LogStateError(
            f"the shard in {folder.name} does not begin with the last checkpoint of {previous.origin}",
            hint="restore both shards from one copy; the later one commits to every entry of the earlier",
        )
