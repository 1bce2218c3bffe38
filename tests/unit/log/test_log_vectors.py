"""Public vectors: RFC 6962 proofs and roots, real checkpoints, a live proof, ML-DSA-44, the note example."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key

from orchestrator.log import note, tree, witness
from orchestrator.log.checkpoint import LogKey, log_key, open_checkpoint, parse_body
from orchestrator.log.note import Kind
from orchestrator.log.proof import LogVerifier, parse_proof
from orchestrator.verification import ed25519
from orchestrator.verification.errors import VerificationError

Vectors = Callable[[str], Path]


def decode(text: str | None) -> bytes:
    return base64.b64decode(text or "")


def accepts(check: Callable[..., None], *values: Any) -> bool:
    try:
        check(*values)
    except VerificationError:
        return False
    return True


def test_merkle_inclusion_and_consistency(vectors: Vectors) -> None:
    """196 of 196, among them size1 = 0 and zero-length hashes, which textbook code accepts."""
    ran = 0
    for path in sorted(vectors("merkle").glob("*/**/*.json")):
        case = json.loads(path.read_text())
        proof = [decode(item) for item in case["proof"] or ()]
        if "leafIdx" in case:
            found = accepts(
                tree.verify_inclusion,
                decode(case["leafHash"]),
                case["leafIdx"],
                case["treeSize"],
                proof,
                decode(case["root"]),
            )
        else:
            roots = decode(case["root1"]), decode(case["root2"])
            found = accepts(tree.verify_consistency, case["size1"], roots[0], case["size2"], roots[1], proof)
        assert found is not case["wantErr"], path.name
        ran += 1
    assert ran == 196


def test_rfc_6962_roots(vectors: Vectors) -> None:
    """Roots of the trees of 0 to 8 leaves."""
    data = json.loads(vectors("merkle/rfc6962_roots.json").read_text())
    leaves = [tree.leaf_hash(bytes.fromhex(text)) for text in data["leaf_inputs_hex"]]
    found = [tree.root(leaves[:size]).hex() for size in range(9)]
    assert found == [data["empty_root"], *data["root_hex_by_size_1_to_8"]]


def test_wycheproof_ml_dsa_44(vectors: Vectors) -> None:
    """180 of 180, with contexts, wrong lengths and unusable keys."""
    data = json.loads(vectors("wycheproof/mldsa_44_verify_test.json").read_text())
    ran = 0
    for group in data["testGroups"]:
        public = bytes.fromhex(group["publicKey"])
        for test in group["tests"]:
            parts = [bytes.fromhex(test.get(name, "")) for name in ("sig", "msg", "ctx")]
            assert witness.ml_dsa_44_verifies(public, *parts) == (test["result"] == "valid"), test["tcId"]
            ran += 1
    assert ran == data["numberOfTests"] == 180


def test_note_example(vectors: Vectors) -> None:
    """The example of the signed-note specification verifies and re-encodes to itself."""
    data = json.loads(vectors("c2sp-dsse-examples/signed_note.json").read_text())
    key = note.parse_vkey(data["vkey"])
    signed = note.parse(data["note"].encode())
    (line,) = signed.by(key)
    assert ed25519.verifies(ed25519.public_key(key.raw), line.blob, signed.text)
    assert signed.encode() == data["note"].encode()
    assert key.vkey == data["vkey"]


def test_real_checkpoints(vectors: Vectors) -> None:
    """sum.golang.org (whose origin is not its key name) and a Rekor v2 shard."""
    folder = vectors("tlog-real")
    keys = json.loads((folder / "keys.json").read_text())
    go = keys["sum.golang.org"]
    found = open_checkpoint((folder / go["file"]).read_bytes(), LogKey.parse(go["vkey"], go["origin_line"]))
    assert found.checkpoint.size == 57389448
    name = "log2025-1.rekor.sigstore.dev"
    public = load_der_public_key(base64.b64decode(keys[name]["spki_b64"]))
    assert isinstance(public, Ed25519PublicKey)
    raw = (folder / keys[name]["file"]).read_bytes()
    assert open_checkpoint(raw, log_key(name, public.public_bytes_raw())).checkpoint.size == 22578297
    with pytest.raises(VerificationError, match="checkpoint-unsigned"):
        open_checkpoint(raw.replace(b"22578297", b"22578298"), log_key(name, public.public_bytes_raw()))


def real_keys(folder: Path) -> list[note.VerifierKey]:
    lines = (folder / "witness_keys.txt").read_text().splitlines()
    return [note.parse_vkey(line) for line in lines if line and not line.startswith("#")]


def test_live_proof_with_all_witnesses(vectors: Vectors) -> None:
    """Entry 7271 of 7341, with 5 Ed25519 and 2 ML-DSA-44 cosignatures, all of which are required."""
    folder = vectors("tlog-real")
    log, *witnesses = real_keys(folder)
    kinds = [key.kind for key in witnesses]
    assert kinds.count(Kind.COSIGNATURE_ED25519) == 5
    assert kinds.count(Kind.COSIGNATURE_ML_DSA_44) == 2
    lines = [f"witness w{at} {key.vkey}" for at, key in enumerate(witnesses)]
    members = " ".join(f"w{at}" for at in range(len(witnesses)))
    text = "\n".join([f"log {log.vkey}", *lines, f"group all-of-them all {members}", "quorum all-of-them"])
    verifier = LogVerifier(LogKey.parse(log.vkey), witness.parse_policy(text.encode()))
    raw = (folder / "proof_7271.tlog-proof").read_bytes()
    logged = verifier.check(raw, (folder / "leaf_7271.raw").read_bytes())
    assert (logged.index, logged.checkpoint.size) == (7271, 7341)
    assert logged.witnessing.met and len(logged.witnessing.times) == 7
    assert logged.witnessing.quorum_at == max(logged.witnessing.times.values())
    assert logged.notes == ()
    assert parse_proof(raw).encode() == raw
    with pytest.raises(VerificationError, match="inclusion"):
        verifier.check(raw, b"another entry")


def test_later_live_checkpoint(vectors: Vectors) -> None:
    """The same log at size 7397: log signature and all seven witnesses again; its note re-encodes exactly."""
    folder = vectors("tlog-real")
    raw = (folder / "checkpoint_7397.txt").read_bytes()
    log, *witnesses = real_keys(folder)
    signed = open_checkpoint(raw, LogKey.parse(log.vkey))
    policy = witness.WitnessPolicy(witnesses={key.vkey: key for key in witnesses})
    assert len(policy.judge(signed, LogKey.parse(log.vkey)).times) == 7
    assert signed.note.encode() == raw
    assert parse_body(signed.note.text).body() == signed.note.text
