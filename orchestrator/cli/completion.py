"""Completion of pack, agent and screening names in the shell; whatever goes wrong completes nothing.

Every command names its completer, so the houses are imported only when the shell asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from orchestrator.errors import AssizeError
from orchestrator.home import Home

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _completer(names: Callable[[Home], Iterable[str]], *, any_case: bool = False) -> Completer:
    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
        home = Home.resolve((context.find_root().params or {}).get("home"))
        start = typed.upper() if any_case else typed
        try:
            return sorted({name for name in names(home) if name.startswith(start)})
        except (AssizeError, OSError):
            return []

    return complete


def _packs(home: Home) -> Iterable[str]:
    from orchestrator.packs import catalog

    return (ref.name for ref in catalog.list_packs(home) if ref.problem is None)


def _agents(home: Home) -> Iterable[str]:
    from orchestrator.agents import registry

    return (agent.revision.name for agent in registry.list_agents(home))


def _screenings(home: Home) -> Iterable[str]:
    from orchestrator.ledger import queries
    from orchestrator.ledger.db import sqlite_file
    from orchestrator.ledger.migrate import open_ledger

    path = sqlite_file(home.database_url)
    if path is not None and not path.exists():
        return []
    ledger = open_ledger(home.database_url)
    try:
        return [row["id"] for row in queries.screenings(ledger)]
    finally:
        ledger.close()


packs = _completer(_packs)
agents = _completer(_agents)
screenings = _completer(_screenings, any_case=True)
