"""Who a command runs as: a user given by number, by name, or by the image, made numeric."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable
from typing import IO, Final, cast

from workers.errors import CarryOverflowError, ContainerGoneError, PathRefusedError, WorkerError
from workers.sandbox.profile import PID1_UID
from workers.sandbox.stream import ChunkReader
from workers.sandbox.tars import Owner

_NUMERIC: Final = re.compile(r"\d{1,9}(:\d{1,9})?")
_PASSWD_CAP_BYTES: Final = 1 << 20


class UnknownUserError(WorkerError):
    """The image's passwd has no such user, or the user is reserved."""


def resolve_owner(passwd: Callable[[], Iterable[bytes]], wanted: str | None, image_user: str) -> Owner:
    """Numeric uid and gid of `wanted`, or of the image's own user.

    `passwd` gives the engine's archive of the image's `/etc/passwd`; it is asked for a name only.
    """
    name = wanted or image_user or "0"
    if _NUMERIC.fullmatch(name):
        uid, _, gid = name.partition(":")
        owner = Owner(int(uid), int(gid or uid))
    else:
        owner = _by_name(passwd, name.partition(":")[0])
    if owner.uid == PID1_UID:
        raise UnknownUserError(f"user {name} has the uid reserved for PID 1")
    return owner


def _by_name(passwd: Callable[[], Iterable[bytes]], name: str) -> Owner:
    if name == "root":
        return Owner(0, 0)
    try:
        for line in _lines(passwd()):
            fields = line.split(":")
            if len(fields) > 3 and fields[0] == name:
                return Owner(int(fields[2]), int(fields[3]))
    except (ContainerGoneError, PathRefusedError):
        raise UnknownUserError(f"the image has no /etc/passwd to look up {name}") from None
    except (CarryOverflowError, tarfile.TarError, ValueError):
        raise UnknownUserError(f"the image's /etc/passwd cannot be read to look up {name}") from None
    raise UnknownUserError(f"the image has no user {name}")


def _lines(archive: Iterable[bytes]) -> list[str]:
    reader = cast(IO[bytes], ChunkReader(archive, _PASSWD_CAP_BYTES))
    with tarfile.open(fileobj=reader, mode="r|") as tar:
        member = tar.next()
        content = tar.extractfile(member) if member is not None and member.isreg() else None
        return content.read().decode("utf-8", "replace").splitlines() if content else []
