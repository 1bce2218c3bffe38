"""Key files and the first trust root of an installation."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import x25519

from orchestrator.certificates import founding, trust
from orchestrator.certificates.errors import CertificateError, KeyFileError
from orchestrator.certificates.keys import SigningKey
from orchestrator.verification.errors import VerificationError

NOW_MS = 1_790_000_000_000


def secret(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


def test_key_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    """Mode 0600 from the first moment; a second key does not replace the first."""
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert SigningKey.load(tmp_path / "key.pem").public == key.public
    with pytest.raises(KeyFileError, match="exists"):
        SigningKey.generate().save(tmp_path / "key.pem")


def test_key_file_open_to_others_is_refused(tmp_path: Path) -> None:
    """A key that others can read is no longer ours alone; the hint mends it."""
    SigningKey.generate().save(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o640)
    with pytest.raises(KeyFileError, match="open to other users") as caught:
        SigningKey.load(tmp_path / "key.pem")
    assert caught.value.hint and "chmod 600" in caught.value.hint


def test_passphrase_encrypts_the_key(tmp_path: Path) -> None:
    """With a passphrase file the PEM is encrypted; without it, or with another, it does not open."""
    phrase, other = secret(tmp_path / "phrase", b"correct horse\n"), secret(tmp_path / "other", b"wrong\n")
    key = SigningKey.generate()
    key.save(tmp_path / "key.pem", phrase)
    assert b"ENCRYPTED" in (tmp_path / "key.pem").read_bytes()
    assert SigningKey.load(tmp_path / "key.pem", phrase).keyid == key.keyid
    for wrong in (None, other):
        with pytest.raises(KeyFileError):
            SigningKey.load(tmp_path / "key.pem", wrong)
    with pytest.raises(KeyFileError, match="empty"):
        SigningKey.load(tmp_path / "key.pem", secret(tmp_path / "empty", b"\n"))


def test_other_kinds_of_keys_are_refused(tmp_path: Path) -> None:
    """v1 signs with Ed25519 and nothing else."""
    pem = x25519.X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(KeyFileError, match="not an Ed25519 key"):
        SigningKey.load(secret(tmp_path / "x.pem", pem))
    with pytest.raises(KeyFileError, match="not a private key"):
        SigningKey.load(secret(tmp_path / "y.pem", b"hello"))
    with pytest.raises(KeyFileError, match="cannot be read"):
        SigningKey.load(tmp_path / "absent.pem")


def test_key_id_is_bound_to_algorithm_and_key() -> None:
    """keyid = first 32 hex of SHA-256(alg || LF || raw key)."""
    key = SigningKey.from_seed(bytes(32))
    assert key.keyid == hashlib.sha256(b"ed25519\n" + key.public).hexdigest()[:32]
    assert repr(key) == f"SigningKey({key.keyid})"


def test_create_makes_a_trust_root_that_verifies(tmp_path: Path) -> None:
    """A root key, a certificate key with the three usages, and the hash of the file as the pin."""
    path = tmp_path / "trust-root.json"
    made = founding.create(tmp_path / "keys", path, issuer="assize.example/lab", now_unix_ms=NOW_MS)
    assert made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert trust.load(path, pin=made.sha256) == made or made.keys.keys() == trust.load(path).keys.keys()
    certificate = SigningKey.load(tmp_path / "keys" / founding.CERTIFICATE_KEY_FILE)
    assert made.keys.keys() == {certificate.keyid}
    assert made.keys[certificate.keyid].usages == set(trust.USAGES)
    assert made.usable(certificate.keyid, "try-certificate/v1", "2026-09-21T14:13:20Z")
    assert not made.usable(certificate.keyid, "try-certificate/v1", "2029-01-01T00:00:00Z")
    assert made.usable(certificate.keyid, "notice/v1", "2026-09-21T14:13:20Z")
    assert not made.usable(certificate.keyid, "try-certificate/v2", "2026-09-21T14:13:20Z")
    with pytest.raises(VerificationError) as caught:
        trust.load(path, pin="0" * 64)
    assert caught.value.reasons == ("trust-root-pin",)


def test_create_never_overwrites_and_can_be_resumed(tmp_path: Path) -> None:
    """A trust root is not replaced; keys of an interrupted call are used, not orphaned."""
    path = tmp_path / "trust-root.json"
    (tmp_path / "keys").mkdir(mode=0o700)
    early = SigningKey.generate()
    early.save(tmp_path / "keys" / founding.CERTIFICATE_KEY_FILE)
    made = founding.create(tmp_path / "keys", path, issuer="assize.example/lab", now_unix_ms=NOW_MS)
    assert early.keyid in made.keys
    with pytest.raises(CertificateError, match="never overwritten"):
        founding.create(tmp_path / "keys", path, issuer="assize.example/lab", now_unix_ms=NOW_MS)


def test_missing_trust_root_is_one_sentence(tmp_path: Path) -> None:
    """No traceback for a file that is not there."""
    with pytest.raises(VerificationError, match="cannot be read"):
        trust.load(tmp_path / "trust-root.json")
