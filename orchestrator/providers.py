"""Model providers: where they are, which wire formats they speak, and where their key is found.

Well-known providers need nothing but a key in the environment. `providers.toml` in the home adds others,
or changes these:

    [provider.openai]
    key_file = "/run/secrets/openai"
    max_parallel = 8

    [provider.my-gateway]
    base_url = "https://llm.example.org/v1"
    families = ["openai-chat"]
    key_env = "MY_GATEWAY_KEY"

A key itself is never written there, and is read by the worker's relay only.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from orchestrator.errors import UsageError
from orchestrator.packs.validation import sentences

FamilyName = Literal[
    "openai-chat",
    "openai-responses",
    "openai-embeddings",
    "anthropic-messages",
    "google-generate-content",
]
FILE_NAME: Final = "providers.toml"
REHEARSAL: Final = "rehearsal"
"""The fictional provider of a rehearsal; it needs no account."""
_OPENAI: Final[tuple[FamilyName, ...]] = ("openai-chat", "openai-responses", "openai-embeddings")
_CHAT: Final[tuple[FamilyName, ...]] = ("openai-chat",)


class ProviderError(UsageError):
    """A provider is unknown, badly configured or without a key."""

    code = "provider"


def configured_key(key_file: Path | None, key_env: str | None) -> str | None:
    """A key as an operator names it: the file's content, else the variable's; None where there is neither."""
    if key_file is not None:
        try:
            return key_file.read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None
    return os.environ.get(key_env or "") or None


class Account(BaseModel):
    """One provider account of this house.

    `base_url` includes the version folder for the OpenAI families and not for the others, as their SDKs
    have it. `max_parallel` and `requests_per_minute` bound all attempts of a host together, `max_tries` the
    tries that use the provider at a time on all hosts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Annotated[str, Field(pattern=r"^https?://[^\s?#]+$", max_length=500)]
    families: tuple[FamilyName, ...] = _CHAT
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    key_file: Path | None = None
    max_parallel: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    requests_per_minute: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    max_tries: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    chat_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    @field_validator("families")
    @classmethod
    def _some(cls, families: tuple[FamilyName, ...]) -> tuple[FamilyName, ...]:
        if not families:
            raise ValueError("at least one wire format is needed")
        return families

    def key(self) -> str | None:
        """The key: the file's content, else the variable's; None when there is neither. Workers only."""
        return configured_key(self.key_file, self.key_env)

    def where(self) -> str:
        """Where the key is looked for, for messages."""
        return f"the file {self.key_file}" if self.key_file is not None else f"the variable {self.key_env}"


def _known(
    base_url: str, key_env: str, families: tuple[FamilyName, ...] = _CHAT, *, new_limit: bool = False
) -> Account:
    field: Literal["max_tokens", "max_completion_tokens"]
    field = "max_completion_tokens" if new_limit else "max_tokens"
    return Account(base_url=base_url, key_env=key_env, families=families, chat_limit_field=field)


WELL_KNOWN: Final[Mapping[str, Account]] = {
    "openai": _known("https://api.openai.com/v1", "OPENAI_API_KEY", _OPENAI, new_limit=True),
    "anthropic": _known("https://api.anthropic.com", "ANTHROPIC_API_KEY", ("anthropic-messages",)),
    "google": _known(
        "https://generativelanguage.googleapis.com", "GEMINI_API_KEY", ("google-generate-content",)
    ),
    "x-ai": _known("https://api.x.ai/v1", "XAI_API_KEY", new_limit=True),
    "deepseek": _known("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "mistral": _known("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "groq": _known("https://api.groq.com/openai/v1", "GROQ_API_KEY", new_limit=True),
    "openrouter": _known("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}


def load_accounts(path: Path) -> dict[str, Account]:
    """The well-known providers with what `providers.toml` says; `ProviderError` if the file is wrong."""
    found = dict(WELL_KNOWN)
    if not path.exists():
        return found
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProviderError(f"{path}: cannot be read: {error}") from None
    for key in data.keys() - {"provider"}:
        raise ProviderError(f"{path}: unknown key {key}; providers are written as [provider.NAME]")
    written = data.get("provider", {})
    if not isinstance(written, dict):
        raise ProviderError(f"{path}: provider is not a table of providers, written as [provider.NAME]")
    for name, given in written.items():
        found[name] = _merged(path, name, given, found.get(name))
    return found


def _merged(path: Path, name: str, given: Any, known: Account | None) -> Account:
    if name == REHEARSAL:
        raise ProviderError(f"{path}: {REHEARSAL} is the provider of rehearsals; name yours differently")
    base = {} if known is None else known.model_dump(exclude_none=True)
    try:
        account = Account.model_validate({**base, **given})
    except (ValidationError, TypeError) as error:
        # Whoever writes the key itself there must not find it in a message.
        said = sentences(error, {"key_env"})[0] if isinstance(error, ValidationError) else "is not a table"
        raise ProviderError(f"{path}: provider {name}: {said}") from None
    if account.key_env is None and account.key_file is None:
        raise ProviderError(f"{path}: provider {name}: says neither key_env nor key_file")
    return account


def require_key(accounts: Mapping[str, Account], name: str) -> Account:
    """The account of a provider with a key at hand; `ProviderError` tells what is missing."""
    if name == REHEARSAL:
        raise ProviderError(
            f"the models of provider {REHEARSAL} exist in rehearsals only",
            hint="name a script: --rehearse hello",
        )
    account = accounts.get(name)
    if account is None:
        raise ProviderError(
            f"no provider called {name} is configured",
            hint=f"add [provider.{name}] to {FILE_NAME} in the home",
        )
    key = account.key()
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ProviderError(
            f"provider {name}: {account.where()} holds no key that a header can carry",
            hint="a key is one word of printable ASCII",
        )
    if key is None:
        raise ProviderError(
            f"provider {name} has no key: {account.where()} gives none",
            hint="set it, or rehearse without a key: --rehearse hello",
        )
    return account
