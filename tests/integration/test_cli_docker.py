"""One small real screening through the program, then every reading command on what it left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.assets.services.engines import Engines

pytestmark = pytest.mark.docker

TASK = """
version = "1.0"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 60.0

[environment]
docker_image = "assize/base:1"
memory_mb = 256
"""
TEST = """#!/bin/sh
echo 0 > /logs/verifier/reward.txt
[ "$(cat /tmp/answer.txt 2>/dev/null)" = "$WANTED" ] && echo 1 > /logs/verifier/reward.txt
printf 'checked \\033[31m%s\\n' "$WANTED"
"""
ANSI_AGENT = """
[agent]
name = "shouter"
version = "1"
kind = "exec"

[run]
command = ["sh", "-c", "printf 'loud \\\\033]0;owned\\\\007\\\\n'; echo two > /tmp/answer.txt"]
"""


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


def assize(engines: Engines, home: Path, *arguments: str) -> Ran:
    """The program as a process of its own."""
    done = engines.assize(home, *arguments)
    return Ran(done.returncode, done.stdout, done.stderr)


def _pack(root: Path) -> Path:
    """Two tasks: the file must say `one`, or `two`."""
    for name in ("one", "two"):
        task = root / name
        (task / "tests").mkdir(parents=True)
        (task / "solution").mkdir()
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text(f"Write {name} to /tmp/answer.txt.\n")
        (task / "tests" / "test.sh").write_text(TEST.replace("$WANTED", name))
        (task / "solution" / "solve.sh").write_text(f"#!/bin/sh\necho {name} > /tmp/answer.txt\n")
    return root


@dataclass(frozen=True)
class Screened:
    """The home and the one command that filled it."""

    home: Path
    pack: Path
    engines: Engines
    first: Ran

    def assize(self, *arguments: str, home: Path | None = None) -> Ran:
        """The program on this home, or on another one."""
        return assize(self.engines, home or self.home, *arguments)

    @property
    def by_agent(self) -> dict[str, str]:
        """Screening id by agent."""
        return {one["agent"]: one["screening"] for one in self.first.data["screenings"]}


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory, engines: Engines) -> Screened:
    folder = tmp_path_factory.mktemp("cli-docker")
    pack = _pack(folder / "pair")
    (folder / "shouter.toml").write_text(ANSI_AGENT)
    home = folder / "home"
    agents = ["--agent", "oracle", "--agent", str(folder / "shouter.toml")]
    first = assize(engines, home, "screen", str(pack), *agents, "--tries", "1", "--json")
    assert first.code == 0, first.err
    return Screened(home, pack, engines, first)


def test_screen_ends_with_two_verified_cards(screened: Screened) -> None:
    """Oracle passes both tasks, the other agent one; both count in full."""
    data = screened.first.data
    assert data["schema"] == "assize.screen/1"
    assert {one["state"] for one in data["screenings"]} == {"complete"}
    scores = {one["card"]["key"]["agent"]: one["card"]["pack_score"]["display"] for one in data["cards"]}
    assert scores == {"oracle": "100.0", "shouter": "50.0"}
    assert all(one["verification"]["exit"] == 0 for one in data["cards"])


def test_the_same_command_again_runs_nothing(screened: Screened) -> None:
    """It finds both screenings complete and shows the same cards."""
    again = screened.assize("screen", str(screened.pack), "--agent", "oracle", "--tries", "1", "--json")
    assert again.code == 0, again.err
    assert "already complete" in again.err
    assert [one["screening"] for one in again.data["screenings"]] == [screened.by_agent["oracle@1"]]


def test_a_further_agent_beside_one_that_is_complete(screened: Screened) -> None:
    """The complete one is shown with its bundle, the other one is run."""
    words = ("screen", str(screened.pack), "--agent", "oracle", "--agent", "nop", "--tries", "1", "--json")
    ran = screened.assize(*words)
    assert ran.code == 0, ran.err
    cards = {one["card"]["key"]["agent"]: one for one in ran.data["cards"]}
    assert cards["oracle"]["screening"] == screened.by_agent["oracle@1"]
    assert {name: one["card"]["pack_score"]["display"] for name, one in cards.items()} == {
        "oracle": "100.0",
        "nop": "0.0",
    }
    assert all(Path(one["bundle"]).is_file() for one in cards.values())


def test_a_private_screening_is_a_record_of_its_own(screened: Screened) -> None:
    """Seed 003: evidence, no certificate, no log entry, no score; in public it is another screening."""
    home = screened.home
    before = {path: path.read_bytes() for path in (home / "log").rglob("checkpoint")}
    assert len(before) == 1
    words = ("screen", str(screened.pack), "--agent", "oracle", "--tries", "1", "--private", "--json")
    ran = screened.assize(*words)
    assert ran.code == 3, ran.err
    (one,) = ran.data["screenings"]
    assert (ran.data["private"], ran.data["cards"], one["state"]) == (True, [], "complete")
    assert one["screening"] not in screened.by_agent.values()
    assert {path: path.read_bytes() for path in (home / "log").rglob("checkpoint")} == before
    assert not (home / "certificates" / one["screening"]).exists()
    status = screened.assize("status", one["screening"], "--json").data
    assert (status["visibility"], status["passed"], status["certified_attempts"]) == ("private", 2, 0)
    tries = screened.assize("tries", one["screening"], "--json").data["tries"]
    shown = screened.assize("try", tries[0]["try"])
    assert "no certificate, no score" in shown.out and "observations.json" in shown.out
    for refused in (("score",), ("certificates", "export"), ("certificates", "show")):
        assert "is private" in screened.assize(*refused, one["screening"]).err
    again = screened.assize(*words)
    assert again.code == 3 and again.data["screenings"] == ran.data["screenings"]


def test_status_and_tries_agree_with_the_cards(screened: Screened) -> None:
    """Counts, certificates and bundle of the closed screening."""
    listed = {one["agent"]: one for one in screened.assize("status", "--json").data["screenings"]}
    assert (listed["shouter@1"]["passed"], listed["shouter@1"]["failed"]) == (1, 1)
    detail = screened.assize("status", screened.by_agent["shouter@1"], "--json").data
    assert (detail["certified_attempts"], detail["ended_attempts"]) == (2, 2)
    assert Path(detail["bundle"]).is_file()
    tries = screened.assize("tries", screened.by_agent["shouter@1"], "--json").data["tries"]
    assert [(one["task"], one["outcome"], one["reason"], one["reward"]) for one in tries] == [
        ("one", "failed", "wrong_output", "0"),
        ("two", "passed", "all_checks_passed", "1"),
    ]


def test_try_shows_decision_evidence_and_bundle(screened: Screened) -> None:
    """The first lines decide; every file is listed, the hidden tests are withheld; the bundle verifies."""
    tries = screened.assize("tries", screened.by_agent["shouter@1"], "--json").data["tries"]
    slot = next(one["try"] for one in tries if one["task"] == "one")
    text = screened.assize("try", slot)
    assert text.out.startswith("✗ failed (wrong_output)  pair@0+")
    assert "decided by  rule verdict-fail: reward=0, reward_passes=false" in text.out
    data = screened.assize("try", slot, "--json").data
    assert [one["path"] for one in data["evidence"] if one["withheld"]] == ["grader/tests.tar"]
    bundle = data["attempts"][0]["bundle"]
    verified = screened.assize("verify", bundle, "--json")
    # Authentic, but a failed try does not count as a pass.
    assert verified.data["schema"] == "assize.verify-try/1"
    assert verified.data["authentic"] == "yes"
    assert verified.code in (0, 3)


@pytest.mark.parametrize("option", ["--transcript", "--diff", "--grader", "--observations", "--report"])
def test_every_kind_of_evidence_can_be_read(screened: Screened, option: str) -> None:
    """From a real sandbox, as text and as data; nothing of it steers a terminal."""
    tries = screened.assize("tries", screened.by_agent["shouter@1"], "--json").data["tries"]
    ran = screened.assize("try", tries[0]["try"], option)
    assert ran.code == 0, ran.err
    assert ran.out.strip()
    assert not {"\x1b", "\x07"} & set(ran.out)
    data = screened.assize("try", tries[0]["try"], option, "--json").data
    assert data["schema"] == "assize.try-evidence/1"


def test_hostile_output_of_agent_and_grader_is_shown_not_obeyed(screened: Screened) -> None:
    """The escape sequences are there, made visible."""
    tries = screened.assize("tries", screened.by_agent["shouter@1"], "--json").data["tries"]
    assert "loud \\x1b]0;owned\\x07" in screened.assize("try", tries[0]["try"], "--transcript").out
    assert "checked \\x1b[31mone" in screened.assize("try", tries[0]["try"], "--grader").out


def test_score_and_verify_of_the_screening(screened: Screened) -> None:
    """Both count in full: exit 0."""
    screening = screened.by_agent["shouter@1"]
    score = screened.assize("score", screening, "--explain", "--json")
    assert (score.code, score.data["schema"]) == (0, "assize.score/1")
    assert score.data["card"]["pack_score"]["display"] == "50.0"
    bundle = screened.assize("status", screening, "--json").data["bundle"]
    verified = screened.assize("verify", bundle, "--json")
    assert (verified.code, verified.data["schema"]) == (0, "assize.verify-screening/1")


def test_images_doctor_agents_and_packs_after_a_screening(screened: Screened) -> None:
    """The base image is locked and present, the home is sound, the agent is registered."""
    images = screened.assize("images", "list", "--json").data["images"]
    assert [(one["name"], one["present"]) for one in images] == [("assize/base:1", True)]
    built = screened.assize("images", "build", str(screened.pack), "--json").data
    assert {one["agent_image"] for one in built["tasks"]} == {images[0]["id"]}
    doctor = screened.assize("doctor", "--json")
    checks = {one["check"]: one for one in doctor.data["checks"]}
    assert doctor.code == 0, [one for one in checks.values() if one["blocks"]]
    for name in ("docker engine", "base image", "ledger", "trust root", "leftover containers"):
        assert checks[name]["health"] == "ok", checks[name]
    agents = screened.assize("agents", "list", "--json").data["agents"]
    assert ("shouter", "registered") in [(one["name"], one["origin"]) for one in agents]
    shown = screened.assize("packs", "show", str(screened.pack), "--json").data
    assert [one["task"] for one in shown["tasks"]] == ["one", "two"]


def test_doctor_lists_a_leftover_container_and_leaves_it(screened: Screened) -> None:
    """A container that carries this home's label and no live attempt is named, not removed."""
    from orchestrator.evidence.store import EvidenceStore
    from orchestrator.home import Home
    from orchestrator.ledger.migrate import open_ledger
    from orchestrator.screenings.installation import Installation

    home = Home(screened.home)
    ledger = open_ledger(home.database_url)
    label = Installation(home, ledger, EvidenceStore(home.evidence)).label
    ledger.close()
    client = docker.APIClient(version="auto")
    labels = {"assize.home": label, "assize.attempt": "01NONE/1"}
    made = client.create_container("assize/base:1", command=["true"], labels=labels)["Id"]
    try:
        checks = screened.assize("doctor", "--json").data["checks"]
        found = next(one for one in checks if one["check"] == "leftover containers")
        assert (found["health"], found["detail"]) == ("warn", f"{made[:12]} (created)")
        assert client.inspect_container(made)["Id"] == made
    finally:
        client.remove_container(made, force=True)
        client.close()


def test_a_real_certificate_is_exported_shown_and_withdrawn(screened: Screened, tmp_path: Path) -> None:
    """Sandbox to stranger: export with evidence, verify, notice, verify again (last: it changes the home)."""
    home, screening = screened.home, screened.by_agent["oracle@1"]
    given = tmp_path / "given"
    done = screened.assize("certificates", "export", screening, "--evidence", "--out", str(given), "--json")
    assert (done.code, done.data["missing"]) == (0, [])
    stranger = ("--trust-root", str(given / "trust-root.json"), "--evidence", str(given / "evidence"))
    elsewhere = tmp_path / "elsewhere"
    seen = screened.assize("verify", str(given / "screening.zip"), *stranger, "--json", home=elsewhere)
    assert seen.code == 0, seen.out
    assert (
        seen.data["notices"]["through"] == seen.data["log"]["size"] and seen.data["evidence"]["missing"] == 0
    )
    one = sorted((given / "tries").iterdir())[0]
    digest = screened.assize("verify", str(one), *stranger, "--json", home=elsewhere).data["certificate"]
    told = ("--kind", "contamination", "--reason", "the answer is in the task's text", "--yes")
    assert screened.assize("certificates", "notice", digest, *told).code == 0
    log = ("--log", str(home / "log"))
    late = screened.assize("verify", str(one), *stranger, *log, "--json", home=elsewhere)
    assert (late.code, late.data["reasons"]) == (3, ["contaminated"])
    assert screened.assize("score", screening).code == 3
