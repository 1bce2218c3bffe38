"""docs/agents.md and docs/relay.md as a new user follows them: the example agent, rehearsed, then for money.

The files are those of the pages, the commands those of the program; the real provider is a scripted one at
an address of `providers.toml`, with a key.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.home import Home
from orchestrator.screenings.installation import Installation
from tests.assets.services.engines import Engines
from workers.rehearsal.process import RehearsalProcess
from workers.sandbox.client import Engine
from workers.sandbox.reaper import reap

pytestmark = pytest.mark.docker

DOCS: Final = Path(__file__).parents[2] / "docs"
KEY: Final = "sk-canary-7d1f0a52c3"
TASK: Final = """
version = "1.0"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0

[environment]
docker_image = "assize/base:1"
memory_mb = 256
workdir = "/tmp"
"""
TEST: Final = """#!/bin/sh
echo 0 > /logs/verifier/reward.txt
[ "$(cat /tmp/hello.txt)" = hello ] && echo 1 > /logs/verifier/reward.txt
"""


def block(page: str, kind: str) -> str:
    """The first fenced block of a kind on a page."""
    found = re.search(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclass(frozen=True)
class Place:
    """A folder with `my-agent.toml`, `bundle/`, `my-tasks/` and a home."""

    folder: Path
    engines: Engines

    def assize(self, *arguments: str) -> Ran:
        """The program as a process of its own, in that folder and without a key in its environment."""
        unset = ("ASSIZE_", "OPENAI_", "ANTHROPIC_", "GEMINI_")
        done = self.engines.assize(self.folder / "home", *arguments, unset=unset)
        return Ran(done.returncode, done.stdout, done.stderr)

    def screen(self, *arguments: str) -> Ran:
        """One try of the example agent."""
        return self.assize("screen", "my-tasks", "--agent", "my-agent.toml", "--tries", "1", *arguments)

    def only_try(self, screened: Ran) -> dict[str, Any]:
        """The try of a screening of one, as `assize try` shows it."""
        (screening,) = screened.data["screenings"]
        (row,) = self.assize("tries", screening["screening"], "--json").data["tries"]
        return self.assize("try", row["try"], "--json").data


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, engine: Engine, engines: Engines) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("docs-agent")
    (folder / "home").mkdir()
    (folder / "my-agent.toml").write_text(block("agents.md", "toml"))
    (folder / "bundle").mkdir()
    (folder / "bundle" / "run.py").write_text(block("agents.md", "python"))
    (folder / "bundle" / "run.py").chmod(0o755)
    task = folder / "my-tasks" / "greeting"
    (task / "tests").mkdir(parents=True)
    (task / "solution").mkdir()
    (task / "task.toml").write_text(TASK)
    (task / "instruction.md").write_text("Create hello.txt with the word hello in it.\n")
    (task / "tests" / "test.sh").write_text(TEST)
    (task / "solution" / "solve.sh").write_text("#!/bin/sh\necho hello > hello.txt\n")
    yield Place(folder, engines)
    # A home keeps the volumes of its agents' bundles; this one is thrown away.
    installation = Installation.open(Home(folder / "home"))
    installation.close()
    reap(engine, installation.label, lambda label: False)


@pytest.fixture(scope="module")
def rehearsed(place: Place) -> Ran:
    """The first command of the page."""
    return place.screen("--model", "rehearsal-openai", "--rehearse", "hello", "--json")


def test_a_rehearsal_runs_the_whole_agent_and_counts_nothing(place: Place, rehearsed: Ran) -> None:
    """Exit 3, no pass, no word of money; the agent's own file and answer are there all the same."""
    assert rehearsed.code == 3, rehearsed.err
    assert "USD for model calls" not in rehearsed.err
    (card,) = rehearsed.data["cards"]
    assert card["card"]["pack_score"]["display"] == "—"
    text = place.assize("score", rehearsed.data["screenings"][0]["screening"]).out
    assert "0 of 1, no counted tries" in text
    assert "sandbox simulated, 1 certificates" in text
    shown = place.only_try(rehearsed)
    assert shown["outcome"] == "passed"
    found = place.assize("try", shown["try"], "--file", "agent/out/answer.txt")
    assert found.out == "Done: hello.txt holds the greeting.\n"
    kept = {one["path"]: one["role"] for one in shown["evidence"]}
    assert kept["agent/out/answer.txt"] == "artifacts"


def test_the_checker_of_the_relay_page_accepts_the_certificate(place: Place, rehearsed: Ran) -> None:
    """A real bundle and a real transcript, with the standard library alone."""
    shown = place.only_try(rehearsed)
    log = place.folder / "transcript.jsonl"
    log.write_text(place.assize("try", shown["try"], "--file", "relay/transcript.jsonl", "--raw").out)
    command = [sys.executable, "-I", "-S", "-c", block("relay.md", "python")]
    ran = subprocess.run(
        [*command, shown["attempts"][0]["bundle"], str(log)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert re.fullmatch(r"\d+ records, 2 calls, cost \d+ nano-USD: as certified\n", ran.stdout)


def test_for_money_it_says_how_much_before_and_counts_afterwards(place: Place) -> None:
    """A provider of `providers.toml` with a key file: one line about the most that can be spent, then a pass
    that counts; the key is on no output."""
    key_file = place.folder / "openai.key"
    key_file.write_text(KEY)
    with RehearsalProcess("hello", key=KEY) as provider:
        (place.folder / "home" / "providers.toml").write_text(
            f'[provider.openai]\nbase_url = "{provider.base_url}/v1"\nkey_file = "{key_file}"\n'
        )
        ran = place.screen("--model", "openai/gpt-5-mini", "--try-cap", "0.25", "--json")
    assert ran.code == 0, ran.err
    assert "at most 0.25 USD for model calls, in 1 try of up to 0.25 USD" in ran.err
    (card,) = ran.data["cards"]
    assert card["card"]["pack_score"]["display"] == "100.0"
    assert KEY not in ran.out + ran.err
    doctor = {one["check"]: one for one in place.assize("doctor", "--json").data["checks"]}
    assert doctor["providers"]["detail"] == "a key at hand for openai"
