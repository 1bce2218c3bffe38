"""The scripted provider as a web application: routes, keys, and the faults of the script."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from workers.rehearsal import catalogue, chat, embeddings, gemini, messages, responses
from workers.rehearsal.asked import Asked
from workers.rehearsal.dialect import JSON, TROUBLE, Dialect, encoded
from workers.rehearsal.errors import CallError
from workers.rehearsal.play import FaultCounter, choose, reply_to
from workers.rehearsal.reply import Reply
from workers.rehearsal.script import Fault, Script

MAX_BODY_BYTES: Final = 64 << 20

Read = Callable[[Mapping[str, Any]], Asked]
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Provider:
    """The script and the key of one server; with `key` None every key is good."""

    script: Script
    key: str | None
    faults: FaultCounter = field(default_factory=FaultCounter)


@dataclass(frozen=True)
class Act:
    """One reply on its way out, and the trouble it meets there."""

    dialect: Dialect
    asked: Asked
    reply: Reply
    fault: Fault | None

    @property
    def cut_after_events(self) -> int | None:
        """Events sent before the connection breaks; None when it does not."""
        return None if self.fault is None else self.fault.cut_after_events

    @property
    def upset(self) -> bool:
        """Whether an error takes the place of the second half of the reply."""
        return self.fault is not None and self.fault.error_in_stream is not None

    @property
    def headers(self) -> dict[str, str]:
        """The request id, where the family has one."""
        name = self.dialect.request_id_header
        return {} if name is None else {name: self.reply.ident("req_", 24)}

    def frames(self) -> list[bytes]:
        """The events to send: all, those before a cut, or half of them and an error."""
        frames = self.dialect.frames(self.reply, self.asked)
        if self.upset:
            sent = len(frames) // 2
            return [*frames[:sent], *self.dialect.trouble(self.reply, sent)]
        return frames[: self.cut_after_events]


PROVIDER: Final = web.AppKey("provider", Provider)


def build_app(script: Script, key: str | None) -> web.Application:
    """The application that plays `script` to callers with `key`; None lets every key in."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app[PROVIDER] = Provider(script, key)
    app.add_routes(
        [
            web.post("/v1/chat/completions", partial(_generate, dialect=chat.CHAT, read=chat.read)),
            web.post("/v1/responses", partial(_generate, dialect=responses.RESPONSES, read=responses.read)),
            web.post("/v1/messages", partial(_generate, dialect=messages.MESSAGES, read=messages.read)),
            web.post(
                "/v1/messages/count_tokens",
                partial(_answer, dialect=messages.MESSAGES, answer=messages.count_tokens),
            ),
            web.post("/v1/embeddings", partial(_answer, dialect=chat.CHAT, answer=embeddings.answer)),
            web.get("/{version:v1|v1beta}/models", _models),
            web.get("/{version:v1|v1beta}/models/{model:[^:]+}", _models),
            web.post("/{version:v1|v1beta}/models/{model:[^:]+}:{verb}", _gemini),
            web.route("*", "/{path:.*}", _unknown),
        ]
    )
    return app


async def _generate(request: web.Request, *, dialect: Dialect, read: Read) -> web.StreamResponse:
    """Answer one generation call by the script."""
    provider = request.app[PROVIDER]
    if not _admitted(request, dialect):
        return _refused(dialect, 401, "Incorrect API key provided.")
    try:
        asked = await _understood(request, read)
        move = choose(provider.script, asked)
    except CallError as error:
        return _refused(dialect, error.status, error.message)
    fault = provider.faults.due(move, asked)
    if fault is not None and fault.status is not None:
        return _refused(dialect, fault.status, "Scripted fault.", fault.retry_after_s)
    if fault is not None and fault.delay_ms is not None:
        await asyncio.sleep(fault.delay_ms / 1000)
    act = Act(dialect, asked, reply_to(move, asked, int(time.time())), fault)
    return await (_streamed(request, act) if asked.stream else _whole(request, act))


async def _answer(request: web.Request, *, dialect: Dialect, answer: Answer) -> web.StreamResponse:
    """Answer a call that no script is needed for."""
    if not _admitted(request, dialect):
        return _refused(dialect, 401, "Incorrect API key provided.")
    try:
        return _json(await _understood(request, answer))
    except CallError as error:
        return _refused(dialect, error.status, error.message)


async def _gemini(request: web.Request) -> web.StreamResponse:
    model, verb = request.match_info["model"], request.match_info["verb"]
    if verb == "countTokens":
        answer = partial(gemini.count_tokens, model=model)
        return await _answer(request, dialect=gemini.GEMINI, answer=answer)
    if verb not in ("generateContent", "streamGenerateContent"):
        return _refused(gemini.GEMINI, 404, f"there is no method {verb}")
    stream = verb == "streamGenerateContent"
    dialect = gemini.GEMINI if request.query.get("alt") == "sse" else gemini.GEMINI_ARRAY
    return await _generate(request, dialect=dialect, read=partial(gemini.read, model=model, stream=stream))


async def _models(request: web.Request) -> web.StreamResponse:
    """The models, in the shape of the family that the request's headers or path belong to."""
    dialect = chat.CHAT
    if "anthropic-version" in request.headers:
        dialect = messages.MESSAGES
    elif "x-goog-api-key" in request.headers or request.match_info["version"] == "v1beta":
        dialect = gemini.GEMINI
    if not _admitted(request, dialect):
        return _refused(dialect, 401, "Incorrect API key provided.")
    models = request.app[PROVIDER].script.models
    wanted = request.match_info.get("model")
    if wanted is None:
        return _json(catalogue.listing(dialect, models))
    if wanted not in models:
        return _refused(dialect, 404, f"the script lists no model {wanted}")
    return _json(catalogue.entry(dialect, wanted))


async def _unknown(request: web.Request) -> web.StreamResponse:
    family = messages.MESSAGES if request.path.startswith("/v1/messages") else chat.CHAT
    return _refused(family, 404, f"Invalid URL ({request.method} {request.path})")


def _admitted(request: web.Request, dialect: Dialect) -> bool:
    """Whether the request carries the key in one of the family's places."""
    expected = request.app[PROVIDER].key
    if expected is None:
        return True
    given = [request.headers.get(name, "").removeprefix("Bearer ") for name in dialect.key_headers]
    if dialect.key_parameter is not None:
        given.append(request.query.get(dialect.key_parameter, ""))
    return any(hmac.compare_digest(key.encode("utf-8", "replace"), expected.encode()) for key in given)


async def _understood(request: web.Request, read: Callable[[Mapping[str, Any]], _T]) -> _T:
    """The request's JSON object as `read` understands it; `CallError` if it is none."""
    try:
        body = json.loads(await request.read())
        if isinstance(body, dict):
            return read(body)
    except (ValueError, RecursionError):
        raise CallError("the body is not valid JSON") from None
    raise CallError("the body is not a JSON object")


def _json(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(body=encoded(body), status=status, headers=headers, content_type=JSON)


def _refused(
    dialect: Dialect, status: int, message: str, retry_after_s: int | None = None
) -> web.StreamResponse:
    refused = dialect.refused(status, message, retry_after_s)
    return _json(refused.body, status, refused.headers)


async def _streamed(request: web.Request, act: Act) -> web.StreamResponse:
    kind = {"content-type": act.dialect.stream_type, "cache-control": "no-cache"}
    response = web.StreamResponse(headers={**act.headers, **kind})
    await response.prepare(request)
    for frame in act.frames():
        await response.write(frame)
    if act.cut_after_events is not None:
        _cut(request)
    return response


async def _whole(request: web.Request, act: Act) -> web.StreamResponse:
    """The JSON answer; a cut sends half of it, an error in the stream is the whole body of a 200."""
    if act.upset:
        return _json(act.dialect.refused(500, TROUBLE, None).body, headers=act.headers)
    body = encoded(act.dialect.whole(act.reply))
    if act.cut_after_events is None:
        return web.Response(body=body, headers=act.headers, content_type=JSON)
    response = web.StreamResponse(headers={**act.headers, "content-type": JSON})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    _cut(request)
    return response


def _cut(request: web.Request) -> None:
    """Close the connection behind what was sent; the end of the body never arrives."""
    if request.transport is not None:
        request.transport.close()
