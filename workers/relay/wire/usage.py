"""Meters: from the bytes or events of one answer to what it used. Pure, and no input makes them raise."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from workers.relay.wire.errors import WireError
from workers.relay.wire.family import Family
from workers.relay.wire.reading import Completeness, Reading
from workers.relay.wire.sse import Event, SseParser
from workers.relay.wire.tally import Tally
from workers.relay.wire.usage_anthropic import AnthropicTally
from workers.relay.wire.usage_google import GoogleTally
from workers.relay.wire.usage_openai import ChatTally, EmbeddingsTally
from workers.relay.wire.usage_responses import ResponsesTally

__all__ = ["Completeness", "JsonMeter", "Meter", "Reading", "SseMeter", "hidden", "meter_for"]

ANSWER_LIMIT_BYTES: Final = 64 << 20
"""A JSON answer beyond this is not kept, so its usage is unknown."""

_DONE: Final = "[DONE]"
_NO_CHOICES: Final = re.compile(r'"choices"\s*:\s*\[\s*\]')
_SCANNER: Final = json.JSONDecoder()


class Meter(Protocol):
    """Takes one answer as bytes or as parsed events, not both, and says at the end what it used."""

    def feed(self, data: bytes) -> None:
        """More bytes of the body, content encoding undone."""

    def events(self, events: Sequence[Event]) -> None:
        """More events of the body."""

    def finish(self, *, clean: bool) -> Reading:
        """The reading; `clean` is False when the connection ended before the body did."""


def _parsed(text: str) -> Any:
    """The JSON value, None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _elements(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The objects of a JSON array as far as they are whole, and whether the array is closed."""
    found: list[dict[str, Any]] = []
    at = 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return found, True
        try:
            value, at = _SCANNER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, False
        if isinstance(value, dict):
            found.append(value)


class JsonMeter:
    """An answer that is one JSON object, or Gemini's streamed JSON array."""

    def __init__(self, tally: Tally, *, arrays: bool) -> None:
        self._tally = tally
        self._arrays = arrays
        self._body = bytearray()
        self._too_large = False

    def feed(self, data: bytes) -> None:
        """More bytes of the body."""
        if len(self._body) + len(data) > ANSWER_LIMIT_BYTES:
            self._too_large = True
            self._body.clear()
        if not self._too_large:
            self._body += data

    def events(self, events: Sequence[Event]) -> None:
        """The bytes of events, for an answer that only claimed to be a stream."""
        for event in events:
            self.feed(event.raw)

    def finish(self, *, clean: bool) -> Reading:
        """Parses the body; one that is not JSON is unknown and the provider's fault."""
        text = self._body.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip()
        if self._too_large:
            self._tally.note_garbage("answer_too_large")
        elif self._arrays and text.startswith("["):
            items, closed = _elements(text)
            for item in items:
                self._tally.take(item, None)
            clean = clean and closed
        elif isinstance(item := _parsed(text), dict):
            self._tally.take_whole(item)
        else:
            self._tally.note_garbage("not_json")
        return self._tally.reading(clean=clean)


class SseMeter:
    """An answer that is a stream of events."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._parser = SseParser()
        self._lost = False

    def feed(self, data: bytes) -> None:
        """Bytes of the stream, for callers that have no parser of their own."""
        if self._lost:
            return
        try:
            self.events(self._parser.feed(data))
        except WireError:
            self._lost = True
            self._tally.note_garbage("event_too_large")

    def events(self, events: Sequence[Event]) -> None:
        """More events; most deltas are skimmed, not parsed."""
        tally = self._tally
        for event in events:
            if tally.skim(event):
                continue
            data = event.data or ""
            item = _parsed(data)
            if isinstance(item, dict):
                tally.take(item, event.name)
            elif data.strip() == _DONE:
                tally.done()
            elif event.name == "error":
                tally.note_error()
            else:
                tally.note_garbage("not_json")

    def finish(self, *, clean: bool) -> Reading:
        """The reading of everything that was seen."""
        return self._tally.reading(clean=clean and not self._lost)


def _tally_for(family: Family, provider: str, cache_ttls: frozenset[str]) -> Tally:
    if family is Family.OPENAI_CHAT:
        return ChatTally(provider, cache_ttls)
    if family is Family.OPENAI_RESPONSES:
        return ResponsesTally(provider, cache_ttls)
    if family is Family.OPENAI_EMBEDDINGS:
        return EmbeddingsTally(provider, cache_ttls)
    if family is Family.ANTHROPIC:
        return AnthropicTally(cache_ttls)
    return GoogleTally()


def meter_for(
    family: Family, *, sse: bool, provider: str, cache_ttls: frozenset[str]
) -> JsonMeter | SseMeter:
    """The meter of one answer.

    `sse` by the answer's content type, not the request. `provider` settles what formats leave open ("xai").
    `cache_ttls` as the request asked ("5m", "1h"), for answers that do not split their cache writes.
    """
    tally = _tally_for(family, provider, cache_ttls)
    return SseMeter(tally) if sse else JsonMeter(tally, arrays=family is Family.GOOGLE)


def hidden(event: Event) -> bool:
    """Whether the event is a chat stream's usage chunk, which a client that did not ask must not see."""
    if event.data is None or '"usage"' not in event.data or _NO_CHOICES.search(event.data) is None:
        return False
    item = _parsed(event.data)
    return isinstance(item, dict) and item.get("choices") == [] and item.get("usage") is not None
