"""`providers.toml`: who is asked where, in which formats, with a key that stands elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.home import Home
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.providers import ProviderView, views
from orchestrator.providers import WELL_KNOWN, Account, ProviderError, load_accounts, require_key
from orchestrator.screenings.relaying import take_limits
from workers.relay.accounts import real_providers, rehearsed_providers
from workers.relay.config import OPENAI_FAMILIES, Provider, RelayConfig
from workers.relay.wire.family import Family

ASSETS = Path(__file__).parents[2] / "assets" / "providers"
KEY = "sk-a-key-of-this-test"


def written(folder: Path, text: str) -> Path:
    path = folder / "providers.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("path", sorted(ASSETS.glob("bad-*.toml")), ids=lambda path: path.stem)
def test_a_bad_file_is_refused_in_one_sentence(path: Path) -> None:
    """As the asset's first line expects; what may be a key is never repeated."""
    with pytest.raises(ProviderError) as caught:
        load_accounts(path)
    assert isinstance(caught.value, UsageError)
    assert caught.value.code == "provider"
    assert caught.value.message.startswith(f"{path}: ")
    assert path.read_text("utf-8").splitlines()[0].removeprefix("# expect: ") in caught.value.message
    assert "\n" not in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Binary bytes, and a folder in its place."""
    path = tmp_path / "providers.toml"
    path.write_bytes(b"\xff\xfe[provider]")
    with pytest.raises(ProviderError, match="cannot be read"):
        load_accounts(path)
    with pytest.raises(ProviderError, match="cannot be read"):
        load_accounts(tmp_path)


def test_without_a_file_the_well_known_providers_are_there(tmp_path: Path) -> None:
    """They need nothing but a key in the environment."""
    assert load_accounts(tmp_path / "providers.toml") == WELL_KNOWN
    assert load_accounts(written(tmp_path, "")) == WELL_KNOWN


def test_a_well_known_provider_keeps_what_is_not_changed(tmp_path: Path) -> None:
    """Only what is written is replaced."""
    path = written(tmp_path, "[provider.openai]\nmax_parallel = 8\n")
    found = load_accounts(path)
    assert found["openai"] == WELL_KNOWN["openai"].model_copy(update={"max_parallel": 8})
    assert {name: one for name, one in found.items() if name != "openai"} == {
        name: one for name, one in WELL_KNOWN.items() if name != "openai"
    }


def test_a_provider_of_ones_own(tmp_path: Path) -> None:
    """Anything that speaks a known format; chat completions unless said otherwise."""
    path = written(
        tmp_path,
        '[provider.my-gateway]\nbase_url = "http://llm.example.org/v1"\nkey_env = "MY_KEY"\n'
        'requests_per_minute = 60\nchat_limit_field = "max_completion_tokens"\n',
    )
    assert load_accounts(path)["my-gateway"] == Account(
        base_url="http://llm.example.org/v1",
        key_env="MY_KEY",
        requests_per_minute=60,
        chat_limit_field="max_completion_tokens",
    )


@pytest.mark.parametrize("name", sorted(WELL_KNOWN))
def test_every_well_known_provider_is_asked_over_https(name: str) -> None:
    """Keys travel encrypted; OpenAI families have their version folder in the address, others not."""
    account = WELL_KNOWN[name]
    assert account.base_url.startswith("https://")
    assert account.base_url.endswith("/v1") == account.families[0].startswith("openai")
    assert account.key_env is not None and account.key_env.endswith("_API_KEY")


def test_a_key_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file wins, and its line end is no part of the key."""
    monkeypatch.setenv("MINE_KEY", KEY)
    account = Account(base_url="https://x.test", key_env="MINE_KEY")
    assert account.key() == KEY
    file = tmp_path / "key"
    file.write_text("sk-of-the-file-0123\n")
    assert account.model_copy(update={"key_file": file}).key() == "sk-of-the-file-0123"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_key_file_without_a_key_gives_none(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, empty or unreadable; the variable does not step in for a file that was named."""
    monkeypatch.setenv("MINE_KEY", KEY)
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    account = Account(base_url="https://x.test", key_env="MINE_KEY", key_file=file)
    assert account.key() is None
    with pytest.raises(ProviderError, match=r"provider mine has no key: the file .* gives none") as caught:
        require_key({"mine": account}, "mine")
    assert caught.value.hint is not None and "--rehearse" in caught.value.hint


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_without_a_key_gives_none(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset and empty are the same; the message names the variable."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("OPENAI_API_KEY", value)
    with pytest.raises(ProviderError, match="the variable OPENAI_API_KEY gives none"):
        require_key(WELL_KNOWN, "openai")


@pytest.mark.parametrize("key", ["sk-two\nlines-0123", "sk-tab\t0123456", "sk-ü-0123456789", "sk two words"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lines in a secret file would be found out in the middle of a try otherwise."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ProviderError, match="the variable OPENAI_API_KEY holds no key that") as caught:
        require_key(WELL_KNOWN, "openai")
    assert key not in str(caught.value)


def test_an_unknown_provider_is_named_with_what_to_do() -> None:
    """In one sentence and a hint."""
    with pytest.raises(ProviderError, match="no provider called acme is configured") as caught:
        require_key(WELL_KNOWN, "acme")
    assert caught.value.hint == "add [provider.acme] to providers.toml in the home"


def test_limits_of_tries_are_taken_into_the_ledger(tmp_path: Path, databases: str) -> None:
    """The dispatcher's file is all there is; that of a screening's home, or none, takes nothing away."""
    home = Home(tmp_path)
    ledger = open_ledger(home.database_url)
    written(tmp_path, "[provider.openai]\nmax_tries = 8\n[provider.google]\nmax_parallel = 2\n")
    take_limits(home, ledger, whole=True)
    assert views(ledger) == [ProviderView("openai", 0, 8)]
    written(tmp_path, "[provider.openai]\nmax_parallel = 2\n[provider.google]\nmax_tries = 3\n")
    take_limits(home, ledger, whole=False)
    assert views(ledger) == [ProviderView("google", 0, 3), ProviderView("openai", 0, 8)]
    (tmp_path / "providers.toml").unlink()
    take_limits(home, ledger, whole=False)
    assert len(views(ledger)) == 2
    take_limits(home, ledger, whole=True)
    assert views(ledger) == []
    ledger.close()


@pytest.mark.parametrize("value", ["0", "-1", "true", '"8"', "1.5"])
def test_a_limit_of_tries_is_a_whole_number_from_one(value: str, tmp_path: Path) -> None:
    """A sentence with the provider and the key."""
    path = written(tmp_path, f"[provider.openai]\nmax_tries = {value}\n")
    with pytest.raises(ProviderError, match="max_tries"):
        load_accounts(path)


def test_the_rehearsals_provider_is_no_account() -> None:
    """Its models exist in a script only."""
    with pytest.raises(ProviderError, match="in rehearsals only"):
        require_key(WELL_KNOWN, "rehearsal")


def test_the_relay_gets_accounts_with_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that a screening needs, each once."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    path = written(tmp_path, "[provider.openai]\nmax_parallel = 8\nrequests_per_minute = 90\n")
    [found] = real_providers(path, ["openai", "openai"])
    assert found == Provider(
        "openai",
        "https://api.openai.com/v1",
        KEY,
        families=OPENAI_FAMILIES,
        max_parallel=8,
        requests_per_minute=90,
    )
    assert KEY not in repr(found)
    assert KEY not in repr(RelayConfig((found,), {}))


def test_the_scripted_provider_stands_under_every_name_that_is_asked_for() -> None:
    """It speaks every format, OpenAI's below `/v1`, and has a key of its own."""
    found = rehearsed_providers("http://127.0.0.1:9/", "key-of-the-rehearsal", ["openai", "google"])
    assert [one.name for one in found] == ["google", "openai", "rehearsal"]
    assert {one.url(Family.OPENAI_CHAT, "/chat/completions") for one in found} == {
        "http://127.0.0.1:9/v1/chat/completions"
    }
    assert found[0].url(Family.GOOGLE, "/v1beta/models/g:generateContent") == (
        "http://127.0.0.1:9/v1beta/models/g:generateContent"
    )


def test_a_config_comes_over_the_pipe_as_it_was() -> None:
    """Plain data and back."""
    config = RelayConfig(rehearsed_providers("http://127.0.0.1:9", "k" * 20, ["openai"]), {"a": 1}, 1.0, 2.0)
    assert RelayConfig.from_data(config.as_data()) == config
