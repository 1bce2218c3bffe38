"""The server side of one lane: from a request on its socket to an answer."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict

from orchestrator.evidence.transcript import Kind
from workers.relay import headers
from workers.relay.admission import Admission, examine
from workers.relay.errors import RefusedError
from workers.relay.exchange import Exchange
from workers.relay.intake import ITEM_BYTES, Load
from workers.relay.lane import Lane
from workers.relay.outbox import Head, Outbox
from workers.relay.routes import LocalHello, LocalModels, Purpose, Route, family_hint, resolve
from workers.relay.upstream import Upstream
from workers.relay.wire.body import MOST_ITEMS, items_in
from workers.relay.wire.refusals import Refusal, model_entry, model_list

BODY_LIMIT_BYTES: Final = 64 << 20
COUNTS_PER_MINUTE: Final = 240
MOST_RELEASED: Final = 1_000
"""Calls that cost nothing, because the provider refused them: neither money nor steps would ever end them."""
HEADERS_LIMIT: Final = 32 << 10
_MINUTE_S: Final = 60.0
_HALF: Final = re.compile("[\ud800-\udfff]")
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([^\s\";]*)", re.IGNORECASE)


class Handler:
    """Answers the requests of one lane. An instance is the callable of an `aiohttp.web.Server`."""

    def __init__(self, lane: Lane, upstream: Upstream) -> None:
        self._lane = lane
        self._upstream = upstream
        self._counts: list[float] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request; every refusal is in the shape of the family that was asked."""
        given = [(name, value) for name, value in request.headers.items()]
        names = {name.lower() for name, _ in given}
        hint = family_hint(request.path, "anthropic-version" in names)
        try:
            answer = await self._route(request, given, names)
        except RefusedError as error:
            answer = self._lane.refusal_head(hint, error.code, error.message)
        if isinstance(answer, Outbox):
            return await _relayed(request, answer)
        return _whole(request, answer)

    async def _route(
        self, request: web.BaseRequest, given: list[tuple[str, str]], names: set[str]
    ) -> Head | Outbox:
        _require_plain(given)
        if "upgrade" in names and request.headers.get("upgrade", "").lower() == "websocket":
            raise RefusedError(Refusal.WEBSOCKET_NOT_SUPPORTED, "the relay speaks plain HTTP; no websocket")
        route = self._resolved(request, names)
        if isinstance(route, LocalHello):
            self._lane.tally.answered_locally += 1
            return Head(200, [("content-type", "application/json")], b"{}")
        self._authorise(request, given)
        if isinstance(route, LocalModels):
            return self._models(route)
        return await self._call(request, route, given)

    def _resolved(self, request: web.BaseRequest, names: set[str]) -> Route | LocalModels | LocalHello:
        try:
            return resolve(
                request.method,
                request.path,
                request.rel_url.raw_query_string,
                anthropic="anthropic-version" in names,
                google="x-goog-api-key" in names,
            )
        except RefusedError as error:
            self._lane.tally.refused(error.code, self._lane.now_us())
            raise

    def _authorise(self, request: web.BaseRequest, given: list[tuple[str, str]]) -> None:
        query = request.rel_url.raw_query_string
        queried = urllib.parse.parse_qs(query).get("key") if query else None
        if not self._lane.knows(headers.tokens_in(given, queried[0] if queried else None)):
            self._lane.tally.refused(Refusal.BAD_TOKEN, self._lane.now_us())
            raise RefusedError(Refusal.BAD_TOKEN, "this is not the token of this try")
        if self._lane.over:
            raise RefusedError(Refusal.ATTEMPT_OVER, "this try is over")

    def _models(self, route: LocalModels) -> Head:
        self._lane.tally.answered_locally += 1
        ids = [pin.model for pin in self._lane.order.pins]
        if route.name is None:
            body = model_list(route.shape, ids)
        elif route.name in ids:
            body = model_entry(route.shape, route.name)
        else:
            raise RefusedError(
                Refusal.MODEL_NOT_PINNED, f"model {route.name[:200]} is not part of this screening"
            )
        return Head(200, [("content-type", "application/json")], body)

    async def _call(
        self, request: web.BaseRequest, route: Route, given: list[tuple[str, str]]
    ) -> Head | Outbox:
        with self._lane.intake.load() as load:
            body = await _body(request, load)
            return self._begin(request.method, route, given, body, load)

    def _begin(
        self, method: str, route: Route, given: list[tuple[str, str]], body: bytes, load: Load
    ) -> Head | Outbox:
        lane = self._lane
        if lane.over:
            raise RefusedError(Refusal.ATTEMPT_OVER, "this try is over")
        if route.purpose is Purpose.GENERATE:
            lane.tally.called(lane.now_us())
        call = lane.next_call()
        shown = {
            "method": method,
            "path": route.rest,
            "family": route.family.value,
            "headers": headers.for_transcript(given),
        }
        try:
            # From here to the dispatch nothing waits: what was checked still holds when it is held.
            admitted = self._admitted(route, body, given)
        except RefusedError as error:
            lane.deny(call, error.code, error.message, shown, body)
            return lane.refusal_head(route.family, error.code, error.message)
        try:
            _write_ahead(lane, call, admitted, shown, body)
        except OSError as error:
            lane.tally.platform_fault = f"transcript:{type(error).__name__}"
            lane.changed()
            raise RefusedError(Refusal.PLATFORM_FAULT, "the relay cannot record this call") from None
        if admitted.held is not None:
            lane.budget.hold(call, admitted.held.nusd)
        exchange = Exchange(lane, call, admitted, given)
        task = asyncio.create_task(exchange.run(self._upstream))
        load.keep_for(task)
        lane.started(call, task)
        return exchange.outbox

    def _admitted(self, route: Route, body: bytes, given: list[tuple[str, str]]) -> Admission:
        lane = self._lane
        if lane.tally.platform_fault is not None:
            raise RefusedError(Refusal.PLATFORM_FAULT, "this try has met trouble of the platform and ends")
        lane.require_lease()
        if route.purpose is Purpose.COUNT:
            self._pace()
        elif lane.released >= MOST_RELEASED:
            raise RefusedError(
                Refusal.RATE_LIMITED, f"{MOST_RELEASED} calls of this try have failed at the provider"
            )
        return examine(route, body, headers.betas_in(given), lane.terms, lane.budget, datetime.now(UTC))

    def _pace(self) -> None:
        """Free calls have a rate of their own, or they would be a way to use a provider without end."""
        now = asyncio.get_running_loop().time()
        self._counts = [at for at in self._counts if now - at < _MINUTE_S]
        if len(self._counts) >= COUNTS_PER_MINUTE:
            raise RefusedError(Refusal.RATE_LIMITED, f"at most {COUNTS_PER_MINUTE} token counts a minute")
        self._counts.append(now)


def _write_ahead(lane: Lane, call: int, admitted: Admission, shown: Mapping[str, Any], body: bytes) -> None:
    lane.record(Kind.REQUEST, call, shown, lane.redactor.scrub(body), with_next=True)
    if admitted.changed:
        lane.record(Kind.SENT, call, {}, lane.redactor.scrub(admitted.sent), with_next=True)
    held = admitted.held
    lane.record(
        Kind.ADMIT,
        call,
        {
            "model": admitted.pin.model,
            "provider": admitted.pin.provider,
            "purpose": admitted.route.purpose.value,
            "holdNusd": 0 if held is None else held.nusd,
            "holdInputRate": None if held is None else held.input_rate,
            "inputBound": admitted.input_bound,
            "outputLimit": admitted.output_limit,
            "injected": dict(admitted.injected),
            "openCalls": len(lane.calls),
        },
    )


def _require_plain(given: list[tuple[str, str]]) -> None:
    """Bytes that are no text come as halves of surrogate pairs; long headers make providers hang up."""
    if any(not value.isprintable() and _HALF.search(value) for _, value in given):
        raise RefusedError(Refusal.INVALID_REQUEST, "a header is not UTF-8")
    if sum(len(name) + len(value) for name, value in given) > HEADERS_LIMIT:
        raise RefusedError(Refusal.INVALID_REQUEST, f"more than {HEADERS_LIMIT} characters of headers")


async def _body(request: web.BaseRequest, load: Load) -> bytes:
    for encoding in request.headers.getall("content-encoding", ()):
        if encoding.lower() not in ("", "identity"):
            raise RefusedError(
                Refusal.UNSUPPORTED_ENCODING, f"send the request unpacked, not as {encoding[:50]}"
            )
    for kind in request.headers.getall("content-type", ()):
        found = _CHARSET.search(kind)
        if found is not None and found[1].lower() not in ("utf-8", "utf8", "us-ascii"):
            raise RefusedError(Refusal.UNSUPPORTED_ENCODING, f"JSON is UTF-8, not {found[1][:50]}")
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        load.add(len(piece))
        if len(body) > BODY_LIMIT_BYTES:
            raise RefusedError(Refusal.BODY_TOO_LARGE, f"a request has at most {BODY_LIMIT_BYTES} bytes")
    load.add(min(items_in(body), MOST_ITEMS) * ITEM_BYTES)
    return bytes(body)


def _whole(request: web.BaseRequest, head: Head) -> web.Response:
    answer = web.Response(status=head.status, body=head.body or b"", headers=CIMultiDict(head.headers))
    if request.content.is_eof() is False:
        answer.force_close()  # what is left of the request is not read
    return answer


async def _relayed(request: web.BaseRequest, outbox: Outbox) -> web.StreamResponse:
    head = await outbox.head()
    if head is None:
        _cut(request)
        return web.StreamResponse()
    if head.body is not None:
        return _whole(request, head)
    answer = web.StreamResponse(status=head.status)
    for name, value in head.headers:
        answer.headers.add(name, value)
    answer.headers["x-accel-buffering"] = "no"
    answer.headers.setdefault("cache-control", "no-cache")
    await answer.prepare(request)
    while (data := await outbox.take()) is not None:
        await answer.write(data)
    if outbox.broken:
        _cut(request)
    else:
        await answer.write_eof()
    return answer


def _cut(request: web.BaseRequest) -> None:
    """The agent must see what the provider did: an answer without its proper end."""
    if request.transport is not None:
        request.transport.abort()
