"""Ed25519 signing keys: what a holder of one offers, and keys in files that only the signer can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orchestrator.certificates.errors import KeyFileError
from orchestrator.verification import ed25519

SHORTEST_PASSPHRASE: Final = 12
_ENCRYPTED: Final = b"ENCRYPTED PRIVATE KEY"


class KeyHolder(Protocol):
    """Whatever holds an Ed25519 key: a file, or a program before an HSM or a cloud KMS."""

    @property
    def public(self) -> bytes:
        """The 32 bytes of the public key."""

    @property
    def keyid(self) -> str:
        """Its key id, 32 hex characters."""

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature of `message`; raises `CertificateError` when there is none."""


class SigningKey:
    """A private key. It signs and tells its public half; it is never shown or compared."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self.keyid = ed25519.key_id(self.public)

    def __repr__(self) -> str:
        return f"SigningKey({self.keyid})"

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature of `message`."""
        return self._private.sign(message)

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key from the operating system's random numbers."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> SigningKey:
        """The key of a 32-byte RFC 8032 seed."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def save(self, path: Path, passphrase_file: Path | None = None) -> None:
        """Write PKCS#8 PEM with mode 0600 to a new file; encrypted when a passphrase file is given.

        The file is there whole or not at all. Raises `KeyFileError` when it exists (a key is never
        overwritten), and for a passphrase that is too short: PKCS#8 slows guessing down by little.
        """
        write_new(path, self._pem(passphrase_file))

    def encrypt(self, path: Path, passphrase_file: Path) -> None:
        """Replace the plain key file of this key by an encrypted one, all or nothing."""
        temporary = path.with_name(f".{path.name}.encrypted")
        temporary.unlink(missing_ok=True)
        write_new(temporary, self._pem(passphrase_file))
        os.replace(temporary, path)

    def _pem(self, passphrase_file: Path | None) -> bytes:
        from cryptography.hazmat.primitives import serialization

        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase_file is not None:
            passphrase = _passphrase(passphrase_file)
            if len(passphrase) < SHORTEST_PASSPHRASE:
                raise KeyFileError(
                    f"the passphrase in {passphrase_file.name} is shorter than {SHORTEST_PASSPHRASE} bytes",
                    hint="let a program draw it: openssl rand -base64 32",
                )
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )

    @classmethod
    def load(cls, path: Path, passphrase_file: Path | None = None) -> SigningKey:
        """Read a key; raises `KeyFileError` for a file others can read, and for anything but Ed25519.

        A plain key file needs no passphrase, and one that is given is not looked at.
        """
        from cryptography.hazmat.primitives import serialization

        pem = read_secret(path)
        named = passphrase_file if _ENCRYPTED in pem else None
        try:
            private = serialization.load_pem_private_key(pem, None if named is None else _passphrase(named))
        except (ValueError, TypeError):
            raise KeyFileError(
                f"{path.name} is not a private key, or its passphrase is missing or wrong",
                hint="name the file of the passphrase with ASSIZE_KEY_PASSPHRASE_FILE",
            ) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFileError(f"{path.name} is not an Ed25519 key")
        return cls(private)


def write_new(path: Path, data: bytes) -> None:
    """A new file with mode 0600, durable, whole or not there; `KeyFileError` for one that exists."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(temporary, path)  # unlike a rename, this never replaces anything
        finally:
            temporary.unlink()
        _sync_folder(path.parent)
    except FileExistsError:
        raise KeyFileError(f"the key file {path.name} exists; a key is never overwritten") from None
    except OSError as error:
        raise KeyFileError(f"the key file {path.name} cannot be written: {error.strerror}") from None


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_encrypted(path: Path) -> bool:
    """Whether a key file asks for a passphrase; raises `KeyFileError` for one that cannot be read."""
    return _ENCRYPTED in read_secret(path)


def read_secret(path: Path) -> bytes:
    """The bytes of a file that only its owner can read; raises `KeyFileError`."""
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"the file {path} cannot be read: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFileError(f"{path.name} is open to other users", hint=f"chmod 600 {path}")
    return data


def _passphrase(path: Path) -> bytes:
    text = read_secret(path).rstrip(b"\r\n")
    if not text:
        raise KeyFileError(f"the passphrase file {path.name} is empty")
    return text
