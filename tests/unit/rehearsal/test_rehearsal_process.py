"""The scripted provider as a process: one line when ready, loopback only, gone with its parent."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workers.rehearsal.errors import NotReadyError, PlaceRefusedError
from workers.rehearsal.place import checked_host
from workers.rehearsal.process import RehearsalProcess

COMMAND = [sys.executable, "-m", "workers.rehearsal"]
MESSAGES = [{"role": "user", "content": "do it"}]


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def _chat(connection: http.client.HTTPConnection, key: str = "") -> tuple[int, Any]:
    body = json.dumps({"model": "m", "messages": MESSAGES})
    connection.request("POST", "/v1/chat/completions", body, {"authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def _at(base_url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(base_url.removeprefix("http://"))


def test_a_child_serves_while_the_block_lasts() -> None:
    """By its bundled name, on a free port of loopback, with the key; then it is gone."""
    provider = RehearsalProcess("hello", key="k")
    with provider:
        assert provider.base_url.startswith("http://127.0.0.1:")
        assert _chat(_at(provider.base_url), "k")[0] == 200
        assert _chat(_at(provider.base_url), "wrong")[0] == 401
        assert b"\0k\0" not in Path(f"/proc/{provider.pid}/cmdline").read_bytes()
        address, pid = provider.base_url, provider.pid
    with pytest.raises(OSError):
        _chat(_at(address), "k")
    assert not Path(f"/proc/{pid}").exists()
    for name in ("base_url", "pid"):
        with pytest.raises(NotReadyError, match="not running"):
            getattr(provider, name)


def test_a_socket_is_only_the_owner_s(tmp_path: Path) -> None:
    """No port, a socket that nobody else may open, and it may be left over from a process that was killed."""
    path = tmp_path / "p.sock"
    for _ in range(2):
        with RehearsalProcess("hello", socket_path=path) as provider:
            assert provider.address.socket_path == str(path)
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
            assert _chat(_SocketConnection(str(path)))[0] == 200
            os.kill(provider.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda folder: {"script": folder / "no.toml"}, "script no.toml: .* cannot be read"),
        (lambda folder: {"script": "hello", "socket_path": folder / "no" / "s"}, "cannot listen at .*no/s"),
        (lambda folder: {"script": "hello", "port": 70_000}, "cannot listen at port 70000 of 127.0.0.1"),
        (lambda folder: {"script": "hello", "key": ""}, "key file .* is empty"),
    ],
)
def test_a_child_that_does_not_come_up_says_why(
    tmp_path: Path, arguments: Callable[[Path], dict[str, Any]], sentence: str
) -> None:
    """One sentence of the child is in the error, no traceback."""
    with pytest.raises(NotReadyError, match=sentence) as caught, RehearsalProcess(**arguments(tmp_path)):
        pass
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "localhost", "example.org", ""])
def test_only_loopback_addresses_are_served(host: str) -> None:
    """Names are refused too: what they mean is not ours to say."""
    with pytest.raises(PlaceRefusedError, match="no loopback address"):
        checked_host(host)


def test_loopback_addresses_are_taken() -> None:
    """Of both families."""
    assert [checked_host(host) for host in ("127.0.0.1", "127.8.0.1", "::1")] == [
        "127.0.0.1",
        "127.8.0.1",
        "::1",
    ]


def test_the_command_refuses_another_host() -> None:
    """Exit status 2 and one sentence."""
    arguments = ["--script", "hello", "--port", "0", "--host", "0.0.0.0"]
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "host '0.0.0.0' is no loopback address, and nothing else is served\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """Exit status 0; a key file is read; without `--with-parent` standard input does not matter."""
    key = tmp_path / "key"
    key.write_text("k\n")
    command = [*COMMAND, "--script", "coding-core", "--port", "0", "--key-file", str(key)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        assert _chat(_at(ready["base_url"]), "k")[0] == 200
        child.send_signal(number)
        assert child.wait(30) == 0


def test_the_command_ends_with_its_parent() -> None:
    """The end of standard input is the end of the parent."""
    command = [*COMMAND, "--script", "hello", "--port", "0", "--with-parent"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        assert json.loads(child.stdout.readline())["socket_path"] is None
        child.stdin.close()
        assert child.wait(30) == 0
