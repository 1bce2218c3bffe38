"""What waits for a client never makes the reader of the answer wait (reference/relay.md section 0, 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from workers.relay import outbox
from workers.relay.outbox import Head, Outbox

STREAM = Head(200, [("content-type", "text/event-stream")], None)
WHOLE = Head(200, [], b"all of it")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 10))


def test_putting_needs_no_event_loop_and_no_reader() -> None:
    """It is a plain call: there is nothing in it that could wait."""
    box = Outbox()
    box.begin(STREAM)
    box.put(b"one")
    box.end(broken=False)
    assert box.begun


def test_a_reader_gets_everything_in_order_and_then_the_end() -> None:
    """What piled up comes at once; after the end comes None, for ever."""

    async def read() -> list[Any]:
        box = Outbox()
        box.begin(STREAM)
        box.put(b"one ")
        box.put(b"")
        box.put(b"two")
        box.end(broken=False)
        return [await box.head(), await box.take(), await box.take(), await box.take(), box.broken]

    assert run(read()) == [STREAM, b"one two", None, None, False]


def test_a_waiting_reader_is_woken_by_head_bytes_and_end() -> None:
    """Each of them is news of its own."""

    async def read() -> list[Any]:
        box = Outbox()
        reader = asyncio.create_task(drain(box))
        await asyncio.sleep(0)
        box.begin(STREAM)
        for data in (b"a", b"b"):
            await asyncio.sleep(0)
            box.put(data)
            await asyncio.sleep(0)
        box.end(broken=False)
        return await reader

    async def drain(box: Outbox) -> list[Any]:
        got: list[Any] = [await box.head()]
        while (data := await box.take()) is not None:
            got.append(data)
        return got

    assert run(read()) == [STREAM, b"a", b"b"]


def test_a_call_that_ends_without_a_head_gives_none() -> None:
    """The client is cut off then; it must not wait for ever."""

    async def read() -> Any:
        box = Outbox()
        box.end(broken=True)
        return await box.head(), await box.take()

    assert run(read()) == (None, None)


def test_only_the_first_head_counts_and_a_whole_answer_ends_it() -> None:
    """A refusal after an answer has begun changes nothing that was seen."""

    async def read() -> Any:
        box = Outbox()
        box.begin(WHOLE)
        box.begin(Head(502, [], b"late"))
        return await box.head(), await box.take()

    assert run(read()) == (WHOLE, None)


def test_an_end_that_was_broken_stays_broken() -> None:
    """A later clean end does not mend it."""
    box = Outbox()
    box.end(broken=True)
    box.end(broken=False)
    assert box.broken


def test_a_client_that_does_not_read_is_cut_and_its_bytes_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the limit it gets no more, the memory is free again, and putting goes on without effect."""
    monkeypatch.setattr(outbox, "LIMIT_BYTES", 10)

    async def read() -> Any:
        box = Outbox()
        box.begin(STREAM)
        box.put(b"x" * 10)
        assert not box.broken
        box.put(b"y")
        for _ in range(100):
            box.put(b"z" * 10)
        return await box.take(), box.broken

    assert run(read()) == (None, True)


def test_a_client_that_keeps_up_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is what waits, not what has passed."""
    monkeypatch.setattr(outbox, "LIMIT_BYTES", 10)

    async def read() -> Any:
        box = Outbox()
        box.begin(STREAM)
        got = b""
        for _ in range(50):
            box.put(b"x" * 8)
            got += await box.take() or b""
        return len(got), box.broken

    assert run(read()) == (400, False)
