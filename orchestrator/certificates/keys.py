"""Ed25519 signing keys in files that only the signer can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orchestrator.certificates.errors import KeyFileError
from orchestrator.verification import ed25519


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

        Raises `KeyFileError` when the file exists: a key is never overwritten.
        """
        from cryptography.hazmat.primitives import serialization

        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase_file is not None:
            encryption = serialization.BestAvailableEncryption(_passphrase(passphrase_file))
        pem = self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise KeyFileError(f"the key file {path.name} exists; a key is never overwritten") from None
        except OSError as error:
            raise KeyFileError(f"the key file {path.name} cannot be written: {error.strerror}") from None
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(pem)
            file.flush()
            os.fsync(descriptor)

    @classmethod
    def load(cls, path: Path, passphrase_file: Path | None = None) -> SigningKey:
        """Read a key; raises `KeyFileError` for a file others can read, and for anything but Ed25519."""
        from cryptography.hazmat.primitives import serialization

        pem = _read_secret(path)
        try:
            private = serialization.load_pem_private_key(
                pem, None if passphrase_file is None else _passphrase(passphrase_file)
            )
        except (ValueError, TypeError):
            raise KeyFileError(
                f"{path.name} is not a private key, or its passphrase is missing or wrong"
            ) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise KeyFileError(f"{path.name} is not an Ed25519 key")
        return cls(private)


def _read_secret(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        data = path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"the key file {path.name} cannot be read: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise KeyFileError(f"{path.name} is open to other users", hint=f"chmod 600 {path}")
    return data


def _passphrase(path: Path) -> bytes:
    text = _read_secret(path).rstrip(b"\r\n")
    if not text:
        raise KeyFileError(f"the passphrase file {path.name} is empty")
    return text
