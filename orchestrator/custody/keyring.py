"""The keys that one home holds: `<key id>.pem`, or `<key id>.command.json` for a key behind a program.

The first three keys of a home have names of their own. A key that is frozen (`<key id>.frozen` beside it)
signs nothing, whoever asks and however far a screening is.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator import canonical
from orchestrator.certificates.errors import KeyFileError
from orchestrator.certificates.founding import CERTIFICATE_KEY_FILE, LOG_KEY_FILE, ROOT_KEY_FILE
from orchestrator.certificates.keys import KeyHolder, SigningKey, is_encrypted
from orchestrator.custody.command_key import SUFFIX, CommandKey
from orchestrator.custody.errors import CustodyError, KeyFrozenError, KeyMissingError
from orchestrator.errors import AssizeError
from orchestrator.log.files import Disk

PEM: Final = ".pem"
FROZEN: Final = ".frozen"
FIRST_FILES: Final = (ROOT_KEY_FILE, CERTIFICATE_KEY_FILE, LOG_KEY_FILE)
_KEYID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class HeldKey:
    """One key file; `keyid` is None and `problem` says why where it could not be opened."""

    path: Path
    keyid: str | None
    is_command: bool
    encrypted: bool
    problem: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the private key lies in the file as it is."""
        return not (self.encrypted or self.is_command or self.problem)


def load_holder(path: Path, passphrase_file: Path | None) -> KeyHolder:
    """The key of one file, a private key or a command; raises `AssizeError`."""
    if path.name.endswith(SUFFIX):
        return CommandKey.load(path)
    return SigningKey.load(path, passphrase_file)


class Keyring:
    """The key folder of a home. `passphrase` is asked for when a file has to be opened."""

    def __init__(
        self, folder: Path, passphrase: Callable[[], Path | None], *, disk: Disk | None = None
    ) -> None:
        self.folder = folder
        self._passphrase = passphrase
        self._disk = disk or Disk()
        self._opened: dict[str, KeyHolder] = {}

    def holder(self, keyid: str) -> KeyHolder:
        """The key with this id, opened once; raises `KeyMissingError` or why it cannot be opened."""
        found = self._opened.get(keyid)
        if found is None:
            found = self._opened[keyid] = self._open(keyid)
        return found

    def _open(self, keyid: str) -> KeyHolder:
        problem: AssizeError | None = None
        for name in (keyid + PEM, keyid + SUFFIX, *FIRST_FILES):
            path = self.folder / name
            if not path.exists():
                continue
            try:
                holder = load_holder(path, self._passphrase())
            except AssizeError as error:
                problem = problem or error
                continue
            if holder.keyid == keyid:
                return holder
            if name not in FIRST_FILES:
                raise CustodyError(f"{name} holds the key {holder.keyid}", hint="restore the right file")
        if problem is not None:
            raise problem
        raise KeyMissingError(
            f"the key {keyid} is not in {self.folder}",
            hint="restore it from a backup; a lost key is replaced: assize keys rotate, assize keys new-log",
        )

    def holds(self, keyid: str) -> bool:
        """Whether the key is here and can be opened."""
        try:
            return self.holder(keyid) is not None
        except AssizeError:
            return False

    def signing(self, keyid: str) -> KeyHolder:
        """The key, to sign with it now; raises `KeyFrozenError` for one that may not."""
        why = self.frozen(keyid)
        if why is not None:
            raise KeyFrozenError(
                f"key {keyid} signs nothing any more: {why}",
                hint="`assize keys status` says what is missing; the same command goes on after that",
            )
        return self.holder(keyid)

    def entries(self) -> list[HeldKey]:
        """Every key file, by name."""
        return list(map(self._entry, self._files()))

    def _files(self) -> Iterator[Path]:
        if self.folder.is_dir():
            for path in sorted(self.folder.iterdir()):
                if path.name.endswith((PEM, SUFFIX)) and not path.name.startswith("."):
                    yield path

    def _entry(self, path: Path) -> HeldKey:
        is_command = path.name.endswith(SUFFIX)
        try:
            encrypted = not is_command and is_encrypted(path)
        except KeyFileError as error:
            return HeldKey(path, None, is_command, False, error.message)
        try:
            keyid = load_holder(path, self._passphrase()).keyid
        except AssizeError as error:
            return HeldKey(path, None, is_command, encrypted, error.message)
        return HeldKey(path, keyid, is_command, encrypted)

    def generate(self, passphrase_file: Path | None) -> SigningKey:
        """A new key in a file of its own."""
        key = SigningKey.generate()
        key.save(self.folder / (key.keyid + PEM), passphrase_file)
        return key

    def adopt(self, key: CommandKey) -> Path:
        """Remember a key behind a program; it has signed something first, so that it is known to work."""
        key.sign(b"assize: does this key sign? " + secrets.token_bytes(16))
        path = self.folder / (key.keyid + SUFFIX)
        self._disk.publish(str(path), key.encode())
        path.chmod(0o600)
        return path

    def freeze(self, keyid: str, why: str) -> None:
        """From now on this key signs nothing; durable when this returns."""
        if self.frozen(keyid) is None:
            self._disk.publish(str(self.folder / (keyid + FROZEN)), canonical.encode({"why": why}))

    def frozen(self, keyid: str) -> str | None:
        """Why a key may not sign; None where it may. A marker that cannot be read still freezes."""
        path = self.folder / (keyid + FROZEN)
        if not os.path.exists(path):
            return None
        try:
            return str(canonical.decode_strict(path.read_bytes())["why"])
        except (OSError, KeyError, TypeError, canonical.CanonicalFormError):
            return "it is frozen"

    def all_frozen(self) -> dict[str, str]:
        """Every frozen key with the reason."""
        if not self.folder.is_dir():
            return {}
        names = [path.name.removesuffix(FROZEN) for path in sorted(self.folder.glob(f"*{FROZEN}"))]
        return {name: self.frozen(name) or "" for name in names if _KEYID.fullmatch(name)}

    def thaw(self, keyid: str) -> bool:
        """Let a key sign again; whether it was frozen."""
        path = self.folder / (keyid + FROZEN)
        if not path.exists():
            return False
        self._disk.remove(str(path))
        self._disk.sync_folders([str(self.folder)])
        return True

    def destroy(self, keyid: str) -> Path:
        """Overwrite and remove the file of a key; a key behind a program is only forgotten here."""
        for entry in self.entries():
            if entry.keyid == keyid:
                if not entry.is_command:
                    _overwrite(entry.path)
                self._disk.remove(str(entry.path))
                self._disk.sync_folders([str(self.folder)])
                self._opened.pop(keyid, None)
                return entry.path
        raise KeyMissingError(f"the key {keyid} is not in {self.folder}", hint="it is destroyed already")

    def encrypt(self, passphrase_file: Path) -> list[Path]:
        """Encrypt every plain key file; those that changed."""
        changed = []
        for entry in self.entries():
            if entry.is_plain:
                SigningKey.load(entry.path).encrypt(entry.path, passphrase_file)
                changed.append(entry.path)
        return changed


def _overwrite(path: Path) -> None:
    """Random bytes over the old ones; what a file system keeps elsewhere is beyond a program's reach."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(secrets.token_bytes(size))
        file.flush()
        os.fsync(file.fileno())
