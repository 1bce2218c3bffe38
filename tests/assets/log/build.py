"""Makes every named bad (and good) log file with the verdict that it must get.

`python build.py FOLDER` writes the files and `index.json`. A case names its row of the attack table
(reference/certificates.md section 4), its kind (`proof`, `compare`, `consistency`, `audit`, `policy`), the
files that it is about, and the expected exit code, reason codes and notes. Keys are seeded, so two runs
write the same bytes.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.log import tiles, tree
from orchestrator.log.checkpoint import Checkpoint, sign_checkpoint
from orchestrator.log.note import Kind, Note, Signature, VerifierKey
from orchestrator.log.proof import HEADER, ConsistencyProof, TlogProof
from orchestrator.verification import wire

if TYPE_CHECKING:
    from tests.assets.log.log_world import ORIGIN, Log, Witness, entries, entry, signing_key
else:  # as a script, and as the tests load it
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from log_world import ORIGIN, Log, Witness, entries, entry, signing_key

SIZE, INDEX = 57, 20
UNWITNESSED = ["not-witnessed"]


@dataclass
class Case:
    """One verdict. `files` maps a role (proof, entry, policy, remembered, consistency, log) to a path."""

    name: str
    row: int
    kind: str
    files: dict[str, str]
    exit: int
    codes: list[str]
    notes: list[str] = field(default_factory=list)


class Builder:
    """Collects cases and writes their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases: list[Case] = []
        folder.mkdir(parents=True)
        self.log = Log(entries(SIZE))
        self.entry = self.log.items[INDEX]
        (folder / "log.vkey").write_text(self.log.vkey)

    def add(
        self,
        name: str,
        row: int,
        kind: str,
        exit_code: int,
        *codes: str,
        notes: list[str] | None = None,
        **files: bytes | Path,
    ) -> None:
        """A case; contents become files beside the index, a path is a folder that is there already."""
        paths = {}
        for role, content in files.items():
            if isinstance(content, Path):
                paths[role] = content.name
            else:
                paths[role] = f"{name}.{role}"
                (self.folder / paths[role]).write_bytes(content)
        self.cases.append(Case(name, row, kind, paths, exit_code, list(codes), notes or []))

    def proof(
        self,
        name: str,
        row: int,
        proof: TlogProof | bytes,
        exit_code: int,
        *codes: str,
        of: bytes | None = None,
        **files: bytes,
    ) -> None:
        """A proof of the entry at `INDEX`, or of `of`."""
        raw = proof if isinstance(proof, bytes) else proof.encode()
        notes = [] if codes or "policy" in files else UNWITNESSED
        self.add(
            name, row, "proof", exit_code, *codes, notes=notes, proof=raw, entry=of or self.entry, **files
        )

    def folder_of(self, name: str, log: Log) -> Path:
        """A log as files."""
        log.write(self.folder / name, self.folder / f"{name}.state")
        shutil.rmtree(self.folder / f"{name}.state")
        return self.folder / name


def add_proofs(b: Builder) -> None:
    """Rows 34, 37, 38: the proof is not of this entry at this place in this tree."""
    good, log = b.log.prove(INDEX), b.log
    b.proof("genuine", 34, good, 0)
    b.proof("genuine-extra-data", 34, replace(good, extra=b"ignored"), 0)
    b.proof("genuine-first-of-one", 34, Log([b.entry]).prove(0), 0)
    b.proof("other-size", 34, replace(good, path=log.prove(INDEX, 33).path), 1, "inclusion")
    b.proof("other-size-checkpoint", 34, replace(good, checkpoint=log.signed(56)), 1, "inclusion")
    b.proof("other-index", 34, replace(good, index=INDEX + 1), 1, "inclusion")
    b.proof("index-plus-size", 34, replace(good, index=INDEX + 64), 1, "inclusion")
    b.proof("lengthened", 34, replace(good, path=(*good.path, good.path[-1])), 1, "inclusion")
    b.proof("shortened", 34, replace(good, path=good.path[:-1]), 1, "inclusion")
    b.proof("no-path", 34, replace(good, path=()), 1, "inclusion")
    swapped = (good.path[1], good.path[0], *good.path[2:])
    b.proof("path-swapped", 34, replace(good, path=swapped), 1, "inclusion")
    # Without domain separation an inner node passes for a leaf.
    left, right = (tree.leaf_hash(raw) for raw in log.items[INDEX : INDEX + 2])
    inner = replace(good, index=INDEX // 2, path=good.path[1:])
    b.proof("inner-node-as-entry", 34, inner, 1, "inclusion", of=left + right)
    b.proof("entry-of-another-certificate", 37, good, 1, "inclusion", of=log.items[INDEX + 1])
    other = entry(f"task-{INDEX:03}", says="failed")
    b.proof("entry-with-another-outcome", 37, good, 1, "inclusion", of=other)
    b.proof("truncated-log", 38, replace(good, checkpoint=log.signed(INDEX)), 1, "inclusion")
    b.proof("empty-log", 38, replace(good, path=(), checkpoint=log.signed(0)), 1, "inclusion")


def add_spellings(b: Builder) -> None:
    """Rows 34 and 43: one spelling only, also of the checkpoint inside."""
    good = b.log.prove(INDEX)
    raw, first = good.encode(), wire.base64_encode(good.path[0])
    for name, bad in {
        "header-other-version": raw.replace(b"@v1", b"@v2"),
        "header-missing": raw.removeprefix(HEADER),
        "leading-line": b"\n" + raw,
        "index-leading-zero": raw.replace(b"index 20", b"index 020"),
        "index-sign": raw.replace(b"index 20", b"index +20"),
        "index-huge": raw.replace(b"index 20", b"index 1" + b"0" * 40),
        "index-missing": raw.replace(b"index 20\n", b""),
        "crlf": raw.replace(b"\n", b"\r\n"),
        "hash-short": raw.replace(first, wire.base64_encode(good.path[0][:31])),
        "hash-unpadded": raw.replace(first, first[:-1]),
        "hash-unused-bits": raw.replace(first, first[:-2] + bytes([first[-2] + 1]) + b"="),
        "extra-twice": raw.replace(b"index", b"extra AA==\nextra AA==\nindex"),
        "extra-not-base64": raw.replace(b"index", b"extra A\nindex"),
        "too-many-hashes": replace(good, path=good.path[:1] * 64).encode(),
        "no-checkpoint-line": raw.partition(b"\n\n")[0],
    }.items():
        b.proof(f"form-{name}", 34, bad, 1, "proof-form")
    # An empty line ends the path, so that the rest of it stands where the checkpoint should.
    b.proof("form-hash-empty", 43, raw.replace(first, b""), 1, "checkpoint-form")
    b.proof("form-too-large", 34, raw + b"\n" * 300_000, 2, "too-large")
    body = b.log.head().body()
    for name, text in {
        "extension-line": body + b"extra\n",
        "size-leading-zero": body.replace(b"\n57\n", b"\n057\n"),
        "size-huge": body.replace(b"\n57\n", b"\n9223372036854775808\n"),
        "root-empty": b"\n".join([*body.split(b"\n")[:2], b"", b""]),
        "root-short": b"\n".join([*body.split(b"\n")[:2], b"AAAA", b""]),
        "empty-tree-with-root": body.replace(b"\n57\n", b"\n0\n"),
        "two-lines": b"\n".join([*body.split(b"\n")[:2], b""]),
    }.items():
        b.proof(f"checkpoint-{name}", 43, replace(good, checkpoint=signed(text)), 1, "checkpoint-form")
    note = b.log.signed()
    for name, bad in {
        "no-signature-line": body + b"\n",
        "no-empty-line": note.replace(b"\n\n", b"\n"),
        "hyphen-for-dash": note.replace("—".encode(), b"-"),
        "trailing-text": note + b"more\n",
        "unfinished-line": note[:-1],
        "control-character": note.replace(b"assize", b"ass\tize"),
        "not-utf-8": note.replace(b"assize", b"ass\xffize"),
        "signature-not-base64": note[:-2] + b"\n",
        "signatures-33": note + note.rpartition(b"\n\n")[2] * 32,
    }.items():
        b.proof(f"note-{name}", 35, replace(good, checkpoint=bad), 1, "checkpoint-form")


def signed(text: bytes, key: str = "log", name: str = ORIGIN, keyid: bytes | None = None) -> bytes:
    """Any text as a note signed by a seeded key, under any name and key id."""
    holder = signing_key(key)
    own = VerifierKey(name, Kind.ED25519, holder.public).keyid
    return Note(text, (Signature(name, keyid or own, holder.sign(text)),)).encode()


def add_checkpoints(b: Builder) -> None:
    """Rows 35 and 36: signed by nobody, by somebody else, or for another log."""
    good, log = b.log.prove(INDEX), b.log
    body = log.head().body()
    trusted = VerifierKey(ORIGIN, Kind.ED25519, log.key.public).keyid
    alone = Log([b.entry], key="foreign")
    b.proof("one-leaf-tree-of-a-foreign-key", 35, alone.prove(0), 1, "checkpoint-unsigned")
    forged = signed(Log([b.entry]).head().body(), "foreign", keyid=trusted)
    b.proof("foreign-key-under-trusted-id", 35, TlogProof(0, (), forged), 1, "checkpoint-unsigned")
    unsigned = Note(body, (Witness("witness.example/w1").cosign(log.head()),)).encode()
    b.proof("only-a-witness-signed", 35, replace(good, checkpoint=unsigned), 1, "checkpoint-unsigned")
    moved = signed(body, name="assize.example/other")
    b.proof("trusted-key-under-another-name", 35, replace(good, checkpoint=moved), 1, "checkpoint-unsigned")
    resized = log.signed().replace(b"\n57\n", b"\n58\n")
    b.proof("size-edited", 35, replace(good, checkpoint=resized), 1, "checkpoint-unsigned")
    identity = Signature(ORIGIN, trusted, (1).to_bytes(32, "little") + bytes(32))
    small = Note(body, (identity,)).encode()
    b.proof("small-order-signature", 35, replace(good, checkpoint=small), 1, "checkpoint-unsigned")
    both = log.signed() + forged.rpartition(b"\n\n")[2]
    b.proof("one-good-and-one-bad-line", 35, replace(good, checkpoint=both), 1, "checkpoint-unsigned")
    with_foreign = log.signed() + signed(body, "foreign", "other.example/log").rpartition(b"\n\n")[2]
    b.proof("foreign-line-is-ignored", 35, replace(good, checkpoint=with_foreign), 0)
    foreign = Log(log.items, origin="assize.example/log/2025")
    b.proof("foreign-origin-same-key", 36, foreign.prove(INDEX), 1, "origin")
    named = signed(foreign.head().body())
    b.proof("foreign-origin-trusted-name", 36, replace(good, checkpoint=named), 1, "origin")


def add_memory(b: Builder) -> None:
    """Rows 39 to 43: what a remembered checkpoint shows, and what nothing shows."""
    log = b.log
    fork = Log([*log.items[:40], entry("forged"), *log.items[41:]])
    shorter = Log([*log.items[:10], *log.items[11:]])
    grown = Log([*log.items, *entries(20, "later")])
    grown_fork = Log([*fork.items, *entries(20, "later")])
    remembered = log.signed()

    def compare(name: str, row: int, seen: Log, size: int, path: ConsistencyProof | None, *want: str) -> None:
        files: dict[str, Any] = {} if path is None else {"consistency": path.encode()}
        code = 0 if not want else 4 if want == ("consistency-missing",) else 1
        b.add(name, row, "compare", code, *want, remembered=remembered, seen=seen.signed(size), **files)

    compare("same-checkpoint", 39, log, 57, None)
    compare("rollback", 39, log, 33, None, "rollback")
    compare("rollback-to-nothing", 39, log, 0, None, "rollback")
    compare("rollback-to-nothing-with-proof", 39, log, 0, log.prove_consistency(33), "rollback")
    compare("older-with-proof", 39, log, 33, log.prove_consistency(33))
    compare("older-with-proof-of-other-size", 39, log, 33, log.prove_consistency(34), "split-view")
    compare("newer-with-proof", 39, grown, 77, grown.prove_consistency(57))
    compare("newer-without-proof", 39, grown, 77, None, "consistency-missing")
    compare("fork-of-the-same-size", 40, fork, 57, None, "split-view")
    compare("fork-that-grew", 40, grown_fork, 77, grown_fork.prove_consistency(57), "split-view")
    compare("older-fork", 40, fork, 45, fork.prove_consistency(45), "split-view")
    compare("leaf-deleted", 41, shorter, 56, shorter.prove_consistency(56), "split-view")
    refilled = Log([*shorter.items, *entries(5, "later")])
    compare("leaf-deleted-and-refilled", 41, refilled, 61, refilled.prove_consistency(57), "split-view")
    other = Log(log.items, origin="assize.example/log/2025")
    compare("checkpoint-of-another-log", 36, other, 57, None, "origin")
    b.proof("fork-without-memory-or-witnesses", 42, fork.prove(INDEX), 0)

    def consistency(name: str, old: Checkpoint, raw: bytes, *want: str) -> None:
        old_note = sign_checkpoint(old, log.key)
        b.add(name, 43, "consistency", 1 if want else 0, *want, remembered=old_note, consistency=raw)

    good = log.prove_consistency(33)
    consistency("consistent", log.head(33), good.encode())
    consistency(
        "from-the-empty-tree", log.head(0), replace(good, old_size=0, path=()).encode(), "consistency"
    )
    nothing = replace(good, old_size=0, path=(tree.EMPTY_ROOT,)).encode()
    consistency("from-the-empty-tree-with-a-hash", log.head(0), nothing, "consistency")
    consistency("empty-path", log.head(33), replace(good, path=()).encode(), "consistency")
    longer = replace(good, path=(*good.path, good.path[-1])).encode()
    consistency("path-too-long", log.head(33), longer, "consistency")
    consistency("same-size-with-path", log.head(), replace(good, old_size=57).encode(), "consistency")
    consistency("larger-to-smaller", log.head(), log.prove_consistency(20, 33).encode(), "consistency")
    line = wire.base64_encode(good.path[0])
    consistency("zero-length-hash", log.head(33), good.encode().replace(line, b""), "checkpoint-form")


def add_witnesses(b: Builder) -> None:
    """Row 44: only distinct keys of other parties count, each for this very checkpoint."""
    log, head = b.log, b.log.head()
    one, two, three = (Witness(f"witness.example/w{n}") for n in (1, 2, 3))
    lines = [f"log {log.vkey}"] + [f"witness w{n} {w.key.vkey}" for n, w in enumerate((one, two, three), 1)]
    policy = "\n".join([*lines, "group most 2 w1 w2 w3", "quorum most", ""]).encode()

    def witnessed(name: str, code: int, *want: str, by: list[Signature], rule: bytes = policy) -> None:
        b.proof(f"witness-{name}", 44, log.prove(INDEX, more=by), code, *want, policy=rule)

    enough = [one.cosign(head), three.cosign(head)]
    witnessed("quorum", 0, by=enough)
    witnessed("all", 0, by=[*enough, two.cosign(head)])
    witnessed("none", 4, "quorum", by=[])
    witnessed("too-few", 4, "quorum", by=[one.cosign(head)])
    many = [Witness(f"alias.example/{n}", one.key.name).cosign(head) for n in range(3)]
    witnessed("one-key-under-many-names", 4, "quorum", by=[one.cosign(head), *many])
    witnessed("same-twice", 4, "quorum", by=[one.cosign(head), one.cosign(head, 1_790_942_401)])
    witnessed("unknown-key", 4, "quorum", by=[one.cosign(head), Witness("stranger.example").cosign(head)])
    own = Witness(ORIGIN, "log")
    own_rule = policy.replace(three.key.vkey.encode(), own.key.vkey.encode())
    witnessed("log-itself", 4, "quorum", by=[one.cosign(head), own.cosign(head)], rule=own_rule)
    disguised = Witness("witness.example/w4", "log")
    rule = policy.replace(three.key.vkey.encode(), disguised.key.vkey.encode())
    witnessed(
        "log-key-under-another-name", 4, "quorum", by=[one.cosign(head), disguised.cosign(head)], rule=rule
    )
    named = Witness(ORIGIN, "another key of the log")
    rule = policy.replace(three.key.vkey.encode(), named.key.vkey.encode())
    witnessed(
        "another-key-named-as-the-log", 4, "quorum", by=[one.cosign(head), named.cosign(head)], rule=rule
    )
    stale = three.cosign(log.head(56))
    witnessed("of-another-checkpoint", 1, "cosignature", by=[one.cosign(head), two.cosign(head), stale])
    elsewhere = three.cosign(replace(head, origin="assize.example/log/2025"))
    witnessed("of-another-origin", 1, "cosignature", by=[*enough[:1], elsewhere])
    cosigned = three.cosign(head)
    later = replace(cosigned, blob=(1_790_942_999).to_bytes(8, "big") + cosigned.blob[8:])
    witnessed("time-edited", 1, "cosignature", by=[later])
    plain = replace(cosigned, blob=signing_key(three.key.name).sign(head.body()))
    witnessed("of-another-signature-type", 1, "cosignature", by=[plain])
    padded = replace(cosigned, blob=cosigned.blob[:8] + signing_key(three.key.name).sign(head.body()))
    witnessed("plain-signature-with-a-time", 1, "cosignature", by=[padded])
    short = replace(cosigned, blob=cosigned.blob[:8])
    witnessed("time-without-signature", 1, "cosignature", by=[short])
    # What is INVALID is said before what is merely missing.
    bad = replace(log.prove(INDEX), index=INDEX + 1)
    b.proof("witness-none-and-other-index", 44, bad, 1, "inclusion", policy=policy)


def add_policies(b: Builder) -> None:
    """Rows 44 and 45 for the witness policy: no rule that can be met by less than it seems."""
    one, two = Witness("witness.example/w1").key.vkey, Witness("witness.example/w2").key.vkey
    again = Witness("alias.example/w1", "witness.example/w1").key.vkey
    head = f"witness w1 {one}\nwitness w2 {two}\n"

    def policy(name: str, text: str | bytes, *want: str) -> None:
        raw = text if isinstance(text, bytes) else text.encode()
        b.add(f"policy-{name}", 45, "policy", 2 if want else 0, *want, policy=raw)

    bad = "witness-policy"
    policy("none", "quorum none\n")
    policy("comments-and-blanks", f"# two\n\n \t\n{head} group g\tany w1 w2 \nquorum g")
    policy("single-witness", f"{head}quorum w2\n")
    policy(
        "url-and-nested",
        f"{head}witness w3 {Witness('w3').key.vkey} u\ngroup a 1 w1 w2\ngroup b all a w3\nquorum b\n",
    )
    policy("empty", "", bad)
    policy("threshold-0", f"{head}group g 0 w1 w2\nquorum g\n", bad)
    policy("threshold-negative", f"{head}group g -1 w1 w2\nquorum g\n", bad)
    policy("threshold-too-large", f"{head}group g 3 w1 w2\nquorum g\n", bad)
    policy("threshold-leading-zero", f"{head}group g 01 w1 w2\nquorum g\n", bad)
    policy("group-without-members", f"{head}group g any\nquorum g\n", bad)
    policy("key-twice", f"{head}witness w3 {again}\ngroup g 2 w1 w3\nquorum g\n", bad)
    policy("name-twice", f"{head}witness w1 {Witness('w3').key.vkey}\nquorum w1\n", bad)
    policy("member-twice", f"{head}group g 2 w1 w1\nquorum g\n", bad)
    policy("member-of-two-groups", f"{head}group a any w1\ngroup g 2 a w1\nquorum g\n", bad)
    policy("group-of-itself", f"{head}group g 2 w1 g\nquorum g\n", bad)
    policy("member-defined-later", f"group g any w1\n{head}quorum g\n", bad)
    policy("quorum-undefined", f"{head}quorum most\n", bad)
    policy("quorum-twice", f"{head}quorum w1\nquorum none\n", bad)
    policy("quorum-missing", head, bad)
    policy("named-none", f"witness none {one}\nquorum none\n", bad)
    policy("log-key-as-witness", f"witness w1 {b.log.vkey}\nquorum w1\n", bad)
    policy("witness-key-as-log", f"log {one}\nquorum none\n", "trust-root")
    policy("log-twice", f"log {b.log.vkey}\nlog {b.log.vkey}\nquorum none\n", bad)
    wrong = one.replace("+", f"+{'0' if one.partition('+')[2][0] != '0' else '1'}", 1)
    wrong = wrong[: wrong.index("+") + 2] + wrong[wrong.index("+") + 3 :]
    policy("key-id-wrong", f"witness w1 {wrong}\nquorum w1\n", bad)
    small = VerifierKey("w3", Kind.COSIGNATURE_ED25519, (1).to_bytes(32, "little")).vkey
    policy("small-order-key", f"witness w3 {small}\nquorum w3\n", "trust-root")
    policy("name-opaque-bytes", b"witness \x80 " + one.encode() + b"\nquorum \x80\n")
    not_utf8 = one.encode().replace(b"witness", b"\x80witness", 1)
    policy("key-name-not-utf8", b"witness w1 " + not_utf8 + b"\nquorum w1\n", bad)
    policy("log-key-name-not-utf8", b"log \x80" + b.log.vkey.encode() + b"\nquorum none\n", "trust-root")
    policy("control-character", head.encode() + b"\x00\nquorum w1\n", bad)
    policy("carriage-return", (head + "quorum w1\n").replace("\n", "\r\n"), bad)
    policy("unknown-word", f"{head}threshold 1\nquorum w1\n", bad)


def add_audits(b: Builder) -> None:
    """Rows 22, 40, 41 and what only a reader of the whole log can see."""
    items = entries(300)
    log = Log(items)
    good = b.folder_of("log-good", log)
    state = {"remembered": log.signed(257)}

    def audit(name: str, row: int, code: int, folder: Path, *want: str, **files: bytes) -> None:
        # These are found, the others end the audit.
        notes = UNWITNESSED if want in ((), ("double",), ("entry-form",)) else []
        b.add(f"audit-{name}", row, "audit", code, *want, notes=notes, log=folder, **files)

    def spoilt(name: str, path: str, change: bytes | None) -> Path:
        """A copy of the good log with one file removed, or the last bytes of it flipped by `change`."""
        folder = b.folder / f"log-{name}"
        shutil.copytree(good, folder)
        target = folder / path
        if change is None:
            target.unlink()
        else:
            raw = target.read_bytes()
            end = bytes(old ^ new for old, new in zip(raw[len(raw) - len(change) :], change, strict=True))
            target.write_bytes(raw[: len(raw) - len(change)] + end)
        return folder

    audit("good", 22, 0, good)
    audit("good-remembered", 22, 0, good, **state)
    audit("good-remembered-all", 22, 0, good, remembered=log.signed())
    twice = Log([*items[:270], entry("task-003", says="failed"), *items[270:]])
    audit("certified-twice", 22, 1, forced(b, "log-twice", twice), "double")
    audit("logged-twice", 22, 1, forced(b, "log-same-twice", Log([*items, items[7]])), "double")
    odd = Log([*items, b"anything\n"])
    audit("entry-not-in-form", 22, 1, forced(b, "log-odd", odd), "entry-form")
    full, partial = tiles.tile_path("entries", 0), tiles.tile_path("entries", 1, 44)
    audit("entry-altered", 41, 1, spoilt("entry", full, b"\x03\x00"), "log-tile")
    audit("partial-entry-altered", 41, 1, spoilt("partial-entry", partial, b"\x03\x00"), "log-tile")
    audit("bundle-torn", 41, 1, spoilt("torn", full, b"\xff" * 300), "log-tile")
    audit("tile-altered", 41, 1, spoilt("tile", tiles.tile_path(0, 0), b"\x01"), "log-tile")
    audit("upper-tile-altered", 41, 1, spoilt("upper", tiles.tile_path(1, 0, 1), b"\x01"), "log-tile")
    audit("bundle-missing", 41, 4, spoilt("no-bundle", full, None), "log-missing")
    audit("tile-missing", 41, 4, spoilt("no-tile", tiles.tile_path(0, 1, 44), None), "log-missing")
    audit("checkpoint-missing", 41, 4, spoilt("no-checkpoint", "checkpoint", None), "log-missing")
    lie = spoilt("lie", "checkpoint", b"")
    (lie / "checkpoint").write_bytes(sign_checkpoint(Checkpoint(ORIGIN, 300, bytes(32)), log.key))
    audit("root-is-not-that-of-the-entries", 41, 1, lie, "log-root")
    fork = Log([*items[:100], entry("forged"), *items[101:]])
    audit("fork", 40, 1, good, "split-view", remembered=fork.signed(257))
    audit("fork-of-the-same-size", 40, 1, good, "split-view", remembered=fork.signed())
    deleted = b.folder_of("log-deleted", Log([*items[:10], *items[11:], *entries(5, "later")]))
    audit("leaf-deleted", 41, 1, deleted, "split-view", **state)
    audit("rollback", 39, 1, good, "rollback", remembered=Log([*items, *entries(1, "later")]).signed())
    audit("foreign-key", 35, 1, b.folder_of("log-foreign", Log(items, key="foreign")), "checkpoint-unsigned")


def forced(b: Builder, name: str, log: Log) -> Path:
    """A log as files that the real writer would refuse to write."""
    folder = b.folder / name
    edge = tiles.Edge()
    files = {tiles.tile_path(level, n): raw for level, n, raw in edge.extend(b"".join(log.leaves))}
    for level, number, row in edge.partial():
        files[tiles.tile_path(level, number, len(row) // tree.HASH_BYTES)] = row
    for start in range(0, len(log.items), tiles.WIDTH):
        part = log.items[start : start + tiles.WIDTH]
        files[tiles.tile_path("entries", start // tiles.WIDTH, len(part))] = tiles.join_bundle(part)
    for path, raw in {**files, "checkpoint": log.signed()}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(raw)
    return folder


def build(folder: Path) -> list[Case]:
    """Write every file and the index; returns the cases."""
    b = Builder(folder)
    for part in (
        add_proofs,
        add_spellings,
        add_checkpoints,
        add_memory,
        add_witnesses,
        add_policies,
        add_audits,
    ):
        part(b)
    index = [asdict(case) for case in b.cases]
    (folder / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    return b.cases


if __name__ == "__main__":
    sys.stdout.write(f"{len(build(Path(sys.argv[1])))} cases\n")
