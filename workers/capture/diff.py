"""A readable diff of what the agent changed, for people; the carried archive is the record."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from workers.capture.members import shown

MAX_FILE_BYTES: Final = 64 * 1024
MAX_DIFF_BYTES: Final = 1024 * 1024
MAX_LINES: Final = 2_000
MAX_COMPARED_LINES: Final = 20_000
"""Lines of files with an original that are compared, all files together: comparing is worse than linear."""


def _text(data: bytes) -> list[str] | None:
    if len(data) > MAX_FILE_BYTES or b"\0" in data:
        return None
    lines = data.decode("utf-8", "backslashreplace").splitlines(keepends=True)
    return lines if len(lines) <= MAX_LINES else None


def _digests(name: str, before: bytes | None, after: str) -> str:
    old = "none" if before is None else hashlib.sha256(before).hexdigest()
    return f"Large or binary file {name}: sha256 {old} -> {after}\n"


class _Differ:
    def __init__(self) -> None:
        self._compared_left = MAX_COMPARED_LINES

    def one(self, path: str, before: bytes | None, after: bytes) -> str:
        """The diff of one file; by digest where it is no text or too much to compare."""
        name = shown(path)
        old, new = _text(before or b""), _text(after)
        if old is not None and new is not None and old:
            self._compared_left -= len(old) + len(new)
        if old is None or new is None or (old and self._compared_left < 0):
            return _digests(name, before, hashlib.sha256(after).hexdigest())
        label_old = "/dev/null" if before is None else f"a{name}"
        lines = difflib.unified_diff(old, new, label_old, f"b{name}")
        return "".join(
            line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
        )


def _pieces(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    deleted: Sequence[str],
    digests: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    differ = _Differ()
    for path in sorted({*after, *digests}):
        if path in after:
            yield path, differ.one(path, before.get(path), after[path])
        else:
            yield path, _digests(shown(path), before.get(path), digests[path])
    for path in sorted(deleted):
        yield path, f"Deleted: {shown(path)}\n"


def unified(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    deleted: Sequence[str],
    digests: Mapping[str, str] | None = None,
) -> bytes:
    """Unified diff over all files by path, then the deletions; `before` holds originals where there was one.

    `digests` are the SHA-256 of files whose bytes are not in `after`. The whole is cut at `MAX_DIFF_BYTES`
    and says so.
    """
    out = bytearray()
    for path, piece in _pieces(before, after, deleted, digests or {}):
        data = piece.encode("utf-8", "backslashreplace")
        if len(out) + len(data) > MAX_DIFF_BYTES:
            out += f"(cut: {MAX_DIFF_BYTES} bytes of diff reached at {shown(path)})\n".encode()
            break
        out += data
    return bytes(out)
