"""A second machine on this one: its own network, processes, mounts and name, and a cable to it.

Everything in it is a child of one process; when that dies, at the latest with the tests, the kernel kills
the rest, unmounts what they had mounted and removes the cable. What the machines share is the file system,
as hosts with a shared folder do. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.assets.services.own import ServiceError, as_user, wait_until

_INIT: Final = """\
[ ! -e /etc/machine-id ] || mount --bind "$1/machine-id" /etc/machine-id
hostname "$2"
ip link set lo up
touch "$1/up"
exec sleep infinity
"""


class Machine:
    """`with Machine("lab-2") as machine:`; `address` is this machine's end of the cable."""

    def __init__(self, name: str) -> None:
        self.name = name
        number = os.getpid()
        net = f"10.213.{number % 254 + 1}"
        self.address, self.other = f"{net}.1", f"{net}.2"
        self._cable, self._far = f"asz{number}a", f"asz{number}b"
        self._inner = 0

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="assize-machine-")
        root = Path(self._folder.name)
        (root / "machine-id").write_text(os.urandom(16).hex() + "\n")
        inner = [
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--mount",
            "--mount-proc",
            "--uts",
        ]
        command = as_user(
            [*inner, "sh", "-ec", _INIT, "sh", str(root), self.name], None, on_parent_death="KILL"
        )
        with (root / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, start_new_session=True)
        try:
            wait_until((root / "up").exists, f"machine {self.name} is up")
            self._inner = _only_child(self._process.pid)
            self._lay_cable()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def inside(self) -> list[str]:
        """A command before another one, which then runs in the machine."""
        return ["nsenter", f"--target={self._inner}", "--net", "--pid", "--mount", "--uts", "--"]

    def start(self, command: list[str], environment: Mapping[str, str], log: Path) -> Inmate:
        """Start a program in it."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*self.inside, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return Inmate(process)

    def cut(self) -> None:
        """Pull the cable: connections stay open and nothing goes through."""
        _run("ip", "link", "set", self._cable, "down")

    def join(self) -> None:
        """Plug it in again."""
        _run("ip", "link", "set", self._cable, "up")

    def _lay_cable(self) -> None:
        _run("ip", "link", "add", self._cable, "type", "veth", "peer", "name", self._far)
        _run("ip", "link", "set", self._far, "netns", str(self._inner))
        _run("ip", "address", "add", f"{self.address}/24", "dev", self._cable)
        _run("ip", "link", "set", self._cable, "up")
        _run(*self.inside, "ip", "address", "add", f"{self.other}/24", "dev", self._far)
        _run(*self.inside, "ip", "link", "set", self._far, "up")

    def power_off(self) -> None:
        """Every process in it is dead; again changes nothing."""
        subprocess.run(["ip", "link", "delete", self._cable], check=False, capture_output=True)
        if self._process.poll() is None:
            os.kill(self._inner or self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _end(self) -> None:
        self.power_off()
        self._folder.cleanup()


class Inmate:
    """A program in a machine, known here by the command that brought it there."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self, within_s: float) -> int:
        """SIGTERM to the program itself; its exit code."""
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(_only_child(self._process.pid), signal.SIGTERM)
        return self._process.wait(within_s)


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceError(f"{' '.join(command)}: {done.stderr.strip()}")
