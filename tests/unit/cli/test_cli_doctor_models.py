"""`assize doctor` on models: provider keys (never shown), the age of the prices, folders of dead relays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.cli import doctor_models
from orchestrator.cli.findings import Health
from orchestrator.home import Home
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import WELL_KNOWN
from workers.relay.sockets import reap, socket_folder

SECRET = "sk-canary-0123456789abcdef"
GATEWAY = '[provider.gateway]\nbase_url = "https://llm.example.org/v1"\n'


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keys the person who runs the tests has are not part of them."""
    for account in WELL_KNOWN.values():
        monkeypatch.delenv(account.key_env or "", raising=False)


def with_file(root: Path, text: str) -> Home:
    (root / "providers.toml").write_text(text)
    return Home(root)


def test_no_key_is_no_trouble(tmp_path: Path) -> None:
    """Reference agents and rehearsals need none."""
    found = doctor_models.providers(Home(tmp_path))
    assert (found.health, found.detail) == (Health.OK, "no key at hand; a rehearsal needs none")


def test_providers_with_a_key_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name only."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (tmp_path / "key").write_text(f"{SECRET}\n")
    home = with_file(tmp_path, f'{GATEWAY}key_file = "{tmp_path / "key"}"\n')
    found = doctor_models.providers(home)
    assert (found.health, found.detail) == (Health.OK, "a key at hand for openai, gateway")


def test_a_provider_that_was_written_down_should_have_its_key(tmp_path: Path) -> None:
    """A warning that says where the key was looked for; other screenings still work."""
    home = with_file(tmp_path, f'{GATEWAY}key_env = "GATEWAY_KEY_THAT_NOBODY_SET"\n')
    found = doctor_models.providers(home)
    assert (found.health, found.blocks) == (Health.WARN, False)
    assert found.detail.endswith("none for gateway (the variable GATEWAY_KEY_THAT_NOBODY_SET)")
    assert found.mend is not None and str(tmp_path / "providers.toml") in found.mend


@pytest.mark.parametrize(
    "text",
    [
        "not TOML",
        "[provider.gateway]\n",
        f'{GATEWAY}key = "{SECRET}"\n',
        "[providers]\n",
        "[provider]\nx = 1\n",
    ],
)
def test_a_file_that_cannot_be_used_is_broken(tmp_path: Path, text: str) -> None:
    """With the way to mend it, and without a key that somebody wrote into it."""
    found = doctor_models.providers(with_file(tmp_path, text))
    assert found.health is Health.BROKEN
    assert "providers.toml" in found.detail and SECRET not in found.detail
    assert found.mend == f"mend {tmp_path / 'providers.toml'}, or move it away"


@pytest.mark.parametrize(("age_days", "expected"), [(0, Health.OK), (30, Health.OK), (31, Health.WARN)])
def test_prices_grow_old(monkeypatch: pytest.MonkeyPatch, age_days: int, expected: Health) -> None:
    """A month; the sheet is named by its day and digest."""
    sheet = PriceSheet.bundled()
    monkeypatch.setattr(doctor_models, "_today", lambda: sheet.date + timedelta(days=age_days))
    found = doctor_models.price_sheet()
    assert found.health is expected
    assert found.detail == f"of {sheet.date}, {age_days} days old, sha256 {sheet.digest[:16]}"


def test_folders_of_dead_relays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A living worker's folder, made by the worker's own code, is in use; one that nobody holds is listed
    and left where it is. Anything of another name is not looked at."""
    monkeypatch.setenv("ASSIZE_SOCKET_FOLDER", str(tmp_path))
    (tmp_path / "assize-relay-notes").mkdir()
    with socket_folder(tmp_path) as folder:
        assert folder.is_dir()
        assert doctor_models.relay_folders().health is Health.OK
    left = tmp_path / "assize-relay-4711-abcdef01"
    left.mkdir()
    found = doctor_models.relay_folders()
    assert (found.health, found.detail) == (Health.WARN, str(left))
    assert left.is_dir()
    assert reap([tmp_path]) == [left]
    assert doctor_models.relay_folders().health is Health.OK
