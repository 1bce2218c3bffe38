"""What agents of these tests begin with: calls of the relay by the standard library alone.

Its text stands before the agent's own script; it runs in the sandbox only.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

HOST, PORT = "127.0.0.1", 8080
TOKEN = os.environ.get("ASSIZE_RELAY_TOKEN", "")
MODEL = os.environ.get("ASSIZE_MODEL", "")
CHAT = "/v1/chat/completions"


def body_of(text: str, **more: Any) -> bytes:
    """A small chat call."""
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": MODEL, "max_tokens": 10, "messages": messages, **more}).encode()


def head_of(token: str = TOKEN) -> dict[str, str]:
    """The headers that every client sends."""
    return {"authorization": f"Bearer {token}", "content-type": "application/json"}


def send(
    data: bytes | None,
    path: str = CHAT,
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
    token: str = TOKEN,
) -> tuple[int, bytes]:
    """Status and body of one request on a connection of its own; 0 for an answer that broke off."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    try:
        connection.request(method, path, data, {**head_of(token), **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (http.client.HTTPException, OSError) as error:
        return 0, str(error).encode()
    finally:
        connection.close()


def ask(text: str, **more: Any) -> int:
    """The status of a small chat call; 0 if its answer broke off."""
    return send(body_of(text, **more))[0]


def raw(data: bytes, limit_s: float = 1.0) -> bytes:
    """Everything that comes back for these very bytes, until the other side closes or is silent."""
    seen = b""
    with socket.create_connection((HOST, PORT), limit_s) as connection:
        try:
            connection.sendall(data)
            while more := connection.recv(65536):
                seen += more
        except OSError:
            pass
    return seen


def done() -> None:
    """The work that the hidden test asks for."""
    with open("/tmp/out.txt", "w") as file:
        file.write("done")


def show(value: Any) -> None:
    """One line of JSON for the test outside."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
