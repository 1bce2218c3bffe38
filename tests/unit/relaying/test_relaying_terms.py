"""What a screening's agent may call: models, providers, prices, conditions; refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.agents.errors import AgentError
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import AgentRevision, ModelRole, Run
from orchestrator.attempts import PinnedModel
from orchestrator.errors import UsageError
from orchestrator.evidence.transcript import Kind
from orchestrator.home import Home
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.entry import ModelPrice, Rates
from orchestrator.prices.errors import PriceError
from orchestrator.prices.sheet import PriceSheet
from orchestrator.providers import WELL_KNOWN, ProviderError
from orchestrator.screenings import relaying
from orchestrator.screenings.relaying import (
    conditions_for,
    keep_script,
    keep_sheet,
    metered_nusd,
    metering_for,
    models_of,
    pinned,
    role_of,
    with_model,
)
from orchestrator.screenings.wires import wire_of
from workers.relay.transcript import Transcript

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
RATES = Rates(input=1_000_000, output=2_000_000)
Say = Callable[[str], None]


def entry(provider: str, *ids: str, valid_to: date | None = None) -> ModelPrice:
    first = date(2020, 1, 1)
    return ModelPrice(
        provider=provider,
        ids=ids,
        valid_from=first,
        valid_to=valid_to,
        standard=RATES,
        source="fictional",
        retrieved=first,
    )


@pytest.fixture(scope="module")
def sheet() -> PriceSheet:
    entries = [
        entry("openai", "gpt", "shared"),
        entry("openrouter", "shared", "meta/llama"),
        entry("anthropic", "claude"),
        entry("google", "gem"),
        entry("openai", "retired", valid_to=YESTERDAY),
        entry("rehearsal", "rehearsal-openai", "rehearsal-anthropic", "rehearsal-google"),
    ]
    return PriceSheet.of("tests", date(2020, 1, 1), entries)


def role(model: str, provider: str | None = None, name: str = "main") -> ModelRole:
    return ModelRole(role=name, id=model, provider=provider)


def agent(*models: ModelRole, any_model: bool = False) -> RegisteredAgent:
    revision = AgentRevision(
        name="mine",
        version="1",
        kind="exec",
        models=models,
        any_model=any_model,
        run=Run(command=("/opt/agent/run.sh",)),
        bundle_digest="0" * 64,
    )
    return RegisteredAgent(revision, revision.digest, None, builtin=False)


def conditions(**changes: Any) -> ScreeningConditions:
    values = {"hardware_class": "any", "network": "relay-only", "try_cap_nusd": 5, "step_limit": 9}
    return ScreeningConditions(**{**values, **changes})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").prepare()


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """The forwarder's image needs an engine, and is not what these tests are about."""
    monkeypatch.setattr(relaying, "_forwarder_image", lambda home, say: "sha256:forwarder")
    return lambda text: None


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("openai/gpt", "openai", "gpt"),
        ("gpt", None, "gpt"),
        ("openrouter/meta/llama", "openrouter", "meta/llama"),
        ("meta/llama", None, "meta/llama"),
        ("acme/gpt", None, "acme/gpt"),
        ("anthropic/claude:thinking@1", "anthropic", "claude:thinking@1"),
    ],
)
def test_a_prefix_that_the_sheet_knows_is_a_provider(
    sheet: PriceSheet, text: str, provider: str | None, model: str
) -> None:
    """Others belong to the model's name, which may have slashes of its own."""
    assert role_of(text, sheet) == role(model, provider)


@pytest.mark.parametrize("text", ["", " ", "openai/", "-gpt", "gpt 4", "gpt\n", "x" * 129, "/gpt", "ünï"])
def test_what_is_no_model_name_is_refused(sheet: PriceSheet, text: str) -> None:
    """With the form that it should have."""
    with pytest.raises(UsageError, match="is no model name") as caught:
        role_of(text, sheet)
    assert caught.value.hint == "write PROVIDER/MODEL or MODEL"


@pytest.mark.parametrize(
    ("asked", "provider"), [(role("gpt"), "openai"), (role("shared", "openrouter"), "openrouter")]
)
def test_a_model_is_pinned_with_its_provider(sheet: PriceSheet, asked: ModelRole, provider: str) -> None:
    """The only seller, or the one that was named."""
    assert pinned(asked, sheet, TODAY) == PinnedModel("main", asked.id, provider)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (role("shared"), "model shared is sold by openai, openrouter on"),
        (role("gpt-99"), "model gpt-99 has no price in the sheet on"),
        (role("GPT"), "model GPT has no price in the sheet on"),
        (role("retired"), "model retired has no price in the sheet on"),
        (role("retired", "openai"), "has no price of openai retired on"),
        (role("gpt", "anthropic"), "has no model 'gpt' of provider 'anthropic'"),
    ],
)
def test_a_model_without_one_price_today_is_refused(sheet: PriceSheet, asked: ModelRole, said: str) -> None:
    """Before anything is planned: unpriced is never free (report 7)."""
    with pytest.raises(UsageError) as caught:
        pinned(asked, sheet, TODAY)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None and "assize prices show" in caught.value.hint


def test_an_agent_for_any_model_gets_one_and_another_digest() -> None:
    """With another model it is another agent: results must not mix."""
    bare = agent(any_model=True)
    one, other = (with_model(bare, role(name, "openai")) for name in ("gpt", "shared"))
    assert one.revision.models == (role("gpt", "openai"),)
    assert one.revision.label == "mine@1+gpt"
    assert not one.revision.any_model
    assert len({bare.digest, one.digest, other.digest}) == 3
    assert one.digest == one.revision.digest


def test_an_agent_for_any_model_needs_one() -> None:
    """Told with the option that names it."""
    with pytest.raises(UsageError, match="agent mine@1 needs a model") as caught:
        with_model(agent(any_model=True), None)
    assert caught.value.hint == "name one: --model PROVIDER/MODEL"


@pytest.mark.parametrize("given", [None, role("gpt")])
def test_an_agent_with_models_of_its_own_stays_as_it_is(given: ModelRole | None) -> None:
    """`--model` is for those of a command's agents that need it."""
    declared = agent(role("claude"))
    assert with_model(declared, given) is declared
    with pytest.raises(AgentError, match="it declares: claude"):
        declared.revision.with_model(role("gpt"))


@pytest.mark.parametrize(
    ("model", "families", "wire"),
    [
        (("rehearsal-openai", "rehearsal"), (), "openai-chat"),
        (("rehearsal-anthropic", "rehearsal"), (), "anthropic-messages"),
        (("rehearsal-google", "rehearsal"), (), "google-generate-content"),
        (("gpt", "openai"), WELL_KNOWN["openai"].families, "openai-chat"),
        (("claude", "anthropic"), WELL_KNOWN["anthropic"].families, "anthropic-messages"),
        (("gem", "google"), WELL_KNOWN["google"].families, "google-generate-content"),
        (("x", "both"), ("anthropic-messages", "openai-chat"), "openai-chat"),
    ],
)
def test_a_bare_model_is_asked_in_a_format_of_its_provider(
    model: tuple[str, str], families: Any, wire: str
) -> None:
    """Chat completions first, where there is a choice."""
    assert (
        wire_of(agent(role(model[0])).revision, [PinnedModel("main", *model)], lambda provider: families)
        == wire
    )


def test_a_provider_without_a_format_for_tools_is_refused() -> None:
    """Embeddings answer no question."""
    with pytest.raises(UsageError, match="provider mine speaks no format"):
        wire_of(
            agent(role("x")).revision,
            [PinnedModel("main", "x", "mine")],
            lambda provider: ("openai-embeddings",),
        )


def test_an_agent_that_calls_no_model_has_no_way_out_and_no_money() -> None:
    """Whatever the command says for others; the rest of the conditions stays."""
    given = conditions(
        cost_cap_nusd=7, provider_tools=("web_search",), prices_digest="a" * 64, rehearsal_digest="b" * 64
    )
    found = conditions_for(agent(), given)
    assert found == ScreeningConditions(hardware_class="any")
    assert conditions_for(agent(role("gpt")), given) is given


def test_without_models_there_is_nothing_to_meter(home: Home, say: Say) -> None:
    """And no price sheet is needed."""
    assert metering_for(home, agent(), conditions(), say) is None


def test_models_without_a_price_sheet_are_refused(home: Home, say: Say) -> None:
    """Conditions of an agent that calls models name one."""
    with pytest.raises(UsageError, match="agent mine@1 calls models, but the conditions name no price sheet"):
        metering_for(home, agent(role("gpt")), conditions(), say)


def test_a_price_sheet_that_is_gone_is_refused(home: Home, say: Say) -> None:
    """A resumed screening needs the one it began with."""
    with pytest.raises(PriceError, match="cannot be read"):
        metering_for(home, agent(role("gpt")), conditions(prices_digest="a" * 64), say)


def test_every_model_needs_a_key_unless_it_is_rehearsed(
    home: Home, say: Say, sheet: PriceSheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The side model too; refused before anything is planned."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    keep_sheet(home, sheet)
    both = agent(role("gpt"), role("claude", name="small"))
    given = conditions(prices_digest=sheet.digest)
    with pytest.raises(ProviderError, match="provider anthropic has no key"):
        metering_for(home, both, given, say)
    scripted = conditions(prices_digest=sheet.digest, rehearsal_digest="b" * 64)
    rehearsed = metering_for(home, both, scripted, say)
    assert rehearsed is not None
    assert rehearsed.terms.rehearsal == home.root / "rehearsals" / f"{'b' * 64}.toml"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-this-test")
    real = metering_for(home, both, given, say)
    assert real is not None
    assert real.terms.rehearsal is None
    assert [(one.role, one.model, one.provider) for one in real.terms.models] == [
        ("main", "gpt", "openai"),
        ("small", "claude", "anthropic"),
    ]


def test_models_of_a_rehearsal_need_a_rehearsal(sheet: PriceSheet) -> None:
    """Fictional models have no account."""
    scripted = agent(role("rehearsal-openai"))
    with pytest.raises(ProviderError, match="in rehearsals only"):
        models_of(scripted, sheet, WELL_KNOWN, TODAY, rehearsed=False)
    [found] = models_of(scripted, sheet, WELL_KNOWN, TODAY, rehearsed=True)
    assert found.provider == "rehearsal"


def test_the_terms_are_those_of_the_conditions(
    home: Home, say: Say, sheet: PriceSheet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caps, steps and tools as published; the sheet by its digest; no key anywhere in them."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-this-test")
    path = keep_sheet(home, sheet)
    given = conditions(prices_digest=sheet.digest, provider_tools=("web_search",), try_cap_nusd=0)
    found = metering_for(home, agent(role("claude")), given, say)
    assert found is not None
    terms = found.terms
    assert (terms.cap_nusd, terms.step_limit, terms.provider_tools) == (0, 9, ("web_search",))
    assert (terms.price_sheet, terms.prices_digest) == (path, sheet.digest)
    assert (terms.accounts, terms.state_root) == (home.root / "providers.toml", home.root / "relay")
    assert found.wire == "anthropic-messages"
    assert "sk-of-this-test" not in repr(found)


def test_sheet_and_script_are_kept_under_their_digests(home: Home, sheet: PriceSheet, tmp_path: Path) -> None:
    """Kept twice they are the same file, and nothing half-written is left."""
    script = tmp_path / "script.toml"
    script.write_bytes(b"any = 1\n")
    kept, digest = keep_script(home, script)
    assert (kept, digest) == keep_script(home, script)
    assert kept.read_bytes() == script.read_bytes()
    assert kept.stem == digest == relaying.file_digest(script)
    assert keep_sheet(home, sheet) == keep_sheet(home, sheet)
    assert PriceSheet.load(keep_sheet(home, sheet)).digest == sheet.digest
    assert not list(home.root.rglob("*.new"))


def test_what_a_lost_attempt_cost_comes_from_the_transcripts_it_left(home: Home) -> None:
    """Settled calls and open holds of all its lanes, as far as each is whole; None without any."""
    assert metered_nusd(home, "attempt") is None
    for kind, hold_nusd in (("agent", 70), ("platform", 5)):
        lane = Transcript(home.root / "relay" / "attempt" / kind, "lane")
        lane.add(Kind.ADMIT, 1, {"holdNusd": 1000})
        lane.add(Kind.SETTLE, 1, {"bookedNusd": 100})
        lane.add(Kind.ADMIT, 2, {"holdNusd": hold_nusd})
        lane.close()
    assert metered_nusd(home, "attempt") == 200 + 75
    damaged = home.root / "relay" / "attempt" / "agent" / "transcript.jsonl"
    damaged.write_bytes(damaged.read_bytes() + b'{"seq": 3, "torn')
    assert metered_nusd(home, "attempt") == 275
    first, *_ = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(first + b"{}\n")
    assert metered_nusd(home, "attempt") == 1000 + 105
