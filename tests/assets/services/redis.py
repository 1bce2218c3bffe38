"""A real Redis server of the tests' own: own folder, a Unix socket and a loopback port."""

from __future__ import annotations

import signal
from typing import Final

import redis

from tests.assets.services.own import OwnProcess, as_user, find_program, free_port, own_folder

_ANSWER_WITHIN_S: Final = 5.0


class RedisServer:
    """One server; `start`, use `url`, at last `close`.

    `appendonly` keeps what it holds over `stop` and `kill` (fsync every second, as distribution.md section 3
    asks of an operator); without it a restart begins empty. `address` is where it listens, beside its socket;
    with a `password` the folder holds it, not the command line.
    """

    def __init__(
        self,
        *,
        appendonly: bool = False,
        memory_bytes: int | None = None,
        address: str = "127.0.0.1",
        password: str = "",
    ) -> None:
        self.folder = own_folder("redis")
        self.port = free_port()
        self.socket = self.folder / "redis.sock"
        self._password = password
        self.url = f"redis://{f':{password}@' if password else ''}{address}:{self.port}/0"
        settings = self.folder / "redis.conf"
        settings.write_text(f"requirepass {password}\n" if password else "")
        command = [find_program("redis-server", package="redis-server"), str(settings)]
        command += ["--bind", address, "--port", str(self.port), "--unixsocket", str(self.socket)]
        command += ["--dir", str(self.folder), "--daemonize", "no", "--save", "", "--loglevel", "warning"]
        command += ["--appendonly", "yes" if appendonly else "no", "--appendfsync", "everysec"]
        command += ["--maxmemory-policy", "noeviction"]
        if memory_bytes is not None:
            command += ["--maxmemory", str(memory_bytes)]
        self.process = OwnProcess(as_user(command, None, on_parent_death="KILL"), self.folder, self._answers)

    def _answers(self) -> bool:
        client = self.client()
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def client(self) -> redis.Redis:
        """A client that gives up after five seconds; the caller closes it."""
        return redis.Redis(
            unix_socket_path=str(self.socket),
            password=self._password or None,
            socket_timeout=_ANSWER_WITHIN_S,
            decode_responses=True,
        )

    def start(self) -> None:
        """Start (again) and return when it answers."""
        self.process.start()

    def stop(self) -> None:
        """SIGTERM: an append-only file is written to its end."""
        self.process.stop(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def restart(self) -> None:
        """Stop and start; every connection is cut."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self.process.freeze()

    def thaw(self) -> None:
        """After `freeze`."""
        self.process.thaw()

    def wipe(self) -> None:
        """Forget everything, as after the loss of a server without persistence."""
        client = self.client()
        try:
            client.flushall()
        finally:
            client.close()

    def drop_connections(self) -> int:
        """Cut every connection but the caller's own; returns how many."""
        client = self.client()
        try:
            return int(client.client_kill_filter(_type="normal", skipme=True))
        finally:
            client.close()

    def close(self) -> None:
        """Stop the server and remove everything it had."""
        self.process.remove()
