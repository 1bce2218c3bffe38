"""Which of the choices that an agent offers is taken: a declared policy, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.agents.launching import Permission
from workers.adapters.shell.conversation import listed, mapped

_KINDS: Final[Mapping[Permission, tuple[str, ...]]] = {
    "allow": ("allow_once", "allow_always"),
    "reject": ("reject_once", "reject_always"),
}
_MAX_ID_CHARS: Final = 256


@dataclass(frozen=True)
class Choice:
    """The option taken, with its kind; without a fitting one the request counts as cancelled."""

    option: str | None
    kind: str

    def result(self) -> dict[str, Any]:
        """The answer's result."""
        if self.option is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": self.option}}


def choose(policy: Permission, params: Mapping[str, Any]) -> Choice:
    """The first option of a kind that the policy takes."""
    for one in listed(params.get("options")):
        kind, option = mapped(one).get("kind"), mapped(one).get("optionId")
        if kind in _KINDS[policy] and isinstance(option, str) and len(option) <= _MAX_ID_CHARS:
            return Choice(option, str(kind))
    return Choice(None, "cancelled")
