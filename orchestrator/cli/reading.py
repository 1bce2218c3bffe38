"""Opening a home to read it: nothing is created, and a home without a ledger is simply empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from orchestrator.cli.output import home_of
from orchestrator.errors import NotFoundError
from orchestrator.home import Home
from orchestrator.ledger.db import Ledger, sqlite_file
from orchestrator.ledger.migrate import open_ledger


@dataclass(frozen=True)
class Reading:
    """A home that is read; `ledger` is None where nothing was ever screened."""

    home: Home
    ledger: Ledger | None

    def find(self, finder: Callable[[Ledger, str], str], noun: str, prefix: str) -> tuple[Ledger, str]:
        """The ledger and the id that `prefix` means; raises `NotFoundError`."""
        if self.ledger is None:
            raise NotFoundError(
                f"there is no {noun} {prefix}: nothing was screened in {self.home.root} yet",
                hint="assize screen PACK --agent AGENT, or --home for another folder",
            )
        return self.ledger, finder(self.ledger, prefix)


@contextmanager
def reading(context: click.Context) -> Iterator[Reading]:
    """Open the home of the command line; the ledger is closed at the end."""
    home = home_of(context)
    path = sqlite_file(home.database_url)
    if path is not None and not path.exists():
        yield Reading(home, None)
        return
    ledger = open_ledger(home.database_url)
    try:
        yield Reading(home, ledger)
    finally:
        ledger.close()
