"""The wire formats that the reference agent speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from workers.adapters.shell.anthropic import Anthropic
from workers.adapters.shell.conversation import Conversation, Opening
from workers.adapters.shell.errors import UnspokenFamilyError
from workers.adapters.shell.google import Google
from workers.adapters.shell.openai_chat import OpenAiChat
from workers.relay.wire.family import Family

SPOKEN: Final[Mapping[Family, Callable[[Opening], Conversation]]] = MappingProxyType(
    {
        Family.OPENAI_CHAT: OpenAiChat,
        Family.ANTHROPIC: Anthropic,
        Family.GOOGLE: Google,
    }
)
"""How a conversation is begun, by family."""


def begin(family: Family, opening: Opening) -> Conversation:
    """A new conversation; raises `UnspokenFamilyError` for a family outside of `SPOKEN`."""
    begun = SPOKEN.get(family)
    if begun is None:
        spoken = ", ".join(one.value for one in SPOKEN)
        raise UnspokenFamilyError(f"the shell agent does not speak {family.value}; it speaks {spoken}")
    return begun(opening)
