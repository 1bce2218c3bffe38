"""One admitted call: send, read the answer to its end whatever the client does, meter, settle.

It runs as a task of its own, so that a client that hangs up never loses usage.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import aiohttp

from orchestrator.evidence.transcript import Kind
from workers.relay import headers
from workers.relay.admission import Admission
from workers.relay.decode import Unpacker, UnpackError
from workers.relay.errors import RefusedError
from workers.relay.lane import Lane
from workers.relay.outbox import Head, Outbox
from workers.relay.outcome import judge
from workers.relay.routes import Purpose
from workers.relay.settlement import settlement
from workers.relay.upstream import UnreachableError, Upstream
from workers.relay.wire.errors import WireError
from workers.relay.wire.family import Family
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.sse import Event, SseParser
from workers.relay.wire.usage import Completeness, JsonMeter, Reading, SseMeter, hidden, meter_for

_ERROR_LIMIT_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 256 << 10
_CUT: Final = Reading(Completeness.UNKNOWN, None, (), None, None, False, False)
"""A call that we gave up ourselves: nobody knows what it cost, and it was not the provider."""
_NO_ANSWER: Final = replace(_CUT, provider_fault=True)


class Exchange:
    """The state of one call. `outbox` is what its client gets."""

    def __init__(self, lane: Lane, call: int, admission: Admission, client: list[tuple[str, str]]) -> None:
        self._lane = lane
        self._call = call
        self._admitted = admission
        self._client = client
        self._batch: list[bytes] = []
        self._batched_bytes = 0
        self._dispatched = False
        self.outbox = Outbox()

    async def run(self, upstream: Upstream) -> None:
        """Bring the call to its end: whatever happens, its hold is settled or released, the client told."""
        try:
            async with upstream.gates[self._admitted.provider.name].place():
                await self._run(upstream)
        except asyncio.CancelledError:
            if self._dispatched:
                self._settle(_CUT, "cut")
            else:
                self._release(0, "agent", "cut")
            self.outbox.end(broken=True)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, a call must not stay open for ever
            # Trouble of our own (a full disk, a limit): once it was sent, the provider may have been paid.
            self._lane.tally.platform_fault = f"relay:{type(error).__name__}"
            if self._dispatched:
                self._settle(_CUT, "relay")
            else:
                self._release(0, "platform", "relay")
            if self.outbox.begun:
                self.outbox.end(broken=True)
            self._refuse(Refusal.PLATFORM_FAULT, "the relay cannot go on with this call")
        finally:
            self.outbox.end(broken=not self._settled_cleanly())
            self._lane.finished(self._call)

    def _settled_cleanly(self) -> bool:
        return self.outbox.begun and not self.outbox.broken

    async def _run(self, upstream: Upstream) -> None:
        admitted = self._admitted
        try:
            self._lane.require_lease()  # once more: it may have waited long for a place at the provider
        except RefusedError as refused:
            self._release(0, "platform", "lease")
            self._refuse(refused.code, refused.message)
            return
        sent = headers.to_provider(self._client, admitted.route.family, admitted.provider.key)
        self._dispatched = True
        try:
            url = admitted.provider.url(admitted.route.family, admitted.route.rest)
            answer = await upstream.send(admitted.provider, url, sent, admitted.sent)
        except UnreachableError as error:
            self._unreachable(error)
            return
        try:
            await self._answered(answer)
        finally:
            answer.close() if not answer.content.at_eof() else answer.release()

    def _unreachable(self, error: UnreachableError) -> None:
        if error.reached:
            self._settle(_NO_ANSWER, str(error))
        else:
            self._release(0, "provider", str(error))
        self._refuse(Refusal.PROVIDER_UNREACHABLE, "the provider did not answer")

    async def _answered(self, answer: aiohttp.ClientResponse) -> None:
        scrub = self._lane.redactor.scrub_text
        given = [(name, scrub(value)) for name, value in answer.headers.items()]
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        streams = kind == "text/event-stream"
        told = {"status": answer.status, "headers": headers.for_transcript(given)}
        self._lane.record(Kind.HEAD, self._call, told, with_next=not streams)
        unpacker = Unpacker(answer.headers.get("content-encoding", ""))
        passed = headers.to_client(given, decoded=unpacker.active)
        if not 200 <= answer.status < 300:
            await self._failed(answer, unpacker, passed)
            return
        if streams:
            await self._events(answer, unpacker, passed)
        else:
            await self._document(answer, unpacker, passed)

    def _served(self) -> bool:
        """Whether a refusal must be about the request: the model has answered, or is none that embeds."""
        admitted = self._admitted
        writes = admitted.route.family is Family.OPENAI_EMBEDDINGS and admitted.price.standard.output
        return bool(writes) or admitted.pin.model in self._lane.served

    async def _failed(
        self, answer: aiohttp.ClientResponse, unpacker: Unpacker, passed: list[tuple[str, str]]
    ) -> None:
        body = bytearray()
        try:
            async for piece in answer.content.iter_any():
                body += unpacker.feed(piece)
                if len(body) > _ERROR_LIMIT_BYTES:
                    break
        except (aiohttp.ClientError, TimeoutError, UnpackError):
            pass  # the status has said what matters; what was read is shown
        raw = self._lane.redactor.scrub(bytes(body[:_ERROR_LIMIT_BYTES]))
        failure = judge(answer.status, raw, served=self._served())
        self._keep(raw)
        self._flush(last=True)
        self._release(answer.status, failure.fault or "agent", "")
        # A free call decides nothing: a count may name things that are not ours to see.
        if failure.fault == "platform" and self._admitted.held is not None:
            self._lane.tally.platform_fault = f"provider account: status {answer.status}"
        if failure.shown:
            self.outbox.begin(Head(answer.status, passed, raw))
        elif failure.fault == "platform":
            self._refuse(Refusal.PLATFORM_FAULT, "the provider does not serve this house at the moment")
        else:
            self._refuse(Refusal.PROVIDER_UNREACHABLE, f"the provider answered with status {answer.status}")

    async def _document(
        self, answer: aiohttp.ClientResponse, unpacker: Unpacker, passed: list[tuple[str, str]]
    ) -> None:
        admitted = self._admitted
        meter = self._meter(sse=False)
        assert isinstance(meter, JsonMeter)
        streams = admitted.route.sse is False and "streamGenerateContent" in admitted.route.rest
        if streams:
            self.outbox.begin(Head(answer.status, passed, None))
        pieces: list[bytes] = []
        passing = self._lane.redactor.stream()
        clean = True
        try:
            async for piece in answer.content.iter_any():
                data = unpacker.feed(piece)
                meter.feed(data)
                self._keep(data)
                if streams:
                    self.outbox.put(passing.feed(data))
                else:
                    pieces.append(data)
        except (aiohttp.ClientError, TimeoutError, OSError, UnpackError):
            clean = False
        self._flush(last=True)
        self._end(meter.finish(clean=clean), readable=not unpacker.unreadable)
        if streams:
            self.outbox.put(passing.rest())
            self.outbox.end(broken=not clean)
        elif clean:
            self.outbox.begin(Head(answer.status, passed, self._lane.redactor.scrub(b"".join(pieces))))
        else:
            self._refuse(Refusal.PROVIDER_UNREACHABLE, "the provider's answer broke off")

    async def _events(
        self, answer: aiohttp.ClientResponse, unpacker: Unpacker, passed: list[tuple[str, str]]
    ) -> None:
        meter = self._meter(sse=True)
        assert isinstance(meter, SseMeter)
        parser = SseParser()
        self.outbox.begin(Head(answer.status, passed, None))
        clean = True
        try:
            async for piece in answer.content.iter_any():
                data = unpacker.feed(piece)
                self._keep(data)
                events = parser.feed(data)
                meter.events(events)
                self.outbox.put(self._shown(events))
        except (aiohttp.ClientError, TimeoutError, OSError, UnpackError, WireError):
            clean = False
        self._flush(last=True)
        self.outbox.put(self._lane.redactor.scrub(parser.tail()))
        reading = meter.finish(clean=clean)
        self._end(reading, readable=not unpacker.unreadable)
        self.outbox.end(broken=not clean)

    def _shown(self, events: list[Event]) -> bytes:
        if self._admitted.hides_usage:
            events = [event for event in events if not hidden(event)]
        raw = b"".join(event.raw for event in events)
        return self._lane.redactor.scrub(raw) if self._lane.redactor.touches(raw) else raw

    def _meter(self, *, sse: bool) -> JsonMeter | SseMeter:
        admitted = self._admitted
        return meter_for(
            admitted.route.family,
            sse=sse,
            provider=admitted.pin.provider,
            cache_ttls=admitted.facts.cache_ttls,
        )

    def _keep(self, data: bytes) -> None:
        self._batch.append(data)
        self._batched_bytes += len(data)
        if self._batched_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self, *, last: bool = False) -> None:
        """Record what came; an end that may be the beginning of a key stays for the next batch."""
        raw = b"".join(self._batch)
        raw, kept = (self._lane.redactor.scrub(raw), b"") if last else self._lane.redactor.cut(raw)
        if raw:
            self._lane.record(Kind.BODY, self._call, {}, raw, with_next=last)
        self._batch = [kept] if kept else []
        self._batched_bytes = len(kept)

    def _end(self, reading: Reading, *, readable: bool) -> None:
        if self._admitted.route.purpose is Purpose.COUNT:
            self._lane.record(Kind.RELEASE, self._call, {"status": 200, "fault": None})
            return
        if not readable:
            reading = Reading(Completeness.UNKNOWN, None, ("encoding",), None, None, True, reading.ended)
        self._settle(reading, "")

    def _settle(self, reading: Reading, problem: str) -> None:
        """Book the call once; a call that is settled or released already stays as it is."""
        lane, admitted = self._lane, self._admitted
        if admitted.held is None or not lane.budget.is_open(self._call):
            return
        reading = self._without_keys(reading)
        found = settlement(reading, admitted)
        exact = found.completeness is Completeness.EXACT
        booked = lane.budget.settle(self._call, found.completeness, found.list_nusd)
        if exact and reading.buckets is not None:
            lane.served.add(admitted.pin.model)
            lane.history.note(
                admitted.route.family,
                admitted.pin.model,
                admitted.body,
                admitted.facts,
                input_tokens=reading.buckets.input_total,
                sent_bytes=len(admitted.sent),
            )
        lane.tally.settled(found.completeness, reading.buckets, found.list_nusd, found.standard_nusd)
        if problem != "cut":  # which says nothing about the provider, nor takes back what it did before
            lane.tally.ended("provider" if reading.provider_fault else "ok")
        lane.note(found.flags, reading.served_model, admitted.pin.model)
        lane.record(Kind.SETTLE, self._call, found.as_data(booked, problem))

    def _without_keys(self, reading: Reading) -> Reading:
        """The provider's own words end in evidence too."""
        scrub = self._lane.redactor.scrub_text
        flags = tuple(scrub(flag) for flag in reading.flags)
        finish = None if reading.finish is None else scrub(reading.finish)
        served = None if reading.served_model is None else scrub(reading.served_model)
        if (flags, finish, served) == (reading.flags, reading.finish, reading.served_model):
            return reading
        return replace(reading, flags=flags, finish=finish, served_model=served)

    def _release(self, status: int, last: Any, problem: str) -> None:
        lane = self._lane
        if self._admitted.held is not None and lane.budget.is_open(self._call):
            lane.budget.release(self._call)
            lane.released += 1
            if problem != "cut":
                lane.tally.ended(last)
        fault = None if last == "agent" else last
        lane.record(Kind.RELEASE, self._call, {"status": status, "fault": fault, "problem": problem})

    def _refuse(self, code: Refusal, message: str) -> None:
        self.outbox.begin(self._lane.refusal_head(self._admitted.route.family, code, message))
