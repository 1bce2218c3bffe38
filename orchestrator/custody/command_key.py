"""A key behind an external program: an HSM or a cloud KMS with a wrapper of a few lines.

The program gets the message on standard input and answers the raw signature of 64 bytes on standard
output. It is started without a shell. Nothing it says is used before the listed public key has verified it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from orchestrator import canonical
from orchestrator.certificates.keys import read_secret
from orchestrator.custody.errors import CustodyError, KeyCommandError
from orchestrator.verification import ed25519, wire
from orchestrator.verification.errors import VerificationError

SUFFIX: Final = ".command.json"
SCHEMA: Final = "assize.command-key/1"
SIGNATURE_BYTES: Final = 64
TIMEOUT_S: Final = 30
LONGEST_TIMEOUT_S: Final = 600
_ERROR_BYTES: Final = 2000
_FIELDS: Final = {"schema", "public", "command", "timeoutSeconds"}


@dataclass(frozen=True)
class CommandKey:
    """A `KeyHolder` that asks a program; `command` is its argument list, the first one an absolute path."""

    public: bytes
    command: tuple[str, ...]
    timeout_s: int = TIMEOUT_S

    @property
    def keyid(self) -> str:
        """The id of the public key."""
        return ed25519.key_id(self.public)

    def sign(self, message: bytes) -> bytes:
        """The signature of `message`, verified; raises `KeyCommandError`."""
        signature = _run(self.command, message, self.timeout_s)
        if not ed25519.verifies(ed25519.public_key(self.public), signature, message):
            raise KeyCommandError(
                f"{self.command[0]} gave a signature that is not by key {self.keyid}",
                hint="the program must sign the bytes of its input as they are (plain Ed25519, not a hash)",
            )
        return signature

    def encode(self) -> bytes:
        """The file that stands for this key."""
        return canonical.encode(
            {
                "schema": SCHEMA,
                "public": wire.base64_encode(self.public).decode(),
                "command": list(self.command),
                "timeoutSeconds": self.timeout_s,
            }
        )

    @classmethod
    def load(cls, path: Path) -> CommandKey:
        """Read such a file, which names a program that will be run: it must be the owner's alone."""
        raw = read_secret(path).rstrip(b"\n")
        try:
            data: Any = canonical.decode_strict(raw)
        except canonical.CanonicalFormError as error:
            raise CustodyError(f"{path.name} is not canonical JSON: {error}") from None
        if not isinstance(data, dict) or data.keys() != _FIELDS or data["schema"] != SCHEMA:
            raise CustodyError(f"{path.name} does not describe a command that holds a key")
        try:
            public = wire.base64_decode(str(data["public"]).encode())
        except VerificationError:
            raise CustodyError(f"{path.name} has no public key in base64") from None
        return cls.checked(public, data["command"], data["timeoutSeconds"])

    @classmethod
    def checked(cls, public: bytes, command: object, timeout_s: object = TIMEOUT_S) -> CommandKey:
        """A command key from outside data; raises `CustodyError` for what cannot be one."""
        try:
            ed25519.public_key(public)
        except VerificationError as error:
            raise CustodyError(f"the public key cannot be used: {error.message}") from None
        if not isinstance(command, (list, tuple)) or not all(isinstance(word, str) for word in command):
            raise CustodyError("the command is a list of words")
        if not command or not os.path.isabs(command[0]) or any("\0" in word for word in command):
            raise CustodyError("the command begins with the absolute path of a program")
        if not isinstance(timeout_s, int) or not 1 <= timeout_s <= LONGEST_TIMEOUT_S:
            raise CustodyError(f"the time limit is 1 to {LONGEST_TIMEOUT_S} whole seconds")
        return cls(public, tuple(command), timeout_s)


class _Reader(threading.Thread):
    """Reads a stream to its end and keeps its first bytes, so that a writer is neither stuck nor believed."""

    def __init__(self, stream: IO[bytes], keep: int) -> None:
        super().__init__(daemon=True)
        self._stream, self._keep = stream, keep
        self.kept = b""
        self.start()

    def run(self) -> None:
        """Until end of file."""
        with self._stream as stream:
            while data := os.read(stream.fileno(), 4096):
                self.kept += data[: self._keep - len(self.kept)]


def _feed(stream: IO[bytes], message: bytes) -> None:
    with contextlib.suppress(OSError), stream:  # it need not read all of it; its answer will tell
        stream.write(message)


def _run(command: tuple[str, ...], message: bytes, timeout_s: int) -> bytes:
    """The 64 bytes that the program answers."""
    until = time.monotonic() + timeout_s
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise KeyCommandError(
            f"{command[0]} cannot be started: {error.strerror}", hint="mend the command of this key"
        ) from None
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    readers = _Reader(process.stdout, SIGNATURE_BYTES + 1), _Reader(process.stderr, _ERROR_BYTES)
    feeder = threading.Thread(target=_feed, args=(process.stdin, message), daemon=True)
    feeder.start()
    timed_out = True
    try:
        process.wait(timeout_s)
        for reader in readers:
            reader.join(max(0.0, until - time.monotonic()))
        timed_out = any(reader.is_alive() for reader in readers)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if timed_out:
            _end(process)
    if timed_out:
        raise KeyCommandError(f"{command[0]} gave no signature within {timeout_s} s", hint="try again")
    answer, told = readers[0].kept, readers[1].kept.decode(errors="replace").strip()
    if process.returncode != 0:
        raise KeyCommandError(f"{command[0]} ended with {process.returncode}: {told or 'no message'}")
    if len(answer) != SIGNATURE_BYTES:
        more = "more than" if len(answer) > SIGNATURE_BYTES else "not"
        raise KeyCommandError(f"{command[0]} answered {more} {SIGNATURE_BYTES} bytes")
    return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing that the program started in its own session stays behind."""
    with contextlib.suppress(OSError):  # all of it may be gone already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
