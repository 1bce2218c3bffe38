"""A readable diff of what the agent changed, for people; the carried archive is the record."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from typing import Final

from workers.capture.members import shown

MAX_FILE_BYTES: Final = 64 * 1024
MAX_DIFF_BYTES: Final = 1024 * 1024
MAX_LINES: Final = 2_000


def _text(data: bytes) -> list[str] | None:
    if len(data) > MAX_FILE_BYTES or b"\0" in data:
        return None
    lines = data.decode("utf-8", "backslashreplace").splitlines(keepends=True)
    return lines if len(lines) <= MAX_LINES else None


def _one(path: str, before: bytes | None, after: bytes | None) -> str:
    name = shown(path)
    old, new = _text(before or b""), _text(after or b"")
    if old is None or new is None:
        digests = " -> ".join("none" if d is None else hashlib.sha256(d).hexdigest() for d in (before, after))
        return f"Large or binary file {name}: sha256 {digests}\n"
    label_old = "/dev/null" if before is None else f"a{name}"
    label_new = "/dev/null" if after is None else f"b{name}"
    lines = difflib.unified_diff(old, new, label_old, label_new)
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def unified(before: Mapping[str, bytes], after: Mapping[str, bytes], deleted: list[str]) -> bytes:
    """Unified diff over all files by path; `before` holds originals where there was one.

    Large and binary files appear by digest; the whole is cut at `MAX_DIFF_BYTES` and says so.
    """
    out: list[str] = []
    size = 0
    for path in sorted(after):
        piece = _one(path, before.get(path), after[path])
        size += len(piece)
        if size > MAX_DIFF_BYTES:
            out.append(f"(cut: {MAX_DIFF_BYTES} bytes of diff reached at {shown(path)})\n")
            break
        out.append(piece)
    out.extend(f"Deleted: {shown(path)}\n" for path in sorted(deleted))
    return "".join(out).encode("utf-8", "backslashreplace")
