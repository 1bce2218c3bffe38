"""A second Docker engine beside the one of this host: data, sockets, containerd and processes of its own.

It lives in a network namespace of its own: an engine without a bridge removes the `docker0` that it finds,
which would be that of the first engine. The first engine is only asked for the base image.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from workers.errors import WorkerError
from workers.faultline.errors import FaultlineError
from workers.faultline.leftovers import in_engine
from workers.sandbox.client import Engine, translated

_ANSWER_S: Final = 60.0
_END_S: Final = 30.0
_LOOK_S: Final = 0.05
_ALONE: Final = ("unshare", "--net", "--")
_CONTAINERD: Final = """\
version = 2
root = "{root}/containerd"
state = "{root}/containerd-run"
disabled_plugins = ["io.containerd.grpc.v1.cri"]

[grpc]
address = "{root}/containerd.sock"
"""


class OwnEngine:
    """`with OwnEngine(engine, image) as own:` starts it with `image` of `engine` in it; needs root.

    `inside` is a command before its programs that brings them into other namespaces, and forks to do so.
    """

    def __init__(self, first: Engine, image: str, *, inside: Sequence[str] = ()) -> None:
        self._first, self._image, self._inside = first, image, tuple(inside)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        # Its sockets' names have to be short.
        self.root = Path(tempfile.mkdtemp(prefix="assize-engine-"))
        try:
            (self.root / "containerd.toml").write_text(_CONTAINERD.format(root=self.root))
            (self.root / "daemon.json").write_text("{}")
            self._start("containerd", "--config", str(self.root / "containerd.toml"))
            self._await((self.root / "containerd.sock").exists, "containerd")
            self._start_dockerd()
            with translated("load_image"):
                self.engine.api.load_image(self._saved())  # type: ignore[no-untyped-call]
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def host(self) -> str:
        """As DOCKER_HOST wants it."""
        return f"unix://{self.root / 'docker.sock'}"

    @property
    def data(self) -> Path:
        """Where it keeps images and containers."""
        return self.root / "data"

    def restart(self) -> None:
        """Kill the engine without a word and start it again on the same data; its containerd goes on."""
        self.kill()
        self.revive()

    def kill(self) -> None:
        """Kill the engine without a word; containers and containerd go on."""
        self.engine.close()
        dockerd = self._processes.pop("dockerd")
        self._signal(dockerd, signal.SIGKILL)
        dockerd.wait()
        # Its owner is dead: the next one would find the number in use by whoever has it by then.
        (self.root / "docker.pid").unlink(missing_ok=True)

    def revive(self) -> None:
        """Start it again after `kill`, on the same data."""
        self._start_dockerd()

    def leftovers(self, home: str) -> list[str]:
        """What a home left in it."""
        return in_engine(self.engine, home)

    def _start_dockerd(self) -> None:
        root = self.root
        self._start(
            "dockerd",
            f"--host={self.host}",
            f"--config-file={root / 'daemon.json'}",
            f"--data-root={self.data}",
            f"--exec-root={root / 'exec'}",
            f"--pidfile={root / 'docker.pid'}",
            f"--containerd={root / 'containerd.sock'}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-masq=false",
        )
        self._await(self._answers, "dockerd")

    def _answers(self) -> bool:
        """The plain knock comes first: the SDK leaks the socket of a call that fails."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as knock:
                knock.connect(self.host.removeprefix("unix://"))
            self.engine = Engine(self.host)
        except (OSError, WorkerError):
            return False
        return True

    def _start(self, program: str, *arguments: str) -> None:
        with (self.root / f"{program}.log").open("ab") as log:
            try:
                self._processes[program] = subprocess.Popen(
                    [*(self._inside or _ALONE), program, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                raise FaultlineError(f"{program}: {error.strerror}") from None

    def _await(self, ready: object, program: str) -> None:
        assert callable(ready)
        until = time.monotonic() + _ANSWER_S
        while not ready():
            if self._processes[program].poll() is not None or time.monotonic() > until:
                raise FaultlineError(f"the second engine's {program} did not start: {self._said(program)}")
            time.sleep(_LOOK_S)

    def _said(self, program: str) -> str:
        lines = (self.root / f"{program}.log").read_text("utf-8", "replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _saved(self) -> Iterable[bytes]:
        with translated("get_image"):
            saved: Iterable[bytes] = self._first.api.get_image(self._image)
        return saved

    def _end(self) -> None:
        with contextlib.suppress(AttributeError):  # it never answered
            self.engine.close()
        for program in ("dockerd", "containerd"):
            process = self._processes.pop(program, None)
            if process is None:
                continue
            self._signal(process, signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._signal(process, signal.SIGKILL)
                process.wait()
        self._end_shims()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.root}/"):
                subprocess.run(["umount", "-l", place], check=False, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        """To the program itself: what brought it into a namespace of processes is only its parent."""
        pid = process.pid
        with contextlib.suppress(OSError, IndexError):
            if self._inside:
                pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            os.kill(pid, number)

    def _end_shims(self) -> None:
        """Containers that outlived their engine; they are known by the address of our containerd."""
        address = str(self.root / "containerd.sock").encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if address in (folder / "cmdline").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
