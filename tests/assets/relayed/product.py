"""The product itself on a house of its own: a home, one task, a scripted agent, and `assize` as a process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.home import Home
from orchestrator.screenings.installation import Installation
from tests.assets.programs import forks
from tests.assets.programs.forks import ASSIZE, Forked
from tests.assets.relayed.house import INSIDE, MODEL, NAME, WANT_DONE, sheet, write_accounts
from tests.assets.services.databases import environment_of

TASK: Final = """
version = "1.0"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 60.0

[environment]
docker_image = "assize/base:1"
memory_mb = 512
"""
AGENT: Final = f"""
[agent]
name = "scripted"
version = "1"
kind = "exec"

[model]
declared = [{{ role = "main", id = "{MODEL}", provider = "{NAME}" }}]

[run]
bundle = "bundle"
command = ["python3", "/opt/agent/agent.py"]
"""


@dataclass(frozen=True)
class Product:
    """The command that screens `script` once, and where it leaves everything."""

    folder: Path

    @property
    def home(self) -> Path:
        """The home, with `providers.toml` and the key's file in it."""
        return self.folder / "home"

    @classmethod
    def made(cls, folder: Path, script: str, base_url: str, key: str) -> Product:
        """Write every file that the command reads."""
        product = cls(folder)
        product.home.mkdir()
        write_accounts(product.home, base_url, key)
        (folder / "prices.json").write_text(sheet().text(), "utf-8")
        (folder / "bundle").mkdir()
        (folder / "bundle" / "agent.py").write_text(INSIDE + script, "utf-8")
        (folder / "agent.toml").write_text(AGENT, "utf-8")
        task = folder / "pack" / "one"
        (task / "tests").mkdir(parents=True)
        (task / "solution").mkdir()
        (task / "task.toml").write_text(TASK)
        (task / "instruction.md").write_text("Write done to /tmp/out.txt.\n")
        (task / "tests" / "test.sh").write_text(f"#!/bin/sh\n{WANT_DONE}\n")
        (task / "solution" / "solve.sh").write_text("#!/bin/sh\necho done > /tmp/out.txt\n")
        return product

    def command(self, *arguments: str) -> list[str]:
        """`assize` on this home, for `forks`."""
        return [ASSIZE, "--home", str(self.home), *arguments]

    def screen(self) -> Forked:
        """Start the screening; the same command resumes it. Both outputs go to files beside the home."""
        files = ("--agent", str(self.folder / "agent.toml"), "--prices", str(self.folder / "prices.json"))
        command = self.command("screen", str(self.folder / "pack"), *files, "--tries", "1", "--jsonl")
        kept = {name: text for name, text in os.environ.items() if not name.startswith("ASSIZE_")}
        environment = {**kept, **environment_of(self.home)}
        with (self.folder / "out").open("ab") as out, (self.folder / "err").open("ab") as err:
            return forks.start(command, env=environment, cwd=self.folder, stdout=out, stderr=err)

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the screenings told so far, of one kind."""
        lines = [json.loads(line) for line in (self.folder / "out").read_text("utf-8").splitlines()]
        return [one for one in lines if one["event"] == name]

    def errors(self) -> str:
        """What they wrote for the operator."""
        return (self.folder / "err").read_text("utf-8")

    def said(self, *arguments: str) -> Any:
        """The JSON that another command prints; it must end well."""
        done = forks.run(
            self.command(*arguments, "--json"),
            env={**os.environ, **environment_of(self.home)},
            cwd=self.folder,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def opened(self) -> Installation:
        """The installation of this home; the caller closes it."""
        return Installation.open(Home(self.home))

    def transcripts(self) -> list[Path]:
        """The transcripts of attempts that are not evidence yet."""
        return sorted(self.home.glob("relay/*/agent/transcript.jsonl"))


def relays_of(parent: int) -> list[int]:
    """Process ids of the relays that a worker started."""
    return [pid for pid in _children(parent) if b"workers.relay" in proc(pid, "cmdline")]


def _children(parent: int) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        fields = proc(int(folder.name), "stat").rpartition(b")")[2].split() if folder.name.isdigit() else []
        if len(fields) > 1 and fields[0] != b"Z" and int(fields[1]) == parent:
            yield int(folder.name)


def proc(pid: int, file: str) -> bytes:
    """A file of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def wait_until(met: Callable[[], object], pause: Callable[[float], object], limit_s: float = 90.0) -> None:
    """Wait for a fact that nothing announces, looking again after every `pause`."""
    for _ in range(int(limit_s / 0.02)):
        if met():
            return
        pause(0.02)
    raise AssertionError(f"not met after {limit_s} s")
