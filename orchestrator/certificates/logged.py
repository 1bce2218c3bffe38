"""Whether a statement is in the log, at a place where its key may sign (certificates.md 3.4 to 3.6).

The entry is recomputed from what was just verified and never taken from a bundle. A checkpoint that many
proofs share is verified once. Which log, which positions and which witnesses comes from the trust root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Protocol

from orchestrator.certificates import shards, trust
from orchestrator.certificates.trust import TrustedKey, TrustRoot
from orchestrator.log import entry, memory
from orchestrator.log.checkpoint import Checkpoint
from orchestrator.log.memory import CheckpointMemory
from orchestrator.log.proof import LogVerifier
from orchestrator.log.witness import Witnessing
from orchestrator.verification.errors import Finding, VerificationError

_YEAR_10000: Final = 253_402_300_800

Consistency = Callable[[Checkpoint, Checkpoint], Sequence[bytes] | None]
"""(smaller, larger) -> a consistency proof from somewhere, not trusted; None where there is none."""


class Verified(Protocol):
    """What is known of a statement whose signature and form are good."""

    @property
    def kind(self) -> str:
        """`try-certificate/v1`, .."""

    @property
    def keyid(self) -> str:
        """The trusted key that signed."""

    @property
    def signature(self) -> bytes:
        """Its signature."""

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the bytes that it covers."""

    @property
    def predicate(self) -> dict[str, Any]:
        """The signed content."""


def statement_path(digest: str) -> str:
    """Where the envelope of a statement lies below its log's folder."""
    return f"statement/{digest[:2]}/{digest[2:]}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log says: `entries` of ours under one checkpoint of `size`, `index` where there is one.

    `remembered` is the size that the verifier remembered and found consistent. `cosigned` of `known`
    witnesses signed; `quorum` is the rule how many must, None where none is asked; `quorum_at` is UTC text.
    `earlier` are the shards before this one that hold entries of ours too.
    """

    origin: str
    size: int
    entries: int
    index: int | None
    remembered: int | None
    cosigned: int
    known: int
    required: bool
    quorum_at: str | None
    quorum: str | None = None
    earlier: tuple[Standing, ...] = ()


def utc(seconds: int) -> str:
    """Whole-second UTC text of POSIX seconds; the end of time for what a date cannot say."""
    if seconds >= _YEAR_10000:
        return "9999-12-31T23:59:59Z"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class _Seen:
    """One checkpoint that proofs led to."""

    checkpoint: Checkpoint
    witnessing: Witnessing
    entries: int = 0
    index: int = 0
    remembered: int | None = None


class LogChecks:
    """The log checks of one verification: of one certificate, or of one screening.

    `known` is the verifier's memory of checkpoints, `consistency` where a proof between a remembered and
    a seen checkpoint may come from.
    """

    def __init__(
        self, root: TrustRoot, known: CheckpointMemory | None = None, consistency: Consistency | None = None
    ) -> None:
        self._memory = known
        self._consistency = consistency
        self._set(root)
        self._seen: dict[Checkpoint, _Seen] = {}
        self._current: _Seen | None = None
        self._first_time: tuple[Witnessing, str | None] | None = None

    def _set(self, root: TrustRoot) -> None:
        self.trust = root
        self._verifiers = {
            origin: LogVerifier(log.key, root.witness_policy) for origin, log in root.logs.items()
        }

    def follow(self, chain: Sequence[bytes]) -> None:
        """Go on to the newest version that a bundle's `trustRootChain` leads to, before anything is checked.

        The chain is not trusted: each version has to be signed as the one before it asks. What does not
        follow is ignored, and so is everything when the chain is empty.
        """
        if chain:
            self._set(trust.follow_all(self.trust, chain))

    def check(
        self, statement: Verified, proof: bytes | None, *, aside: bool = False
    ) -> tuple[int | None, list[Finding]]:
        """The index of a statement in the log, and what speaks against it being there.

        Under a trust root without logs nothing does, and there is no index. What is checked `aside` (a
        notice about what is verified) is not among the entries that `standing` counts.
        """
        key, issued_at = self.trust.keys[statement.keyid], statement.predicate["time"]["issuedAt"]
        if key.log is None:
            found = self._expiry(issued_at)
            if proof is not None:
                found.append(Finding("proof-unsupported", "the trust root lists no log for this proof"))
            return None, found
        if proof is None:
            missing = Finding("not-logged", "no proof that the log has this statement")
            return None, [missing, *self._expiry(issued_at)]
        try:
            return self._placed(statement, key, issued_at, proof, aside=aside)
        except VerificationError as error:
            return None, [*error.findings, *self._expiry(issued_at)]

    def _placed(
        self, statement: Verified, key: TrustedKey, issued_at: str, proof: bytes, *, aside: bool
    ) -> tuple[int, list[Finding]]:
        where = entry.position(statement.kind, statement.predicate)
        raw = entry.digest_entry(statement.digest, statement.keyid, statement.signature, where)
        origin = key.log or ""
        located = self._verifiers[origin].locate(proof, raw)
        head, final = located.checkpoint, self.trust.logs[origin].final_size
        seen = self._current
        if seen is None or seen.checkpoint is not head:
            seen = self._current = self._seen.setdefault(head, _Seen(head, located.witnessing))
            if not seen.witnessing.met:
                seen.witnessing = located.witnessing
        if not aside:
            seen.entries, seen.index = seen.entries + 1, located.index
        found = key.objections(located.index)
        if final is not None and head.size > final:
            found.append(Finding("log-closed", f"{origin} ended at {final}, its checkpoint says {head.size}"))
        witnessed_at = self._witnessed_at(located.witnessing)
        if witnessed_at is not None and issued_at > witnessed_at:
            found.append(Finding("time-order", f"issued {issued_at}, but witnessed {witnessed_at}"))
        # Below a recorded size nothing can be added any more, so an old trust root is as good as new.
        if key.until_index is None and final is None:
            found += self._expiry(issued_at)
        return located.index, found

    def _witnessed_at(self, witnessing: Witnessing) -> str | None:
        """The first time that a trusted witness states: every verified time must fit."""
        if self._first_time is None or self._first_time[0] is not witnessing:
            times = [seconds for seconds in witnessing.times.values() if seconds]
            self._first_time = (witnessing, utc(min(times)) if times else None)
        return self._first_time[1]

    def _expiry(self, issued_at: str) -> list[Finding]:
        if issued_at < self.trust.expires_at:
            return []
        return [Finding("trust-root-expired", f"issued {issued_at}, after the trust root expired")]

    def size_of(self, origin: str) -> int | None:
        """The size of the largest checkpoint of a log that a proof led to."""
        return max((one.size for one in self._seen if one.origin == origin), default=None)

    def conclude(self) -> list[Finding]:
        """What is to be said once per checkpoint: witnesses, and what the verifier remembers."""
        found = []
        for seen in self._seen.values():
            witnessing = seen.witnessing
            if not witnessing.met:
                told = f"cosigned by {len(witnessing.times)} of {witnessing.known} witnesses, not enough"
                found.append(Finding("quorum", told))
            try:
                self._recall(seen)
            except VerificationError as error:
                found += error.findings
        return found + self._contradictions()

    def _contradictions(self) -> list[Finding]:
        """Members under several checkpoints of one log: nobody says that these are of one tree."""
        heads = sorted(self._seen, key=lambda one: (one.origin, one.size))
        for one, other in pairwise(heads):
            if one.origin == other.origin:
                try:
                    self._compare(one, other)
                except VerificationError as error:
                    return list(error.findings)
        return []

    def _recall(self, seen: _Seen) -> None:
        known = None if self._memory is None else self._memory.recall(seen.checkpoint.origin)
        if known is not None:
            self._compare(known, seen.checkpoint)
            seen.remembered = known.size

    def _compare(self, known: Checkpoint, other: Checkpoint) -> None:
        proof = None
        if self._consistency is not None and known.size != other.size:
            small, large = sorted((known, other), key=lambda one: one.size)
            proof = self._consistency(small, large)
        memory.compare(known, other, proof)

    def remember(self) -> None:
        """Keep what was seen; to be called when the verification found nothing against it."""
        if self._memory is not None:
            for checkpoint in self._seen:
                self._memory.remember(checkpoint)

    def precedes(self, one: tuple[str, int], other: tuple[str, int]) -> bool:
        """Whether an entry, given as (key id, index), was logged before another: shards follow each other."""
        first, second = self.trust.keys[one[0]].log, self.trust.keys[other[0]].log
        if first == second or first is None or second is None:
            return one[1] < other[1]
        return first in shards.earlier(self.trust, second)

    def standing(self) -> Standing | None:
        """What to report, of the largest checkpoint of the newest shard; None when no proof led to one."""
        largest: dict[str, _Seen] = {}
        for seen in sorted(self._seen.values(), key=lambda one: one.checkpoint.size):
            largest[seen.checkpoint.origin] = seen
        found = [self._standing(largest[origin]) for origin in self.trust.logs if origin in largest]
        return replace(found[-1], earlier=tuple(found[:-1])) if found else None

    def _standing(self, seen: _Seen) -> Standing:
        witnessing, quorum_at = seen.witnessing, seen.witnessing.quorum_at
        return Standing(
            seen.checkpoint.origin,
            seen.checkpoint.size,
            seen.entries,
            seen.index if seen.entries == 1 else None,
            seen.remembered,
            len(witnessing.times),
            witnessing.known,
            witnessing.required,
            None if quorum_at is None else utc(quorum_at),
            self.trust.witness_policy.rule,
        )
