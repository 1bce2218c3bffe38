"""A Harbor task directory, read once and never changed (reference/harbor.md section 1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.packs.errors import PackError
from orchestrator.packs.ignore import ignored_paths
from orchestrator.packs.task_config import TaskConfig, parse_task_config
from orchestrator.packs.tree import TreeEntry, below, scan_tree, tree_digest

CONFIG_FILE: Final = "task.toml"
LEGACY_CONFIG_FILE: Final = "task.yaml"
INSTRUCTION_FILE: Final = "instruction.md"
MIGRATE_HINT: Final = "convert it to a Harbor task with `harbor task migrate`"
_COMMENT: Final = re.compile(r"<!--.*-->|#.*")


@dataclass(frozen=True)
class HarborTask:
    """One loaded task.

    `entries` are all files of the directory, `ignored` the paths that `.harborignore` keeps out of
    uploads, `digest` the SHA-256 over the entries (`tree_digest`). `instruction` is the text for the
    agent, without canary lines; it is empty for a multi-step task.
    """

    directory: Path
    name: str
    config: TaskConfig
    instruction: str
    entries: tuple[TreeEntry, ...]
    ignored: frozenset[str]
    digest: str

    def has(self, path: str) -> bool:
        """Whether the directory holds the file or link `path`."""
        return any(entry.path == path for entry in self.entries)

    def context_files(self, folder: str) -> tuple[TreeEntry, ...]:
        """What an image build of `folder` sees: every file, ignored or not."""
        return below(self.entries, folder)

    def upload_files(self, folder: str) -> tuple[TreeEntry, ...]:
        """What is uploaded from `folder` (tests or solution): without what `.harborignore` excludes."""
        return tuple(entry for entry in below(self.entries, folder) if entry.path not in self.ignored)

    @property
    def test_files(self) -> tuple[str, ...]:
        """The uploads of tests/, relative to it."""
        return tuple(entry.path.removeprefix("tests/") for entry in self.upload_files("tests"))

    @property
    def solution_files(self) -> tuple[str, ...]:
        """The uploads of solution/, relative to it."""
        return tuple(entry.path.removeprefix("solution/") for entry in self.upload_files("solution"))

    @property
    def has_solution(self) -> bool:
        """Whether the oracle can run: solution/solve.sh is there and not ignored."""
        return self.has("solution/solve.sh") and "solution/solve.sh" not in self.ignored


def strip_canary(text: str) -> str:
    """The text without leading comment lines that mention a canary, and the blank lines after them.

    Canaries mark benchmark files for training-data filters; Harbor hides them from the agent as well.
    """
    lines = text.split("\n")
    start = 0
    while start < len(lines):
        line = lines[start].strip()
        if not (_COMMENT.fullmatch(line) and "canary" in line.lower()):
            break
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def read_text(path: Path, subject: str) -> str:
    """UTF-8 text of a file that must be there; `PackError` otherwise."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise PackError(f"{subject}: {path.name} is missing") from None
    except UnicodeDecodeError:
        raise PackError(f"{subject}: {path.name} is not UTF-8 text") from None
    except OSError as error:
        raise PackError(f"{subject}: {path.name} cannot be read ({error.strerror})") from None


def is_legacy_task(directory: Path) -> bool:
    """Whether it is a Terminal-Bench 1 task (task.yaml, no task.toml)."""
    return (directory / LEGACY_CONFIG_FILE).is_file() and not (directory / CONFIG_FILE).is_file()


def load_task(directory: Path) -> HarborTask:
    """Read a task directory; `PackError` names the task and what is wrong with it.

    What parses but cannot be run faithfully is not an error here: see `orchestrator.packs.refusals`.
    """
    directory = directory.absolute()
    subject = f"task {directory.name}"
    if not directory.is_dir():
        raise PackError(f"{subject}: {directory} is not a folder")
    if is_legacy_task(directory):
        raise PackError(f"{subject}: a legacy Terminal-Bench 1 task (task.yaml)", hint=MIGRATE_HINT)
    config = parse_task_config(read_text(directory / CONFIG_FILE, subject), directory.name)
    entries = scan_tree(directory, subject)
    instruction = ""
    if not config.steps:
        instruction = strip_canary(read_text(directory / INSTRUCTION_FILE, subject))
        if not instruction.strip():
            raise PackError(f"{subject}: {INSTRUCTION_FILE} is empty")
    return HarborTask(
        directory=directory,
        name=config.task.name if config.task is not None else directory.name,
        config=config,
        instruction=instruction,
        entries=entries,
        ignored=ignored_paths(directory, entries),
        digest=tree_digest(entries),
    )
