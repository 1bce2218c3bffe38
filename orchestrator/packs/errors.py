"""What can be wrong with a task or a pack; always the input's fault, found before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UsageError


class PackError(UsageError):
    """A task or a pack cannot be used as it stands; the message names it, the key or file, and the value."""

    code = "pack"

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems) or (message,)


def join_problems(subject: str, problems: Sequence[str], *, hint: str | None = None) -> PackError:
    """One error that lists every problem of `subject`, one per line when there are several."""
    if len(problems) == 1:
        return PackError(f"{subject}: {problems[0]}", hint=hint, problems=problems)
    lines = "".join(f"\n  - {problem}" for problem in problems)
    return PackError(f"{subject}: {len(problems)} problems{lines}", hint=hint, problems=problems)
