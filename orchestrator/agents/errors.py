"""What can be wrong with an agent revision or its bundle."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UsageError


class AgentError(UsageError):
    """An agent revision cannot be registered or used; the message names it, the key or file, the value."""

    code = "agent"


class BundleError(AgentError):
    """A bundle folder holds something that cannot be pinned, or is not what was registered."""

    code = "agent-bundle"


def listed(subject: str, problems: Sequence[str]) -> str:
    """One message for all problems of `subject`, one per line when there are several."""
    if len(problems) == 1:
        return f"{subject}: {problems[0]}"
    return f"{subject}: {len(problems)} problems" + "".join(f"\n  - {problem}" for problem in problems)
