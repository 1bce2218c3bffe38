"""agents, packs, images: what is known, shown and added; and completion of their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from orchestrator.cli import completion
from orchestrator.cli.main import cli as program
from sandbox_images.lock import ImageLock, LockedImage

AGENT = """
[agent]
name = "mine"
version = "1"
kind = "exec"
description = "Says \\u001b[31mred\\u202e."

[run]
command = ["/bin/true"]
"""
MANIFEST = """
schema = "assize.pack/1"
name = "tiny"
version = "1"
title = "Tiny"
licenses = ["Apache-2.0"]

[[tasks]]
id = "one"
path = "one"
difficulty = "easy"
use_cases = ["testing"]
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(AGENT)
    return path


@pytest.fixture
def pack_folder(tmp_path: Path) -> Path:
    root = tmp_path / "tiny"
    (root / "one" / "tests").mkdir(parents=True)
    (root / "one" / "environment").mkdir()
    (root / "pack.toml").write_text(MANIFEST)
    (root / "one" / "task.toml").write_text('version = "1.0"\n[environment]\ngpus = 1\n')
    (root / "one" / "instruction.md").write_text("Do it.\n")
    (root / "one" / "environment" / "Dockerfile").write_text("FROM assize/base:1\n")
    (root / "one" / "tests" / "test.sh").write_text("exit 0\n")
    return root


def test_agents_list_has_the_built_in_ones_on_a_fresh_home(cli: Any, tmp_path: Path) -> None:
    """Listing creates nothing."""
    home = tmp_path / "none"
    data = json.loads(cli("agents", "list", "--json", home=home).out)
    assert data["schema"] == "assize.agents-list/1"
    assert [(one["name"], one["origin"]) for one in data["agents"]] == [
        ("nop", "built-in"),
        ("oracle", "built-in"),
        ("shell", "built-in"),
    ]
    assert set(data["agents"][0]) == {
        "name",
        "version",
        "kind",
        "digest",
        "origin",
        "models",
        "description",
    }
    assert not home.exists()


def test_agents_add_then_show_by_digest_prefix(cli: Any, agent_file: Path, tmp_path: Path) -> None:
    """A registered revision is found by name, name@version and digest; adding it again changes nothing."""
    home = tmp_path / "home"
    added = json.loads(cli("agents", "add", str(agent_file), "--json", home=home).out)
    assert (added["schema"], added["name"], added["command"]) == (
        "assize.agents-add/1",
        "mine",
        ["/bin/true"],
    )
    assert cli("agents", "add", str(agent_file), home=home).code == 0
    for name in ("mine", "mine@1", added["digest"][:8]):
        shown = json.loads(cli("agents", "show", name, "--json", home=home).out)
        assert shown == {**added, "schema": "assize.agents-show/1"}
    text = cli("agents", "show", "mine", home=home).out
    assert "Says \\x1b[31mred\\u202e." in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_agents_add_refuses_other_content_under_the_same_version(
    cli: Any, agent_file: Path, tmp_path: Path
) -> None:
    """A registered revision never changes."""
    home = tmp_path / "home"
    cli("agents", "add", str(agent_file), home=home)
    agent_file.write_text(AGENT.replace("/bin/true", "/bin/false"))
    ran = cli("agents", "add", str(agent_file), home=home)
    assert ran.code == 2
    assert "already registered with other content" in ran.err


@pytest.mark.parametrize("words", [["agents", "add", "FILE"], ["agents", "show", "carrier"]])
@pytest.mark.parametrize("manifest", [True, False])
def test_a_stored_bundle_that_was_damaged_is_told(
    cli: Any, tmp_path: Path, words: list[str], manifest: bool
) -> None:
    """Adding an agent again does not say that all is well; with a MANIFEST or without one."""
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "run.sh").write_text("exit 0\n")
    file, home = tmp_path / "carrier.toml", tmp_path / "home"
    file.write_text(
        '[agent]\nname = "carrier"\nversion = "1"\nkind = "exec"\n'
        '[run]\nbundle = "bundle"\ncommand = ["sh", "/opt/agent/run.sh"]\n'
    )
    added = json.loads(cli("agents", "add", str(file), "--json", home=home).out)
    stored = Path(added["bundle"])
    (stored / "run.sh").write_text("exit 1\n")
    if not manifest:
        (stored / "MANIFEST").unlink()
    ran = cli(*[str(file) if word == "FILE" else word for word in words], home=home)
    assert ran.code == 2 and str(stored) in ran.err, ran.err


def test_packs_list_shows_broken_packs_with_their_problem(
    cli: Any, tmp_path: Path, pack_folder: Path
) -> None:
    """A pack that cannot be read is listed, never skipped."""
    home = tmp_path / "home"
    (home / "packs").mkdir(parents=True)
    pack_folder.rename(home / "packs" / "tiny")
    (home / "packs" / "broken").mkdir()
    (home / "packs" / "broken" / "pack.toml").write_text("name = ")
    data = json.loads(cli("packs", "list", "--json", home=home).out)
    assert data["schema"] == "assize.packs-list/1"
    rows = {one["name"]: one for one in data["packs"]}
    assert rows["tiny"] | {"path": ""} == {
        "name": "tiny",
        "version": "1",
        "state": "draft",
        "tasks": 1,
        "tries": 3,
        "title": "Tiny",
        "origin": "home",
        "problem": None,
        "path": "",
    }
    assert "not valid TOML" in rows["broken"]["problem"]
    assert rows["broken"]["version"] is None
    table = cli("packs", "list", home=home).out
    assert len([line for line in table.splitlines() if line.startswith(("broken", "tiny"))]) == 2


def test_packs_freeze_then_show(cli: Any, pack_folder: Path) -> None:
    """Freezing prints the identity that show verifies; refusals and deviations are named with codes."""
    assert cli("packs", "show", str(pack_folder)).code == 2
    frozen = json.loads(cli("packs", "freeze", str(pack_folder), "--json").out)
    assert (frozen["schema"], frozen["pack"], frozen["tasks"]) == ("assize.packs-freeze/1", "tiny@1", 1)
    data = json.loads(cli("packs", "show", str(pack_folder), "--json").out)
    assert (data["schema"], data["digest"]) == ("assize.packs-show/1", frozen["digest"])
    task = data["tasks"][0]
    assert (task["difficulty"], task["use_cases"]) == ("easy", ["testing"])
    assert [one["code"] for one in task["refusals"]] == ["accelerator"]
    assert "network" in [one["code"] for one in task["deviations"]]
    text = cli("packs", "show", str(pack_folder)).out
    assert "refused: one: [accelerator]" in text
    assert "deviation: [network]" in text
    assert f"digest          {frozen['digest']}" in text
    assert "runnable        0 of 1 tasks" in text


def test_packs_show_names_altered_files(cli: Any, pack_folder: Path) -> None:
    """Verified file by file: a changed test is named, exit 2."""
    cli("packs", "freeze", str(pack_folder))
    (pack_folder / "one" / "tests" / "test.sh").write_text("exit 1\n")
    ran = cli("packs", "show", str(pack_folder))
    assert ran.code == 2
    assert "one/tests/test.sh: altered" in ran.err


def test_dry_run_tells_what_would_be_refused(cli: Any, pack_folder: Path, tmp_path: Path) -> None:
    """The plan without building or running anything: exit 1 because a task is refused, and no home."""
    cli("packs", "freeze", str(pack_folder))
    home = tmp_path / "none"
    ran = cli("screen", str(pack_folder), "--agent", "nop", "--dry-run", "--json", home=home)
    data = json.loads(ran.out)
    assert (ran.code, data["schema"], data["tries"]) == (1, "assize.screen-plan/1", 3)
    assert list(data["refused"]) == ["one"]
    assert not home.exists()


def test_images_list_without_an_engine_shows_the_lock(cli: Any, tmp_path: Path) -> None:
    """What the engine holds is unknown then, which is said and is not "no"."""
    home = tmp_path / "home"
    assert cli("images", "list", home=home).out.startswith("No images yet.")
    entry = LockedImage("sha256:" + "a" * 64, "local", "", "2026-01-01T00:00:00Z", "amd64", "found here")
    ImageLock(home / "images.lock.json").record("debian:12", entry)
    ran = cli("images", "list", home=home)
    assert ran.code == 0
    assert "unknown" in ran.out.splitlines()[1]
    assert "warning: no Docker engine listens at" in ran.err
    data = json.loads(cli("images", "list", "--json", home=home).out)
    assert data["schema"] == "assize.images-list/1"
    assert (data["images"][0]["present"], data["images"][0]["size_bytes"]) == (None, None)


def test_images_list_with_a_damaged_lock_is_a_sentence(cli: Any, tmp_path: Path) -> None:
    """Exit 4 and what to do."""
    (tmp_path / "images.lock.json").write_text("{}")
    ran = cli("images", "list", home=tmp_path)
    assert ran.code == 4
    assert "next: move the file away" in ran.err


def test_completion_offers_packs_agents_and_screenings(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLI-8; a home that cannot be read completes nothing and fails at nothing."""
    context = click.Context(program, info_name="assize")
    context.params["home"] = str(world.home.root)
    parameter = click.Argument(["x"])
    assert "coding-core" in completion.packs(context, parameter, "cod")
    assert completion.agents(context, parameter, "") == ["nop", "oracle", "shell"]
    offered = completion.screenings(context, parameter, world.done[:4].lower())
    assert offered == sorted([world.done, world.open])
    context.params["home"] = "/proc/none"
    assert completion.screenings(context, parameter, "") == []
