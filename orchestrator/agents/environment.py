"""Which variables an agent may set: never one of the run contract, never a secret."""

from __future__ import annotations

import re
from typing import Final

MAX_VALUE: Final = 4096
"""Characters of one value or argument."""
ENV_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_SECRET_NAME: Final = re.compile(r"KEY|SECRET|TOKEN(?!S|IZ)|PASSWORD|PASSWD|CREDENTIAL|AUTH|COOKIE")
_SECRET_VALUE: Final = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|-----BEGIN |eyJ[A-Za-z0-9_-]{20,}\."
)
_CONTRACT_PREFIXES: Final = ("ASSIZE_", "LD_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "DOCKER_")
_CONTRACT_NAMES: Final = frozenset(
    {"HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "LANG", "NO_COLOR", "CI", "IS_SANDBOX"}
)


def holds_secret(text: str) -> bool:
    """Whether a text looks like a key; revisions are published, and sandboxes hold no secrets."""
    return _SECRET_VALUE.search(text) is not None


def env_problem(name: str, value: str) -> str | None:
    """Why an agent may not set this variable; None if it may. Never repeats the value."""
    if not ENV_NAME.fullmatch(name):
        return f"{name!r} is not an upper-case variable name"
    if name in _CONTRACT_NAMES or name.startswith(_CONTRACT_PREFIXES):
        return f"{name} is set by the run contract"
    if _SECRET_NAME.search(name) or holds_secret(value):
        return f"{name} looks like a secret; revisions are published, and sandboxes hold no secrets"
    if len(value) > MAX_VALUE or "\x00" in value:
        return f"{name} is longer than {MAX_VALUE} characters or holds a NUL"
    return None


def profile_env_problem(name: str, value: str) -> str | None:
    """The same for a profile's variable, which may name a vendor's own setting (`ANTHROPIC_MODEL`).

    What tells where and with which token models are called stays with the run contract.
    """
    if not ENV_NAME.fullmatch(name):
        return f"{name!r} is not an upper-case variable name"
    if name in _CONTRACT_NAMES or name.startswith(("ASSIZE_", "LD_", "DOCKER_")):
        return f"{name} is set by the run contract"
    if holds_secret(value) or len(value) > MAX_VALUE or "\x00" in value:
        return f"{name} looks like a secret, is longer than {MAX_VALUE} characters or holds a NUL"
    return None
