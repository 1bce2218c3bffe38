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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from orchestrator.certificates.keys import write_new
from orchestrator.errors import UsageError
from sandbox_images.lock import write_atomically

DATABASE: Final = "assize"
OWNER: Final = "assize_owner"
WORKER: Final = "assize_worker"
BROKER_USER: Final = "assize"
ONLOOKER: Final = "flower"
PASSPHRASE: Final = "key_passphrase"
ACL: Final = "redis_acl"
FLOWER_URL: Final = "flower_broker_url"
FLOWER_PASSWORD: Final = "flower_password"
ADDED: Final = (FLOWER_URL, FLOWER_PASSWORD)
"""Those of Flower, which a stack of before has not: drawn beside the others."""
FILES: Final = (
    "broker_url",
    "database_owner_password",
    "database_url",
    "database_worker_password",
    *ADDED,
    PASSPHRASE,
    ACL,
    "redis_password",
    "worker_database_url",
)
_BYTES: Final = 32
_DENIED: Final = "-@admin -@dangerous +info"
_LISTENS: Final = (
    "resetkeys %RW~assize:_kombu.binding.celeryev %RW~assize:_kombu.binding_permanent.celeryev"
    " %RW~assize:celeryev.* %R~assize:* resetchannels &assize:/0.celeryev/*"
    " -@all +ping +psubscribe +punsubscribe +sadd +srem +del +llen +multi +exec +pubsub|numpat"
)
"""What an onlooker may do: hear events, keep its own queue of them, count messages. It can send nothing."""


def write_secrets(folder: Path) -> tuple[str, ...]:
    """Draw and write every secret; the names of those that were written, none where all are there already.

    Secrets of Flower alone may be missing: they came later, and are drawn beside the others. Raises
    `UsageError` when others are missing and not all: new ones would not open the databases that know the old.
    A folder that was there before is never changed: it must be empty and closed, else `UsageError` too.
    """
    present = [name for name in FILES if (folder / name).exists()]
    missing = [name for name in FILES if name not in present]
    if not missing:
        return ()
    if present and set(missing) <= set(ADDED):
        return _add(folder, missing)
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
        _write(folder, name, text)
    return FILES


def _write(folder: Path, name: str, text: str) -> None:
    write_new(folder / name, text.encode() + b"\n")
    os.chmod(folder / name, 0o400 if name == PASSPHRASE else 0o444)


def _add(folder: Path, missing: Sequence[str]) -> tuple[str, ...]:
    """Draw what Flower needs into a stack's folder. Stopped anywhere, the next run does the rest."""
    new = drawn()
    written = [name for name in ADDED if name in missing]
    if FLOWER_URL in missing:
        # The broker's own list first: a URL whose password it does not know would be kept for ever.
        own = f"user {ONLOOKER} "
        known = (folder / ACL).read_text(encoding="utf-8").splitlines()
        line = next(one for one in new[ACL].splitlines() if one.startswith(own))
        lines = [*(one for one in known if not one.startswith(own)), line]
        write_atomically(folder / ACL, ("\n".join(lines) + "\n").encode())
        os.chmod(folder / ACL, 0o444)
        written.append(ACL)
    for name in ADDED:
        if name in missing:
            _write(folder, name, new[name])
    return tuple(written)


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
    owner, worker, broker, onlooker, page, passphrase = (secrets.token_urlsafe(_BYTES) for _ in range(6))
    users = [
        "user default off",
        f"user {BROKER_USER} on #{_hashed(broker)} ~* &* +@all {_DENIED}",
        f"user {ONLOOKER} on #{_hashed(onlooker)} {_LISTENS}",
    ]
    return {
        "broker_url": f"redis://{BROKER_USER}:{broker}@redis:6379/0",
        "database_owner_password": owner,
        "database_url": f"postgresql+psycopg://{OWNER}:{owner}@postgres:5432/{DATABASE}",
        "database_worker_password": worker,
        FLOWER_URL: f"redis://{ONLOOKER}:{onlooker}@redis:6379/0",
        FLOWER_PASSWORD: page,
        PASSPHRASE: passphrase,
        ACL: "\n".join(users),
        "redis_password": broker,
        "worker_database_url": f"postgresql+psycopg://{WORKER}:{worker}@postgres:5432/{DATABASE}",
    }


def _hashed(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest()
