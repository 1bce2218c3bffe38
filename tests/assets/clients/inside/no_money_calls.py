"""One call by each SDK where the cap of the try leaves no room for any."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def calls(shell: Callable[[str, str], str]) -> dict[str, Any]:
    """What each SDK makes of the refusal.

    All are loaded before the first call: a try ends a few seconds after its first refusal for money.
    """
    clients = {name: importlib.import_module(f"{name}_calls") for name in ("openai", "anthropic", "google")}
    return {name: client.refused(f"rehearsal-{name}") for name, client in clients.items()}
