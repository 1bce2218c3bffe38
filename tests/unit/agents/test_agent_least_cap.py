"""What an agent needs before it can begin: a format in common, and money for one worst-case call."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orchestrator.agents.bundle import BundleEntry, BundleManifest
from orchestrator.agents.errors import AgentError
from orchestrator.agents.packed import revision_of
from orchestrator.agents.profile import PackedFacts, find_profile, load_profile
from orchestrator.agents.revision import AgentRevision, ModelRole, Run
from orchestrator.agents.templates import placeholders
from orchestrator.attempts import PinnedModel
from orchestrator.errors import UsageError
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.prices.sheet import PriceSheet
from orchestrator.screenings.least_cap import least_cap_nusd, output_limit, require_least_cap
from orchestrator.screenings.wires import wire_of

SHEET = PriceSheet.bundled()
NOW = datetime.now(UTC)
HAIKU = PinnedModel("main", "claude-haiku-4-5", "anthropic")
GPT = PinnedModel("main", "gpt-5", "openai")
OPENAI, GOOGLE = (PinnedModel("main", f"rehearsal-{name}", "rehearsal") for name in ("openai", "google"))
PROGRAMS = ("app/claude", "app/bin/codex", "app/bin/opencode", "app/bin/python3")


def agent(name: str) -> AgentRevision:
    """A built-in profile as if it had been packed."""
    profile = load_profile(find_profile(name)).model_copy(
        update={"packed": PackedFacts(version="1", machine="x86_64", sources=())}
    )
    bundle = BundleManifest(tuple(BundleEntry("f", True, 1, "0" * 64, path) for path in PROGRAMS))
    return revision_of(profile, bundle).with_model(ModelRole(role="main", id="any"))


def conditions(**changes: int) -> ScreeningConditions:
    return ScreeningConditions(hardware_class="cpu1-mem1g", network="relay-only", **changes)  # type: ignore[arg-type]


def test_the_least_cap_is_one_worst_case_call() -> None:
    """Claude Code, 32,000 tokens at 5 USD and 131,328 of input at 1.25 USD a million, the cache write."""
    price = SHEET.entry("anthropic", "claude-haiku-4-5", NOW.date())
    found = least_cap_nusd(agent("claude-code"), price, 32_000, NOW)
    assert found == 32_000 * 5_000 + (131_072 + 256) * 1_250


def test_a_cap_below_it_is_refused_with_the_amount() -> None:
    """One sentence with the amount, and the way out; the amount itself is enough."""
    revision = agent("claude-code")
    with pytest.raises(UsageError) as caught:
        require_least_cap(revision, conditions(try_cap_nusd=324_159_999), [HAIKU], SHEET, 32_000)
    assert "needs a try cap of at least 0.3242 USD" in caught.value.message
    assert "--output-tokens" in str(caught.value.hint)
    require_least_cap(revision, conditions(try_cap_nusd=324_200_000), [HAIKU], SHEET, 32_000)


def test_a_lower_output_limit_lowers_it() -> None:
    """That is what the limit is for."""
    require_least_cap(agent("claude-code"), conditions(try_cap_nusd=190_000_000), [HAIKU], SHEET, 4_000)


@pytest.mark.parametrize(
    ("name", "model", "asked", "told"),
    [
        ("claude-code", HAIKU, None, 32_000),
        ("claude-code", HAIKU, 5_000, 5_000),
        ("claude-code", HAIKU, 500_000, 64_000),
        ("claude-code", PinnedModel("main", "rehearsal-anthropic", "rehearsal"), None, 8_192),
        ("codex", GPT, 5_000, None),
    ],
)
def test_what_an_agent_is_told(name: str, model: PinnedModel, asked: int | None, told: int | None) -> None:
    """The conditions, else its default, never above the model's own; nothing where there is no knob."""
    given = conditions() if asked is None else conditions(output_tokens=asked)
    assert output_limit(agent(name), given, [model], SHEET, NOW.date()) == told


def test_agents_of_unknown_size_have_no_least_cap() -> None:
    """For an agent's own command nothing is known; the relay refuses what does not fit."""
    revision = AgentRevision(name="mine", version="1", kind="nop")
    require_least_cap(revision, conditions(), [HAIKU], SHEET, None)


@pytest.mark.parametrize(
    ("name", "model", "families", "wire"),
    [
        ("claude-code", HAIKU, ("anthropic-messages",), "anthropic-messages"),
        ("codex", GPT, ("openai-chat", "openai-responses"), "openai-responses"),
        ("mini-swe-agent", HAIKU, ("anthropic-messages",), "anthropic-messages"),
        ("codex", OPENAI, (), "openai-responses"),
        ("mini-swe-agent", GOOGLE, (), "google-generate-content"),
    ],
)
def test_agent_and_provider_share_a_format(
    name: str, model: PinnedModel, families: tuple[str, ...], wire: str
) -> None:
    """The agent's formats decide, not the worker's own."""
    assert wire_of(agent(name), [model], lambda provider: families) == wire  # type: ignore[arg-type,return-value]


def test_no_format_in_common_is_refused() -> None:
    """Before anything is planned, with what the agent can do."""
    with pytest.raises(UsageError, match="speaks no format in which agent claude-code") as caught:
        wire_of(agent("claude-code"), [GPT], lambda provider: ("openai-chat",))
    assert "anthropic-messages" in str(caught.value.hint)


SONNET = PinnedModel("small", "claude-sonnet-4-6", "anthropic")
MINI = PinnedModel("small", "gpt-5-mini", "openai")


def test_the_dearest_role_counts() -> None:
    """Which model is called first is the agent's business; the message names the one that is too dear."""
    revision = agent("claude-code")
    alone = conditions(try_cap_nusd=324_200_000)
    require_least_cap(revision, alone, [HAIKU], SHEET, 32_000)
    with pytest.raises(UsageError, match="call to claude-sonnet-4-6 may cost"):
        require_least_cap(revision, alone, [HAIKU, SONNET], SHEET, 32_000)


def test_the_output_limit_fits_every_role() -> None:
    """One knob for all of its models."""
    rehearsed = PinnedModel("small", "rehearsal-anthropic", "rehearsal")
    assert output_limit(agent("claude-code"), conditions(), [HAIKU, rehearsed], SHEET, NOW.date()) == 8_192


def test_every_role_needs_a_format_in_common() -> None:
    """A packed agent asks all of its models in one format; the message names both providers."""
    speaks = {"anthropic": ("anthropic-messages",), "openai": ("openai-chat", "openai-responses")}
    with pytest.raises(UsageError, match="provider anthropic and openai speaks no format"):
        wire_of(agent("claude-code"), [HAIKU, MINI], speaks.__getitem__)  # type: ignore[arg-type]
    assert wire_of(agent("claude-code"), [HAIKU, SONNET], speaks.__getitem__) == "anthropic-messages"  # type: ignore[arg-type]


def test_a_second_model_is_part_of_the_revision() -> None:
    """In its version and below its digest; an agent without the role refuses it in one sentence."""
    profile = agent("opencode").model_copy(update={"any_model": True, "models": (), "version": "1"})
    main, small = (ModelRole(role=role, id=name, provider="openai") for role, name in ROLES)
    both = profile.with_model(main, small)
    assert (both.version, both.models) == ("1+gpt-5+gpt-5-mini", (main, small))
    assert both.digest != profile.with_model(main).digest
    without = agent("codex").model_copy(update={"any_model": True, "models": ()})
    with pytest.raises(AgentError, match="has no role small"):
        without.with_model(main, small)
    with pytest.raises(AgentError, match="has no role small"):
        AgentRevision(name="shell", version="1", kind="shell", any_model=True).with_model(main, small)
    run = Run(command=("python3",))
    own = AgentRevision(name="own", version="1", kind="exec", run=run, any_model=True)
    assert own.with_model(main, small).models == (main, small)


ROLES = (("main", "gpt-5"), ("small", "gpt-5-mini"))
PROFILES_WITH_SMALL = ("aider", "claude-code", "opencode")


@pytest.mark.parametrize("name", PROFILES_WITH_SMALL)
def test_profiles_with_a_small_model_pass_it_on(name: str) -> None:
    """Somewhere in what the agent is started with."""
    launch = load_profile(find_profile(name)).launch
    used = placeholders([*launch.argv, *launch.env.values(), *launch.files.values()])
    assert "small" in launch.roles and "model_small" in used
