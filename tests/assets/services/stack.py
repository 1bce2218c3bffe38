"""The stack of docker-compose.yml under a project name of its own, from the checkout that is tested."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from sandbox_images.stack.plugin import ensure_compose
from tests.assets.services.own import free_port

ROOT: Final = Path(__file__).parents[3]
ASSIZE: Final = [sys.executable, "-c", "from orchestrator.cli.main import main; main()"]
UP_WITHIN_S: Final = 1200
"""It may have to build images first; no verdict by the speed of a busy machine."""
CALL_WITHIN_S: Final = 600


class Stack:
    """`prepare`, `up`, calls, `down`; everything that it makes carries its project's name."""

    def __init__(self, folder: Path) -> None:
        self.project = f"assize-test-{secrets.token_hex(4)}"
        self.home = f"/srv/assize/{self.project}"
        self.label = hashlib.sha256(self.home.encode()).hexdigest()[:16]
        self.port = free_port()
        self.flower_port = free_port()
        self.secrets = folder / "secrets"
        self._env = folder / "env"
        self._home = folder / "home"
        self._compose: list[str] = []
        self._started: list[subprocess.Popen[str]] = []

    def prepare(self) -> None:
        """Compose itself, then what a person runs once: `assize compose init`."""
        self._home.mkdir()
        shared = Path(os.environ.get("ASSIZE_HOME", self._home))
        self._compose = ensure_compose(lambda line: None, shared / "cache" / "compose")
        if shared != self._home and (shared / "images.lock.json").is_file():
            shutil.copy(shared / "images.lock.json", self._home)  # images that are there are not built again
        faster = f"ASSIZE_HEALTH_INTERVAL=5s\nASSIZE_STOP_GRACE=30s\nASSIZE_METRICS_PORT={self.port}\n"
        self._env.write_text(f"{faster}ASSIZE_FLOWER_PORT={self.flower_port}\n")
        init = ["compose", "init", "--secrets", str(self.secrets), "--env-file", str(self._env)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASSIZE_HOME": str(self._home)}
        self._checked([*ASSIZE, *init], UP_WITHIN_S, environment)

    def up(self, *profiles: str) -> None:
        """Start everything; returns when all of it is healthy."""
        chosen = [word for one in profiles for word in ("--profile", one)]
        self.compose(*chosen, "up", "--wait", "--quiet-pull", within_s=UP_WITHIN_S)

    def set(self, name: str, value: str) -> None:
        """One more line of the settings; `up` begins again what it is for."""
        with self._env.open("a", encoding="utf-8") as lines:
            lines.write(f"{name}={value}\n")

    def down(self) -> None:
        """Stop and remove everything, volumes too."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.compose("--profile", "operator", "--profile", "flower", "down", "--volumes", "--timeout", "30")

    def compose(self, *arguments: str, within_s: int = CALL_WITHIN_S) -> str:
        """Standard output of a call that must succeed."""
        return self._checked(self._called(*arguments), within_s)

    def operator(self, *arguments: str) -> tuple[int, str]:
        """Exit code and all output of a command line of the operator."""
        process = self.start_operator(*arguments)
        said, _ = process.communicate(timeout=CALL_WITHIN_S)
        return process.returncode, said

    def start_operator(self, *arguments: str) -> subprocess.Popen[str]:
        """The same, while it runs; whatever it says is on its standard output."""
        process = subprocess.Popen(
            self._called("run", "--rm", "--no-TTY", "operator", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def _called(self, *arguments: str) -> list[str]:
        own = ["--project-name", self.project, "--env-file", str(self._env)]
        return [*self._compose, *own, "--file", str(ROOT / "docker-compose.yml"), *arguments]

    def inside(self, service: str, *arguments: str) -> tuple[int, str]:
        """Exit code and all output of a program in the container of a service."""
        done = subprocess.run(
            ["docker", "exec", self.container(service), *arguments],
            capture_output=True,
            text=True,
            timeout=CALL_WITHIN_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def container(self, service: str) -> str:
        """The name of the one container of a service."""
        return f"{self.project}-{service}-1"

    def inspect(self, service: str) -> dict[str, Any]:
        """The engine's description of it."""
        found = json.loads(self._checked(["docker", "inspect", self.container(service)], CALL_WITHIN_S))
        return dict(found[0])

    def health(self, service: str) -> str:
        """What the engine says of its health."""
        return str(self.inspect(service)["State"]["Health"]["Status"])

    def left(self) -> list[str]:
        """Containers, networks and volumes of the project, and sandboxes of its home."""
        found = []
        for label in (f"com.docker.compose.project={self.project}", f"assize.home={self.label}"):
            for kind in (["ps", "--all"], ["network", "ls"], ["volume", "ls"]):
                said = self._checked(
                    ["docker", *kind, "--quiet", "--filter", f"label={label}"], CALL_WITHIN_S
                )
                found += [f"{kind[0]} {one}" for one in said.split()]
        return found

    def _checked(self, command: list[str], within_s: int, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=within_s, check=False, env=environment
        )
        assert done.returncode == 0, (
            f"{command[-4:]} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done.stdout
