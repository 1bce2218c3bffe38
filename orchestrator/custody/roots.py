"""Every version of a home's trust root: version 1 as `trust-root.json`, later ones as `trust-root.N.json`.

A version is published by one rename; there is no pointer to the newest that could disagree. What was the
newest before is remembered beside the keys, so that a home whose trust root was restored from an old copy
is noticed. (An old copy of the whole home, keys and all, is not: nothing in it knows better.)
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates import trust
from orchestrator.certificates.trust import TrustRoot
from orchestrator.custody.errors import CustodyError, RootRollbackError
from orchestrator.home import Home
from orchestrator.log.files import Disk

SEEN_FILE: Final = "trust-root.seen"
_LATER: Final = re.compile(r"\.([1-9][0-9]{0,8})\.json")


class RootStore:
    """The versions that begin with the file `first`; `seen` remembers the newest one in use."""

    def __init__(self, first: Path, seen: Path, *, disk: Disk | None = None) -> None:
        self._first, self._seen = first, seen
        self._disk = disk or Disk()
        self._known: TrustRoot | None = None
        self._recorded: int | None = None

    @classmethod
    def of(cls, home: Home, *, disk: Disk | None = None) -> RootStore:
        """The versions of a home."""
        return cls(home.trust_root, home.keys / SEEN_FILE, disk=disk)

    @property
    def exists(self) -> bool:
        """Whether there is a version 1."""
        return self._first.exists()

    def path(self, version: int) -> Path:
        """Where a version lies."""
        if version == 1:
            return self._first
        return self._first.with_name(f"{self._first.stem}.{version}{self._first.suffix}")

    def files(self) -> list[Path]:
        """The files from version 1 on; raises `CustodyError` where one in between is missing."""
        there = {1: self._first} if self.exists else {}
        for path in self._first.parent.glob(f"{self._first.stem}.*{self._first.suffix}"):
            match = _LATER.fullmatch(path.name.removeprefix(self._first.stem))
            if match is not None and int(match[1]) > 1:
                there[int(match[1])] = path
        for version in range(1, max(there, default=0) + 1):
            if version not in there:
                raise CustodyError(
                    f"version {version} of the trust root is missing: {self.path(version)}",
                    hint="restore it from the published copy",
                )
        return [there[version] for version in sorted(there)]

    def current(self) -> TrustRoot:
        """The newest version, checked from version 1 on; versions that appeared meanwhile are followed.

        Raises `VerificationError` for files that do not hold, `RootRollbackError` for an older set of
        files than was in use before, `CustodyError` for a missing one.
        """
        if self._known is None:
            first, *later = self.files() or [self._first]
            self._known = trust.load(first, *later)
            self._check_seen(self._known)
        while os.path.exists(self.path(self._known.version + 1)):
            self._known = trust.follow(self._known, self.path(self._known.version + 1).read_bytes())
        return self._known

    def raw(self, version: int) -> bytes:
        """The exact file of a version."""
        return self.path(version).read_bytes()

    def chain(self) -> tuple[bytes, ...]:
        """The files from version 2 to the current one, which a verifier with version 1 can follow."""
        return tuple(self.raw(version) for version in range(2, self.current().version + 1))

    @property
    def recorded(self) -> bool:
        """Whether the current version is remembered as being in use."""
        known = self.current()
        if self._recorded != known.version and self._read_seen() == (known.version, known.sha256):
            self._recorded = known.version
        return self._recorded == known.version

    def record(self) -> None:
        """Remember that the current version is in use. To be called under the lock of the keys."""
        known = self.current()
        if self.recorded:
            return
        data = canonical.encode({"version": known.version, "sha256": known.sha256})
        self._disk.publish(str(self._seen), data)
        self._recorded = known.version

    def publish(self, raw: bytes) -> TrustRoot:
        """Make `raw` the next version, checked as a verifier checks it; again with the same bytes is no-op.

        Raises `VerificationError`; nothing is changed then. To be called under the lock of the keys.
        """
        if not self.exists:
            checked = trust.parse(raw)
        else:
            current = self.current()
            if self.raw(current.version) == raw:
                self.record()
                return current
            checked = trust.follow(current, raw)
        self._disk.publish(str(self.path(checked.version)), raw)
        self._known = checked
        self.record()
        return checked

    def _read_seen(self) -> tuple[int, str] | None:
        try:
            data: Any = canonical.decode_strict(self._seen.read_bytes())
            return int(data["version"]), str(data["sha256"])
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError, canonical.CanonicalFormError):
            raise CustodyError(
                f"{self._seen} cannot be read",
                hint="restore it; it says which version of the trust root was in use",
            ) from None

    def _check_seen(self, newest: TrustRoot) -> None:
        seen = self._read_seen()
        if seen is None:
            return
        version, sha256 = seen
        if newest.version < version:
            raise RootRollbackError(
                f"the newest trust root here is version {newest.version}, but version {version} was in use",
                hint=f"restore {self.path(version).name} from the published copy",
            )
        if trust.sha256_of(self.raw(version)) != sha256:
            raise RootRollbackError(
                f"version {version} of the trust root is not the one that was in use",
                hint=f"restore the published file with the hash {sha256}",
            )
