"""docs/agents.md is true: its revisions are valid, its contract is the one that the worker keeps.

That the example agent runs is for tests/integration/test_docs_agent.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.agents.endpoint import Endpoint
from orchestrator.agents.revision import AgentRevision, parse_revision
from orchestrator.attempts import AttemptOrder, PinnedModel, RelayTerms
from orchestrator.endpoints import listed
from orchestrator.prices.sheet import PriceSheet
from orchestrator.screenings.relaying import DEFAULT_STEP_LIMIT, pinned
from workers.adapters.acp.lines import LINE_LIMIT_BYTES
from workers.adapters.acp.session import MOST_REQUESTS, MOST_STRANGE
from workers.adapters.endpoint.link import ANSWER_LIMIT_BYTES, CALL_LIMIT_S, SESSION_HEADER, TRY_LIMIT_BYTES
from workers.adapters.launch import QUIET, Way, contract_environment
from workers.capture.folder import LEFT_BYTES, MAX_LEFT_FILES
from workers.capture.transcripts import MAX_TRANSCRIPTS, TRANSCRIPT_BYTES
from workers.relay.watch import GRACE_MS
from workers.sandbox.tars import Owner

PAGE: Final = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()
BLOCKS: Final = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def revision(folder: Path, text: str) -> AgentRevision:
    """What the TOML means, beside a bundle as the page describes it."""
    (folder / "bundle").mkdir()
    (folder / "bundle" / "run.py").write_text("#!/usr/bin/env python3\n")
    (folder / "bundle" / "run.py").chmod(0o755)
    return parse_revision(text, folder, "docs/agents.md").revision


def blocks(kind: str) -> list[str]:
    return [body for found, body in BLOCKS if found == kind]


def test_the_example_is_a_valid_revision(tmp_path: Path) -> None:
    """As it stands; it takes its model from the screening."""
    found = revision(tmp_path, blocks("toml")[0])
    assert found.any_model and found.run is not None
    assert found.run.command == ("/opt/agent/run.py",)


def example(kind: str) -> str:
    """The revision of a kind on the page."""
    (found,) = [text for text in blocks("toml") if f'kind = "{kind}"' in text]
    return found


def test_the_example_of_a_protocol_is_a_valid_revision(tmp_path: Path) -> None:
    """With its policy, and a program of the bundle."""
    found = revision(tmp_path, example("acp").replace("./agent.py", "./run.py"))
    assert found.kind == "acp" and found.acp is not None and found.acp.permission == "allow"
    assert found.run is not None and found.run.command == ("/opt/agent/run.py", "--acp")


def test_the_example_of_an_endpoint_is_valid_and_its_address_listed(tmp_path: Path) -> None:
    """Revision and operator's list fit each other; the other entry allows http on loopback."""
    found = revision(tmp_path, example("http-chat"))
    (entries,) = [text for text in blocks("toml") if text.startswith("[endpoint.")]
    path = tmp_path / "endpoints.toml"
    path.write_text(entries, "utf-8")
    assert found.endpoint is not None and listed(path, found.endpoint).key_env == "MY_AGENT_KEY"
    assert listed(path, Endpoint(url="http://127.0.0.1:9000/v1")).private


def test_the_models_of_the_second_example_can_be_pinned(tmp_path: Path) -> None:
    """Valid in the place of `any`, and each with a price in the bundled sheet."""
    (declared,) = [text for text in blocks("toml") if text.startswith("[model]")]
    example = blocks("toml")[0].replace('[model]\ndeclared = "any"', declared)
    sheet = PriceSheet.bundled()
    found = [pinned(role, sheet, sheet.date) for role in revision(tmp_path, example).models]
    assert [(one.role, one.provider) for one in found] == [("main", "anthropic"), ("small", "openai")]


@pytest.mark.parametrize("text", ["", '[model]\ndeclared = "none"'])
def test_an_agent_without_a_model_is_declared_in_two_ways(tmp_path: Path, text: str) -> None:
    """Both are the first row of the table."""
    example = re.sub(r"\[model\]\n.*\n", text, blocks("toml")[0])
    found = revision(tmp_path, example)
    assert (found.models, found.any_model) == ((), False)


def test_the_example_agent_is_short_and_compiles() -> None:
    """Somebody should want to copy it."""
    (agent,) = blocks("python")
    compile(agent, "run.py", "exec")
    assert len(agent.splitlines()) <= 26


def environment(step_limit: int | None = 5) -> dict[str, str]:
    values: dict[str, Any] = dict.fromkeys(AttemptOrder.__dataclass_fields__)
    terms: dict[str, Any] = dict.fromkeys(RelayTerms.__dataclass_fields__)
    models = (PinnedModel("main", "model-a", "p"), PinnedModel("small", "model-b", "p"))
    relay = RelayTerms(**{**terms, "models": models, "cap_nusd": 7, "step_limit": step_limit})
    order = AttemptOrder(**{**values, "environment": {}, "relay": relay})
    return contract_environment(order, Owner(1000, 1000), "/w", 60, Way(token="secret"))


def test_every_variable_of_the_contract_is_on_the_page() -> None:
    """All that the worker sets, the switches for quietness aside."""
    assert [name for name in environment().keys() - QUIET.keys() if f"`{name}`" not in PAGE] == ["HOME"]
    named = set(re.findall(r"`((?:ASSIZE|OPENAI|ANTHROPIC|GOOGLE|GEMINI)_[A-Z_]+)`", PAGE))
    assert named <= environment().keys()


def test_the_numbers_on_the_page() -> None:
    """Grace and bounds are those of the code."""
    assert f"{GRACE_MS // 1000} seconds later the try is" in PAGE
    assert f"up to {MAX_LEFT_FILES}, and {LEFT_BYTES >> 20} MiB together" in PAGE
    assert f"up to {MAX_TRANSCRIPTS} files and {TRANSCRIPT_BYTES >> 20} MiB" in PAGE
    answer, whole = f"{ANSWER_LIMIT_BYTES >> 20} MiB an answer", f"{TRY_LIMIT_BYTES >> 20} MiB an attempt"
    assert f"{answer}, {whole}, {CALL_LIMIT_S // 60:.0f} minutes a call" in PAGE
    assert f"than {LINE_LIMIT_BYTES >> 20} MiB, a thousand lines" in PAGE
    assert (MOST_STRANGE, MOST_REQUESTS, DEFAULT_STEP_LIMIT) == (1_000, 10_000, 100)
    assert f"header `{SESSION_HEADER}`" in PAGE


def test_the_page_names_a_model_that_is_sold() -> None:
    """The command shown works on the day of the bundled sheet."""
    sheet = PriceSheet.bundled()
    shown = re.findall(r"--model ([a-z]+)/(\S+)", PAGE)
    assert shown
    for provider, model in shown:
        assert model in sheet.entry(provider, model, sheet.date).ids
