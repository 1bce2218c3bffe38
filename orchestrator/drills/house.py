"""The throw-away home of a drill: tasks made from rows, two scripted agents, prices and providers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.agents import registry
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.drills.metered import MODEL, MODEL_OF_NOBODY, PROVIDER, PROVIDER_DOWN
from orchestrator.drills.rows import Row
from orchestrator.home import Home
from orchestrator.packs import catalog
from orchestrator.packs.pack import Pack
from orchestrator.prices.sheet import PriceSheet

KEY: Final = "sk-drill-0123456789abcdef"
_TASK: Final = """\
version = "1.0"

[agent]
timeout_sec = {wall_s}.0

[verifier]
timeout_sec = 60.0

[environment]
docker_image = "assize/base:1"
cpus = 1
memory_mb = {memory_mb}
"""
_SERVICE: Final = """\
services:
  beside:
    image: assize/base:1
    command: ["sh", "-c", {command}]
    mem_limit: 64m
"""
_AGENT: Final = """\
[agent]
name = "{name}"
version = "1"
kind = "exec"
{models}
[run]
command = ["sh", "-c", "exec {program} \\"$ASSIZE_INSTRUCTION\\""]
"""
_NUSD_PER_TOKEN: Final = 1_000


@dataclass(frozen=True)
class House:
    """A folder with a home in it; everything is made by `made`."""

    folder: Path

    @property
    def home(self) -> Home:
        """The home."""
        return Home(self.folder / "home")

    @property
    def prices(self) -> Path:
        """The file of the price sheet."""
        return self.folder / "prices.json"

    @classmethod
    def made(cls, folder: Path) -> House:
        """An empty house."""
        house = cls(folder)
        house.home.prepare()
        house.prices.write_text(sheet().text(), "utf-8")
        return house

    def pack(self, name: str, rows: Sequence[Row]) -> Pack:
        """A pack with one task per row, named after it."""
        root = self.folder / "packs" / name
        for row in rows:
            _write_task(root / row.name, row)
        return catalog.resolve(self.home, str(root)).load()

    def agent(self, *, metered: bool) -> RegisteredAgent:
        """The agent that does what the instruction says: a shell script, or a program that calls models."""
        return registry.resolve(self.home, str(self.agent_file(metered=metered)))

    def agent_file(self, *, metered: bool) -> Path:
        """Its revision file."""
        roles = [("main", MODEL, PROVIDER), ("down", MODEL_OF_NOBODY, PROVIDER_DOWN)]
        listed = ", ".join(f'{{ role = "{r}", id = "{m}", provider = "{p}" }}' for r, m, p in roles)
        name, program = ("drill-caller", "python3") if metered else ("drill-hand", "sh")
        models = f"\n[model]\ndeclared = [{listed}]\n" if metered else ""
        path = self.folder / f"{name}.toml"
        path.write_text(_AGENT.format(name=name, program=program, models=models), "utf-8")
        return path

    def write_accounts(self, base_url: str, nowhere: str) -> None:
        """`providers.toml`: the scripted provider, and one at an address where nobody listens."""
        key = self.folder / "key"
        key.write_text(KEY + "\n", "utf-8")
        parts = [
            f'[provider.{name}]\nbase_url = "{url}"\nkey_file = {json.dumps(str(key))}\n'
            for name, url in ((PROVIDER, base_url), (PROVIDER_DOWN, nowhere))
        ]
        (self.home.root / "providers.toml").write_text("\n".join(parts), "utf-8")


def _write_task(folder: Path, row: Row) -> None:
    files = [
        (".", "task.toml", _TASK.format(wall_s=row.wall_s, memory_mb=row.memory_mb)),
        (".", "instruction.md", row.work + "\n"),
        ("tests", "test.sh", f"#!/bin/bash\n{row.test}\n"),
        ("solution", "solve.sh", f"#!/bin/sh\n{row.solution}\n"),
    ]
    if row.service:
        text = _SERVICE.format(command=json.dumps(row.service))
        files.append(("environment", "docker-compose.yaml", text))
    for part, name, text in files:
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / name).write_text(text, "utf-8")


def sheet() -> PriceSheet:
    """Both models at a round price, on every day."""
    rate = _NUSD_PER_TOKEN * 10**6
    unsold = ("cache_read", "cache_write_5m", "cache_write_1h", "audio_input", "audio_output")
    entries = [
        {
            "provider": provider,
            "ids": [model],
            "valid_from": "2020-01-01",
            "valid_to": None,
            "standard": {"input": rate, "output": rate, **dict.fromkeys(unsold)},
            "tiers": [],
            "windows": [],
            "per_call": {},
            "max_output_tokens": 1000,
            "source": "fictional",
            "retrieved": "2020-01-01",
            "reviewed": True,
        }
        for provider, model in ((PROVIDER, MODEL), (PROVIDER_DOWN, MODEL_OF_NOBODY))
    ]
    return PriceSheet.from_data(
        {"format": "assize.prices/1", "id": "drill", "date": "2020-01-01", "entries": entries}
    )
