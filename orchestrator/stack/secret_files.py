"""The secrets of a stack, one file each; drawn once, as the databases are initialised with them.

Compose mounts a file as it is, owner and mode included, and the servers in the containers run as users of
their own. So the files may be read by all and the folder by its owner only: on the host nobody else gets
past the folder, in a container there is only what the service was given. The passphrase of the keys is for
its owner alone, as everywhere.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from orchestrator.certificates.keys import write_new
from orchestrator.errors import UsageError

DATABASE: Final = "assize"
OWNER: Final = "assize_owner"
WORKER: Final = "assize_worker"
BROKER_USER: Final = "assize"
PASSPHRASE: Final = "key_passphrase"
FILES: Final = (
    "broker_url",
    "database_owner_password",
    "database_url",
    "database_worker_password",
    PASSPHRASE,
    "redis_acl",
    "redis_password",
    "worker_database_url",
)
_BYTES: Final = 32
_DENIED: Final = "-@admin -@dangerous +info"


def write_secrets(folder: Path) -> bool:
    """Draw and write every secret; False where they are there already.

    Raises `UsageError` when only some are there: new ones would not open the databases that know the old.
    A folder that was there before is never changed: it must be empty and closed, else `UsageError` too.
    """
    present = [name for name in FILES if (folder / name).exists()]
    if len(present) == len(FILES):
        return False
    if present:
        raise UsageError(
            f"{folder} holds some secrets of a stack and not others ({', '.join(present)})",
            hint="restore the missing files, or remove the folder and the stack's volumes with it",
        )
    if folder.exists():
        _require_usable(folder)
    else:
        folder.mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
    for name, text in drawn().items():
        write_new(folder / name, text.encode() + b"\n")
        os.chmod(folder / name, 0o400 if name == PASSPHRASE else 0o444)
    return True


def _require_usable(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", hint="name another one: --secrets FOLDER")
    if any(folder.iterdir()):
        raise UsageError(
            f"{folder} holds other files and no secrets of a stack",
            hint="name a folder that is empty or does not exist: --secrets FOLDER",
        )
    if folder.stat().st_mode & 0o077:
        raise UsageError(
            f"{folder} is open to other users, who could read the secrets", hint=f"chmod 0700 {folder}"
        )


def drawn() -> dict[str, str]:
    """New secrets, the line of each file by its name."""
    owner, worker, broker, passphrase = (secrets.token_urlsafe(_BYTES) for _ in range(4))
    known = hashlib.sha256(broker.encode()).hexdigest()
    return {
        "broker_url": f"redis://{BROKER_USER}:{broker}@redis:6379/0",
        "database_owner_password": owner,
        "database_url": f"postgresql+psycopg://{OWNER}:{owner}@postgres:5432/{DATABASE}",
        "database_worker_password": worker,
        PASSPHRASE: passphrase,
        "redis_acl": f"user default off\nuser {BROKER_USER} on #{known} ~* &* +@all {_DENIED}",
        "redis_password": broker,
        "worker_database_url": f"postgresql+psycopg://{WORKER}:{worker}@postgres:5432/{DATABASE}",
    }
