"""The home and the ledger of a test, on each database."""

from __future__ import annotations

from tests.assets.services import databases as on

home = on.home
ledger = on.ledger
