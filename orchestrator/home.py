"""Where Assize keeps its things (CLI-5): one folder, by `--home`, `ASSIZE_HOME` or XDG data home."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import UsageError

DATABASE_VARIABLE: Final = "ASSIZE_DATABASE_URL"
DATABASE_FILE_VARIABLE: Final = "ASSIZE_DATABASE_URL_FILE"


def read_secret(path: Path, what: str) -> str:
    """The one line of a file that holds a secret; raises `UsageError`, which names the file only."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{path} of {what} cannot be read: {reason}") from None
    if not text or "\n" in text:
        raise UsageError(f"{path} of {what} must hold one line")
    return text


@dataclass(frozen=True)
class Home:
    """The folders and files of one installation; nothing is created until `prepare`."""

    root: Path

    @classmethod
    def resolve(cls, option: str | os.PathLike[str] | None = None) -> Home:
        """Option, then `ASSIZE_HOME`, then `$XDG_DATA_HOME/assize`."""
        if option:
            return cls(Path(option).absolute())
        if named := os.environ.get("ASSIZE_HOME"):
            return cls(Path(named).absolute())
        data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        return cls(Path(data).absolute() / "assize")

    def prepare(self) -> Home:
        """Create the folders (keys 0700) and return self."""
        for folder in (self.root, self.evidence, self.certificates, self.agents, self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        self.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the ledger: `ASSIZE_DATABASE_URL`, the file that `ASSIZE_DATABASE_URL_FILE` names
        (for a URL with a password), or else the SQLite file of this home.

        Raises `UsageError` when both are set or the file gives no URL; the URL itself is never shown.
        """
        named, file = os.environ.get(DATABASE_VARIABLE), os.environ.get(DATABASE_FILE_VARIABLE)
        if named and file:
            raise UsageError(
                f"{DATABASE_VARIABLE} and {DATABASE_FILE_VARIABLE} are both set", hint="unset one"
            )
        if file:
            return read_secret(Path(file), DATABASE_FILE_VARIABLE)
        return named or f"sqlite:///{self.root / 'ledger.db'}"

    @property
    def evidence(self) -> Path:
        """Content-addressed evidence store."""
        return self.root / "evidence"

    @property
    def certificates(self) -> Path:
        """Try bundles and screening bundles, one folder per screening."""
        return self.root / "certificates"

    @property
    def agents(self) -> Path:
        """Registered agent revisions and their bundles."""
        return self.root / "agents"

    @property
    def keys(self) -> Path:
        """Signing keys, readable by the signer only."""
        return self.root / "keys"

    @property
    def trust_root(self) -> Path:
        """The published trust root document."""
        return self.root / "trust-root.json"

    @property
    def log(self) -> Path:
        """The transparency log, a folder that may be published as it is."""
        return self.root / "log"

    @property
    def log_state(self) -> Path:
        """What was last signed for each log; kept with the keys, never with the log."""
        return self.keys / "log"

    @property
    def images_lock(self) -> Path:
        """Which image Id stands behind every image name used here."""
        return self.root / "images.lock.json"

    @property
    def cache(self) -> Path:
        """Downloads and derived data that can be made again."""
        return self.root / "cache"
