"""Where the passphrase of a home's keys lies: never in the home, so that a copy of it holds no usable key.

`ASSIZE_KEY_PASSPHRASE_FILE` names a file of the operator's. Without it a passphrase is drawn when the
first key is made, and kept below `$XDG_CONFIG_HOME/assize/passphrases` under a random name that the home
remembers.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator.certificates.keys import write_new
from orchestrator.custody.errors import CustodyError
from orchestrator.log.files import Disk

VARIABLE: Final = "ASSIZE_KEY_PASSPHRASE_FILE"
NAME_FILE: Final = "passphrase-name"
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_SECRET_BYTES: Final = 32


@dataclass(frozen=True)
class Passphrase:
    """The file of a passphrase, and who named it."""

    path: Path
    origin: Literal["environment", "generated"]


def folder() -> Path:
    """The folder of generated passphrases; a relative XDG folder is ignored, as the rules of XDG say."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if Path(named).is_absolute() else Path.home() / ".config"
    return base / "assize" / "passphrases"


def find(keys: Path) -> Passphrase | None:
    """The passphrase of the key folder `keys`; None where there is none, as in homes of old."""
    if named := os.environ.get(VARIABLE):
        return Passphrase(Path(named), "environment")
    try:
        name = (keys / NAME_FILE).read_text().strip()
    except FileNotFoundError:
        return None
    if not _NAME.fullmatch(name):
        raise CustodyError(
            f"{keys / NAME_FILE} names no passphrase", hint=f"restore it, or name the file with {VARIABLE}"
        )
    return Passphrase(folder() / name, "generated")


def path_of(keys: Path) -> Path | None:
    """The file of the passphrase, where there is one."""
    found = find(keys)
    return None if found is None else found.path


def provide(keys: Path, disk: Disk | None = None) -> Passphrase:
    """The passphrase for keys that are about to be made; drawn now where there is none.

    The secret is durable before the home names it: a crash in between leaves a file that nothing uses.
    """
    found = find(keys)
    if found is not None:
        return found
    where, name = folder(), secrets.token_hex(16)
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CustodyError(
            f"no passphrase can be kept in {where}: {error.strerror}",
            hint=f"name a file with a passphrase in {VARIABLE}",
        ) from None
    write_new(where / name, secrets.token_urlsafe(_SECRET_BYTES).encode() + b"\n")
    (disk or Disk()).publish(str(keys / NAME_FILE), name.encode() + b"\n")
    return Passphrase(where / name, "generated")
