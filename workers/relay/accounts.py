"""From the house's provider accounts to the relay's providers, with their keys. Only workers read a key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrator.providers import REHEARSAL, Account, load_accounts, require_key
from workers.relay.config import Provider
from workers.relay.wire.family import Family


def _provider(name: str, account: Account) -> Provider:
    return Provider(
        name=name,
        base_url=account.base_url,
        key=account.key() or "",
        families=tuple(Family(family) for family in account.families),
        chat_limit_field=account.chat_limit_field,
        max_parallel=account.max_parallel,
        requests_per_minute=account.requests_per_minute,
    )


def real_providers(path: Path, names: Iterable[str]) -> tuple[Provider, ...]:
    """The named providers with their keys; `ProviderError` if one is unknown or has no key."""
    accounts = load_accounts(path)
    return tuple(_provider(name, require_key(accounts, name)) for name in sorted(set(names)))


def rehearsed_providers(base_url: str, key: str, names: Iterable[str]) -> tuple[Provider, ...]:
    """The scripted provider under every name that is asked for, in every wire format it has.

    A model of Anthropic's or Google's is asked for in their format at the root, others below `/v1`.
    """
    root = base_url.rstrip("/")
    return tuple(
        Provider(
            name=name,
            base_url=root,
            key=key,
            families=tuple(Family),
            openai_path="/v1",
        )
        for name in sorted({*names, REHEARSAL})
    )
