"""The file of settings beside docker-compose.yml, which Compose reads by itself when it is called `.env`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import UsageError
from sandbox_images.lock import write_atomically

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=")
_PLAIN = re.compile(r"[A-Za-z0-9._:/@+-]+")


def merged(text: str, settings: Mapping[str, str]) -> str:
    """`text` with our settings in their places, new ones at the end; lines of others stay; pure."""
    left = dict(settings)
    lines = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is not None and found[1] in settings:
            if found[1] not in left:
                continue  # a second line of the same name would win
            line = f"{found[1]}={left.pop(found[1])}"
        lines.append(line)
    return "\n".join([*lines, *(f"{name}={value}" for name, value in left.items())]) + "\n"


def write_settings(path: Path, settings: Mapping[str, str]) -> bool:
    """Write `settings` into the file; False when it says so already.

    Raises `UsageError` for a value that Compose would not read as it is written (spaces, quotes, `$`).
    """
    for name, value in settings.items():
        if not _PLAIN.fullmatch(value):
            raise UsageError(f"{name} cannot be {value!r} in {path.name}: choose a plainer path")
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    wanted = merged(text, settings)
    if wanted == text:
        return False
    write_atomically(path, wanted.encode())
    return True
