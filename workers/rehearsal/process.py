"""The scripted provider as a child process, for callers that are not asynchronous."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from workers.own_python import module_command, module_environment
from workers.rehearsal.errors import NotReadyError
from workers.rehearsal.place import Address

READY_S: Final = 30.0
END_S: Final = 10.0


class RehearsalProcess:
    """`with RehearsalProcess(script) as provider:` serves the script until the block ends.

    `script` is a file, or a bundled script's name. With `socket_path` the provider listens there, else on
    `port` of loopback (0: any). `key` is what callers need, None for no check; it reaches the child
    through a pipe. The child also ends with this process. `NotReadyError` when it does not come up.
    """

    def __init__(
        self, script: Path | str, *, socket_path: Path | None = None, port: int = 0, key: str | None = None
    ) -> None:
        place = ["--port", str(port)] if socket_path is None else ["--socket", str(socket_path)]
        self._arguments = ["--script", str(script), *place, "--with-parent"]
        self._key = key
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._address: Address | None = None

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path; over a socket the host is a placeholder."""
        return self.address.base_url

    @property
    def address(self) -> Address:
        """Where the provider answers; `NotReadyError` outside the block."""
        if self._address is None:
            raise NotReadyError("the scripted provider is not running")
        return self._address

    @property
    def pid(self) -> int:
        """The child's process id; `NotReadyError` outside the block."""
        if self._child is None:
            raise NotReadyError("the scripted provider is not running")
        return self._child.pid

    def __enter__(self) -> Self:
        # A temporary file cannot fill up like a pipe that nobody reads while the provider runs.
        self._errors = tempfile.TemporaryFile()
        try:
            self._child = self._started(self._errors)
            self._address = self._announced(self._child)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _started(self, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        command = module_command("workers.rehearsal", *self._arguments)
        if self._key is None:
            return _popen(command, errors, ())
        reading, writing = os.pipe()
        try:
            os.write(writing, self._key.encode())
            os.close(writing)
            return _popen([*command, "--key-file", f"/dev/fd/{reading}"], errors, (reading,))
        finally:
            os.close(reading)

    def _announced(self, child: subprocess.Popen[bytes]) -> Address:
        """The address in the child's one line of output."""
        assert child.stdout is not None
        line, deadline = b"", time.monotonic() + READY_S
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not ready.select(max(0.0, deadline - time.monotonic())):
                    raise NotReadyError(f"the scripted provider named no address within {READY_S:.0f} s")
                part = os.read(child.stdout.fileno(), 4096)
                if not part:
                    raise NotReadyError(f"the scripted provider did not start: {self._complaint()}")
                line += part
        return Address(**json.loads(line))

    def _complaint(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        return self._errors.read(8192).decode("utf-8", "replace").strip() or "it said nothing"

    def _end(self) -> None:
        """Close the child's standard input, by which it ends; kill it if it does not."""
        child, self._child, self._address = self._child, None, None
        if child is not None:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.close()
            try:
                child.wait(END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            child.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _popen(command: list[str], errors: IO[bytes], inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=module_environment(os.environ),
        pass_fds=inherited,
    )
