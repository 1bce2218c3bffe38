"""Cosignatures (C2SP tlog-cosignature) and the rule how many are enough (C2SP tlog-policy).

A vote is a public key, whatever names it goes by; neither the log's key nor its name ever votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orchestrator.log import note
from orchestrator.log.checkpoint import Checkpoint, LogKey, SignedCheckpoint
from orchestrator.log.note import Kind, VerifierKey
from orchestrator.verification import ed25519
from orchestrator.verification.errors import VerificationError

POLICY_LIMIT_BYTES: Final = 256 * 1024
MAX_DEFINITIONS: Final = 128
MAX_TIMESTAMP: Final = 2**63 - 1
_TIMESTAMP_BYTES: Final = 8
_ML_DSA_LABEL: Final = b"subtree/v1\n\x00"
_ALLOWED: Final = frozenset({0x09, *range(0x20, 0x7F), *range(0x80, 0x100)})


def ml_dsa_44_verifies(public: bytes, signature: bytes, message: bytes, context: bytes = b"") -> bool:
    """Whether a signature of FIPS 204 ML-DSA-44 is good; also False for an unusable key."""
    from cryptography.hazmat.primitives.asymmetric import mldsa

    try:
        mldsa.MLDSA44PublicKey.from_public_bytes(public).verify(signature, message, context)
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


def cosigned_message(key: VerifierKey, checkpoint: Checkpoint, seconds: int) -> bytes:
    """What a witness signs: it has seen `checkpoint` as the largest consistent one at `seconds` (POSIX)."""
    if key.kind is Kind.COSIGNATURE_ED25519:
        return b"cosignature/v1\ntime %d\n" % seconds + checkpoint.body()
    name, origin = key.name.encode(), checkpoint.origin.encode()
    if key.kind is not Kind.COSIGNATURE_ML_DSA_44 or len(name) > 255 or len(origin) > 255:
        raise VerificationError("witness-policy", f"{key.name:.200} cannot cosign {checkpoint.origin:.200}")
    start = bytes(8)
    return b"".join(
        (
            _ML_DSA_LABEL,
            bytes([len(name)]) + name,
            seconds.to_bytes(8, "big"),
            bytes([len(origin)]) + origin,
            start,
            checkpoint.size.to_bytes(8, "big"),
            checkpoint.root,
        )
    )


def cosignature_time(key: VerifierKey, blob: bytes, checkpoint: Checkpoint) -> int | None:
    """The POSIX seconds of a good cosignature, None for one that does not verify."""
    seconds, signature = int.from_bytes(blob[:_TIMESTAMP_BYTES], "big"), blob[_TIMESTAMP_BYTES:]
    if len(blob) <= _TIMESTAMP_BYTES or seconds > MAX_TIMESTAMP:
        return None
    message = cosigned_message(key, checkpoint, seconds)
    if key.kind is Kind.COSIGNATURE_ML_DSA_44:
        return seconds if ml_dsa_44_verifies(key.raw, signature, message) else None
    if not ed25519.is_sound_point(key.raw):
        return None
    public = Ed25519PublicKey.from_public_bytes(key.raw)
    return seconds if ed25519.verifies(public, signature, message) else None


@dataclass(frozen=True)
class Witnessing:
    """Which witnesses of a policy cosigned a checkpoint (name in the policy -> POSIX seconds).

    `known` is how many could have. `quorum_at` is when the quorum was first full; None where there is no
    quorum, where it is not met, or where a witness that it needs states no time (0).
    """

    times: dict[str, int]
    known: int
    required: bool
    met: bool
    quorum_at: int | None


@dataclass(frozen=True)
class WitnessPolicy:
    """Logs, witnesses and quorum (None asks for nothing); `groups` maps a name to (threshold, members)."""

    logs: tuple[VerifierKey, ...] = ()
    witnesses: dict[str, VerifierKey] = field(default_factory=dict)
    groups: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    quorum: str | None = None

    @property
    def rule(self) -> str | None:
        """How many must cosign, for people: a number, or the name of a group of groups; None for nobody."""
        if self.quorum is None:
            return None
        threshold, members = self.groups.get(self.quorum, (1, (self.quorum,)))
        return str(threshold) if set(members) <= self.witnesses.keys() else self.quorum

    def holds(self, names: set[str]) -> bool:
        """Whether cosignatures by these witnesses are enough."""
        return self.quorum is None or self._holds(self.quorum, names)

    def _holds(self, name: str, names: set[str]) -> bool:
        if name not in self.groups:
            return name in names
        threshold, members = self.groups[name]
        return sum(self._holds(member, names) for member in members) >= threshold

    def judge(self, signed: SignedCheckpoint, log: LogKey) -> Witnessing:
        """Count the cosignatures of a checkpoint.

        Raises `VerificationError`: `cosignature` for a line of a trusted witness that does not verify.
        Too few is no error here; the caller reads `met`.
        """
        if self.logs and log.key.raw not in {key.raw for key in self.logs}:
            raise VerificationError("witness-policy", f"the witness policy does not list {log.origin}")
        own = {log.origin, log.key.name}
        voters = {n: k for n, k in self.witnesses.items() if k.raw != log.key.raw and k.name not in own}
        times: dict[str, int] = {}
        for name, key in voters.items():
            for line in signed.note.by(key):
                seconds = cosignature_time(key, line.blob, signed.checkpoint)
                if seconds is None:
                    raise VerificationError("cosignature", f"the cosignature of {key.name} does not verify")
                times[name] = min(seconds, times.get(name, seconds))
        return Witnessing(
            times, len(voters), self.quorum is not None, self.holds(set(times)), self._quorum_at(times)
        )

    def _quorum_at(self, times: dict[str, int]) -> int | None:
        names: set[str] = set()
        timed = sorted((seconds, name) for name, seconds in times.items() if seconds)
        for seconds, name in timed if self.quorum is not None else ():
            names.add(name)
            if self.holds(names):
                return seconds
        return None


def parse_policy(raw: bytes) -> WitnessPolicy:
    """Read a policy file; raises `VerificationError` (`witness-policy`).

    Names are opaque bytes. One public key has one name, a name is a member of at most one group, a
    threshold is between 1 and the number of members, and there is exactly one quorum.
    """
    if len(raw) > POLICY_LIMIT_BYTES:
        raise VerificationError("witness-policy", f"a witness policy of {len(raw)} bytes")
    reader = _PolicyReader()
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not _ALLOWED.issuperset(line):
            raise VerificationError("witness-policy", f"line {number} has a control character")
        words = [w.decode("utf-8", "surrogateescape") for w in line.replace(b"\t", b" ").split(b" ") if w]
        if words and not words[0].startswith("#"):
            try:
                reader.take(words)
            except VerificationError as error:
                raise error.within(f"line {number}: ") from None
    if not reader.has_quorum:
        raise VerificationError("witness-policy", "no quorum line")
    return WitnessPolicy(tuple(reader.logs), reader.witnesses, reader.groups, reader.quorum)


def _refuse(detail: str) -> VerificationError:
    return VerificationError("witness-policy", detail)


class _PolicyReader:
    """The lines so far; a line may only use what stands before it."""

    def __init__(self) -> None:
        self.logs: list[VerifierKey] = []
        self.witnesses: dict[str, VerifierKey] = {}
        self.groups: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.quorum: str | None = None
        self.has_quorum = False
        self._members: set[str] = set()

    def take(self, words: list[str]) -> None:
        """One line of at least one word."""
        match words:
            case ["log", vkey] | ["log", vkey, _]:
                self._log(vkey)
            case ["witness", name, vkey] | ["witness", name, vkey, _]:
                self._witness(name, vkey)
            case ["group", name, threshold, *members] if members:
                self._group(name, threshold, members)
            case ["quorum", name] if not self.has_quorum:
                if name != "none" and name not in self.witnesses and name not in self.groups:
                    raise _refuse(f"the quorum {name!a} is not defined")
                self.quorum, self.has_quorum = None if name == "none" else name, True
            case _:
                raise _refuse(f"not a line of a witness policy: {words[0]!a:.80}")

    def _log(self, vkey: str) -> None:
        key = LogKey.parse(vkey).key
        if key.raw in {known.raw for known in self.logs}:
            raise _refuse("a log key is listed twice")
        self.logs.append(key)

    def _new(self, name: str) -> None:
        if name == "none" or name in self.witnesses or name in self.groups:
            raise _refuse(f"the name {name!a} is taken")
        if len(self.witnesses) + len(self.groups) >= MAX_DEFINITIONS:
            raise _refuse(f"more than {MAX_DEFINITIONS} witnesses and groups")

    def _witness(self, name: str, vkey: str) -> None:
        self._new(name)
        key = note.parse_vkey(vkey)
        if key.kind is Kind.ED25519:
            raise _refuse(f"the key of {name!a} is not one for cosignatures")
        if key.kind is Kind.COSIGNATURE_ED25519:
            ed25519.public_key(key.raw)
        if key.raw in {known.raw for known in self.witnesses.values()}:
            raise _refuse(f"the key of {name!a} is listed twice")
        self.witnesses[name] = key

    def _group(self, name: str, text: str, members: list[str]) -> None:
        self._new(name)
        if unknown := [m for m in members if m not in self.witnesses and m not in self.groups]:
            raise _refuse(f"the member {unknown[0]!a} is not defined")
        if len(set(members)) != len(members) or self._members.intersection(members):
            raise _refuse(f"a member of {name!a} votes twice")
        threshold = {"all": len(members), "any": 1}.get(text, -1)
        if threshold < 0 and text.isascii() and text.isdigit() and not text.startswith("0"):
            threshold = int(text[:4])
        if not 1 <= threshold <= len(members):
            raise _refuse(f"the threshold of {name!a} is not between 1 and {len(members)}")
        self._members.update(members)
        self.groups[name] = (threshold, tuple(members))
