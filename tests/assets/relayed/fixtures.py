"""Fixtures for attempts through a real relay and a real pod; a conftest takes over those it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.attempts import AttemptOrder
from workers.relay import watch

if TYPE_CHECKING:
    from tests.assets.relayed.house import House
    from tests.assets.relayed.provider import Provider
    from workers.attempt.runner import AttemptRunner

KEY = "sk-house-0123456789abcdef"


@pytest.fixture
def provider(relayed: Callable[[str], ModuleType]) -> Iterator[Provider]:
    """A provider of its own for every test."""
    made: Provider = relayed("provider").Provider()
    yield made
    made.close()


@pytest.fixture
def house(
    relayed: Callable[[str], ModuleType],
    provider: Provider,
    runner: AttemptRunner,
    make_order: Callable[..., AttemptOrder],
    base_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> House:
    """A house whose one account is at the provider; a lane that is opened is noted."""
    made: House = relayed("house").House(tmp_path, provider.base_url, KEY, base_image, runner, make_order)
    opened = runner.hub.open

    def noted(terms: Any, attempt_id: str, *rest: Any, **more: Any) -> Any:
        made.lanes[attempt_id] = opened(terms, attempt_id, *rest, **more)
        return made.lanes[attempt_id]

    monkeypatch.setattr(runner.hub, "open", noted)
    return made


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second instead of fifteen between the first refusal and the end of a try."""
    monkeypatch.setattr(watch, "GRACE_MS", 500)
