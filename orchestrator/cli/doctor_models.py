"""Checks of what a screening of models needs: provider accounts, prices, and what dead relays left behind."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

from orchestrator.cli.findings import Finding, broken, ok, warn
from orchestrator.home import Home
from orchestrator.prices.errors import PriceError
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import FILE_NAME, WELL_KNOWN, ProviderError, load_accounts
from orchestrator.relay_folders import left_behind, places

OLD_SHEET_DAYS: Final = 30


def providers(home: Home) -> Finding:
    """Which providers have a key at hand; a key itself is never shown."""
    path = home.root / FILE_NAME
    try:
        accounts = load_accounts(path)
    except ProviderError as error:
        return broken("providers", error.message, f"mend {path}, or move it away")
    keyed = [name for name, account in accounts.items() if account.key() is not None]
    text = f"a key at hand for {', '.join(keyed)}" if keyed else "no key at hand; a rehearsal needs none"
    # Nobody has an account with every provider there is; what the operator wrote down is meant to work.
    keyless = [
        f"{name} ({account.where()})"
        for name, account in accounts.items()
        if name not in keyed and account != WELL_KNOWN.get(name)
    ]
    if keyless:
        more = f"{text}; none for {', '.join(keyless)}"
        return warn("providers", more, f"give the key, or take the provider out of {path}")
    return ok("providers", text)


def price_sheet() -> Finding:
    """The age of the bundled price sheet: models that came out since have no price in it."""
    try:
        sheet = PriceSheet.bundled()
    except PriceError as error:
        return broken("price sheet", error.message, "install Assize again")
    age_days = (_today() - sheet.date).days
    text = f"of {sheet.date}, {age_days} days old, sha256 {sheet.digest[:16]}"
    if age_days > OLD_SHEET_DAYS:
        mend = "install a newer version, or make a sheet with `assize prices import` and use --prices"
        return warn("price sheet", text, mend)
    return ok("price sheet", text)


def relay_folders() -> Finding:
    """Socket folders of relays whose worker is dead; they are listed, never removed here."""
    left = left_behind(places())
    if left:
        return warn("relay folders", ", ".join(map(str, left)), "the next `assize screen` removes them")
    return ok("relay folders", "no leftovers")


def _today() -> date:
    return datetime.now(UTC).date()
