"""A scripted provider in this process, and replies to encode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import ClientPayloadError, ClientSession
from aiohttp.test_utils import TestServer

from workers.rehearsal.asked import Asked, Speaker, Tool, asked
from workers.rehearsal.reply import Finish, Reply, ToolCall
from workers.rehearsal.script import Usage, parse_script
from workers.rehearsal.server import build_app

KEY = "key-of-the-test"
KEY_HEADERS = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-goog-api-key": KEY}


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; `complete` is False when the connection broke before the body's end."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The JSON data of every server-sent event, `[DONE]` as text."""
        text = self.body.decode().replace("\r\n", "\n")
        datas = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
        return [data if data == "[DONE]" else json.loads(data) for data in datas]


class Provider:
    """One running application; calls are made one after the other."""

    def __init__(self, script: str, key: str | None) -> None:
        self._runner = asyncio.Runner()
        self._server = TestServer(build_app(parse_script(script, "script"), key))
        self._runner.run(self._server.start_server())

    def close(self) -> None:
        self._runner.run(self._server.close())
        self._runner.close()

    def call(
        self, path: str, body: object = None, headers: dict[str, str] | None = None, *, method: str = ""
    ) -> Answer:
        """POST `body` (bytes as they are, else as JSON), or GET without one; with the right keys."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        chosen = method or ("GET" if data is None else "POST")
        return self._runner.run(self._call(chosen, path, data, KEY_HEADERS if headers is None else headers))

    async def _call(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        parts, complete = [], True
        async with (
            ClientSession() as session,
            session.request(method, self._server.make_url(path), data=data, headers=headers) as answer,
        ):
            try:
                async for part in answer.content.iter_any():
                    parts.append(part)
            except ClientPayloadError:
                complete = False
            found = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, found, b"".join(parts), complete)


@pytest.fixture
def provide() -> Iterator[Callable[..., Provider]]:
    """`provide(turns)` runs a script of these TOML lines (the format line is added)."""
    started: list[Provider] = []

    def start(script: str, key: str | None = KEY) -> Provider:
        started.append(Provider(f'format = "assize.rehearsal/1"\n{script}', key))
        return started[-1]

    yield start
    for provider in started:
        provider.close()


USAGE = Usage(input=100, cached=40, output=20, reasoning=5)


@pytest.fixture(scope="session")
def make_reply() -> Callable[..., Reply]:
    """A reply with a text and a call, usage 100 (40 cached) and 20 (5 reasoning), unless changed."""

    def make(**changes: Any) -> Reply:
        values: dict[str, Any] = {
            "seed": "5eed",
            "model": "model-x",
            "created_s": 1_800_000_000,
            "text": "I will write the file: größer.",
            "call": ToolCall("bash", {"command": "echo hello > hello.txt"}),
            "finish": Finish.TOOL,
            "usage": USAGE,
        }
        return Reply(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def make_asked() -> Callable[..., Asked]:
    """A request whose history is a list of (speaker, text); by default one user message and a shell."""

    def make(*items: tuple[Speaker, str], **changes: Any) -> Asked:
        history = items or ((Speaker.USER, "do it"),)
        values: dict[str, Any] = {"tools": (Tool("bash"),), "output_limit": None, "stream": False}
        return asked("model-x", history, [list(map(list, history))], **{**values, **changes})

    return make
