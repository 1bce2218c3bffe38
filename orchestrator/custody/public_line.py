"""The public half of a key as one line of text that travels: `assize-key ROLE ed25519 KEYID BASE64`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.custody.errors import CustodyError
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import VerificationError

ROLES: Final = ("root", "certificate", "log")
_WORD: Final = "assize-key"
_LIMIT_BYTES: Final = 1024


def line(public: bytes, role: str) -> str:
    """The line of a public key."""
    text = wire.base64_encode(public).decode()
    return f"{_WORD} {role} {ed25519.ALGORITHM} {ed25519.key_id(public)} {text}"


def parse(text: str, role: str | None = None) -> bytes:
    """The public key of a line, checked; raises `CustodyError`. A key is made for one role only."""
    words = text.split()
    if len(words) != 5 or words[0] != _WORD or words[1] not in ROLES or words[2] != ed25519.ALGORITHM:
        raise CustodyError("that is not the public line of a key", hint="assize keys new writes such lines")
    if role is not None and words[1] != role:
        raise CustodyError(f"that is a {words[1]} key, a {role} key is needed", hint="one key has one use")
    try:
        public = wire.base64_decode(words[4].encode())
        ed25519.public_key(public)
    except (VerificationError, UnicodeEncodeError):
        raise CustodyError("the public line holds no sound Ed25519 key") from None
    if ed25519.key_id(public) != words[3]:
        raise CustodyError("the key id of the public line is not that of its key", hint="copy the line again")
    return public


def read(path: Path, role: str | None = None) -> bytes:
    """The public key of the line in a file."""
    try:
        with path.open("rb") as file:
            text = file.read(_LIMIT_BYTES).decode("ascii")
    except OSError as error:
        raise CustodyError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CustodyError(f"{path} holds no public line of a key") from None
    return parse(text, role)
