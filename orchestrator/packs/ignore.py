"""`.harborignore`: which files of tests/ and solution/ are never uploaded (gitignore syntax).

Rules count only in `.harborignore` files inside tests/ and solution/ (also those of steps); a rule in a
deeper folder overrides an outer one, and what is inside an ignored folder stays ignored. The rule files
themselves are never uploaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from orchestrator.packs.errors import PackError
from orchestrator.packs.tree import TreeEntry

IGNORE_FILE: Final = ".harborignore"
_SCOPES: Final = ("tests", "solution")


def _scope_depth(parts: Sequence[str]) -> int | None:
    """How many leading parts name the scope (`tests`, `steps/<name>/tests`); None outside every scope."""
    if parts and parts[0] in _SCOPES:
        return 1
    if len(parts) >= 3 and parts[0] == "steps" and parts[2] in _SCOPES:
        return 3
    return None


def _load(root: Path, path: str) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines((root / path).read_text("utf-8").splitlines())
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise PackError(f"{path}: not a readable list of ignore rules ({error})") from None


def _excluded(parts: Sequence[str], is_folder: bool, rules: dict[str, GitIgnoreSpec]) -> bool:
    verdict = False
    for depth in range(1, len(parts)):
        spec = rules.get("/".join(parts[:depth]))
        if spec is not None:
            match = spec.check_file("/".join(parts[depth:]) + ("/" if is_folder else ""))
            verdict = verdict if match.include is None else match.include
    return verdict


def ignored_paths(root: Path, entries: Sequence[TreeEntry]) -> frozenset[str]:
    """The paths among `entries` that `.harborignore` keeps out of uploads, the rule files included."""
    rules: dict[str, GitIgnoreSpec] = {}
    for entry in entries:
        parts = entry.path.split("/")
        if parts[-1] == IGNORE_FILE and _scope_depth(parts[:-1]) is not None:
            if entry.kind != "file":
                raise PackError(f"{entry.path}: ignore rules must be a regular file")
            rules["/".join(parts[:-1])] = _load(root, entry.path)
    out: set[str] = set()
    for entry in entries:
        parts = entry.path.split("/")
        scope = _scope_depth(parts[:-1])
        if scope is None:
            continue
        if parts[-1] == IGNORE_FILE or any(
            _excluded(parts[:depth], depth < len(parts), rules) for depth in range(scope + 1, len(parts) + 1)
        ):
            out.add(entry.path)
    return frozenset(out)
