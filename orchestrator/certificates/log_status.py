"""What an installation can say of its own logs, shard by shard, without any key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.certificates import shards
from orchestrator.certificates.logged import utc
from orchestrator.certificates.trust import TrustRoot
from orchestrator.log import note, tiles, witnessed
from orchestrator.log.audit import CHECKPOINT_FILE
from orchestrator.log.proof import LogVerifier
from orchestrator.verification.errors import VerificationError


@dataclass(frozen=True)
class ShardStatus:
    """One log of the trust root. `size` is None for one that is not there, `problem` says what is wrong.

    `witnessed_size` is the newest size that witnesses cosigned as the policy asks (None: none, or nobody is
    asked), `cosigners` who cosigned what is published now, `quorum` how many must, of `known`.
    """

    origin: str
    size: int | None
    root: str | None
    final_size: int | None
    is_closed: bool
    witnessed_size: int | None
    quorum_at: str | None
    cosigners: tuple[str, ...]
    quorum: str | None
    known: int
    problem: str | None


def verifier_of(trust: TrustRoot, origin: str) -> LogVerifier:
    """The verifier of one log under a trust root."""
    return LogVerifier(trust.logs[origin].key, trust.witness_policy)


def statuses(folder: Path, trust: TrustRoot) -> list[ShardStatus]:
    """Every log of the trust root, oldest first; each lies in the folder of its name below `folder`."""
    found = [_status(folder / origin, trust, origin) for origin in trust.logs]
    begun = [bool(one.size) for one in found]
    return [
        _closed(one) if one.final_size is not None or any(begun[at + 1 :]) else one
        for at, one in enumerate(found)
    ]


def current(folder: Path, trust: TrustRoot) -> str | None:
    """The newest log of which something is published."""
    there = [origin for origin in trust.logs if (folder / origin / CHECKPOINT_FILE).exists()]
    return there[-1] if there else None


def _closed(one: ShardStatus) -> ShardStatus:
    return ShardStatus(**{**vars(one), "is_closed": True})


def _status(folder: Path, trust: TrustRoot, origin: str) -> ShardStatus:
    policy, verifier = trust.witness_policy, verifier_of(trust, origin)
    size = root = witnessed_size = quorum_at = problem = None
    cosigners: tuple[str, ...] = ()
    try:
        if (folder / CHECKPOINT_FILE).exists():
            head, witnessing = verifier.open(tiles.read_file(folder / CHECKPOINT_FILE, note.LIMIT_BYTES))
            size, root, cosigners = head.size, head.root.hex(), tuple(sorted(witnessing.times))
            if tiles.Tiles(folder, head.size).root() != head.root:
                raise VerificationError("log-root", "the tiles do not give the signed root")
            shards.published(folder, trust, origin)
            seen = witnessed.newest(folder, verifier)
            if seen is not None:
                at = seen[2].quorum_at
                witnessed_size, quorum_at = seen[1].size, None if at is None else utc(at)
    except VerificationError as error:
        problem = error.message
    return ShardStatus(
        origin,
        size,
        root,
        trust.logs[origin].final_size,
        False,
        witnessed_size,
        quorum_at,
        cosigners,
        policy.rule,
        len(policy.witnesses),
        problem,
    )
