"""The event parser: every byte is kept, however the stream is split, and events are read as browsers do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.wire.errors import WireError
from workers.relay.wire.sse import Event, SseParser

PIECES = st.lists(
    st.sampled_from(
        [
            *(b"\r\n", b"\n", b"\r", b"data:", b"data: ", b"event: e", b"id: 7", b"retry: 1", b": comment"),
            *(b"x", b" ", b":", "\N{SNOWMAN}".encode(), b"\xe6", b"\xef\xbb\xbf", b"data"),
        ]
    ),
    max_size=40,
).map(b"".join)
CUTS = st.lists(st.integers(0, 200), max_size=12)


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


def parsed(pieces: list[bytes]) -> tuple[list[Event], bytes]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events, parser.tail()


def said(events: list[Event]) -> list[tuple[str | None, str | None]]:
    """What events mean, without those that mean nothing."""
    return [(event.name, event.data) for event in events if (event.name, event.data) != (None, None)]


@given(PIECES | st.binary(max_size=120), CUTS)
def test_no_byte_is_lost_or_changed_by_any_split(stream: bytes, cuts: list[int]) -> None:
    """Raw bytes of all events and the tail are the input."""
    events, tail = parsed(split(stream, cuts))
    assert b"".join(event.raw for event in events) + tail == stream


@given(PIECES, CUTS)
def test_events_mean_the_same_however_the_stream_is_split(stream: bytes, cuts: list[int]) -> None:
    """Also when a CR ends one piece and its LF starts the next."""
    assert said(parsed(split(stream, cuts))[0]) == said(parsed([stream])[0])


def model(stream: bytes) -> list[tuple[str | None, str | None]]:
    """The specification's own algorithm, line by line."""
    found: list[tuple[str | None, str | None]] = []
    name: str | None = None
    data: list[str] | None = None
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    for line in stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]:
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if not line:
            if name is not None or data is not None:
                found.append((name, None if data is None else "\n".join(data)))
            name, data = None, None
        elif field == b"event":
            name = text
        elif field == b"data":
            data = [*(data or []), text]
    return found


@given(PIECES)
def test_events_are_those_of_the_specification(stream: bytes) -> None:
    """Compared with a plain model that takes the whole stream."""
    assert said(parsed([stream])[0]) == model(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_line_end_ends_an_event(end: bytes) -> None:
    """LF, CRLF and CR alone, with every field and a comment."""
    lines = [b": hello", b"id: 7", b"retry: 10", b"event: ping", b"data:one", b"data:  two", b"data", b""]
    stream = end.join([*lines, b""])
    events, tail = parsed([stream])
    assert [(event.name, event.data) for event in events] == [("ping", "one\n two\n")]
    assert (events[0].raw, tail) == (stream, b"")


def test_an_event_is_handed_out_with_its_last_needed_byte() -> None:
    """A CR at the end of a piece ends the event at once; its LF leads the next one and means nothing."""
    parser = SseParser()
    assert [event.raw for event in parser.feed(b"data: a\r\n\r")] == [b"data: a\r\n\r"]
    (second,) = parser.feed(b"\ndata: b\r\n\r\n")
    assert second == Event(b"\ndata: b\r\n\r\n", None, "b")
    assert parser.tail() == b""


def test_a_character_split_between_pieces_arrives_whole() -> None:
    """UTF-8 is decoded only when the event is complete; what is no UTF-8 becomes U+FFFD."""
    stream = "data: na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{SNOWMAN}\n\n".encode()
    events, _ = parsed([stream[index : index + 1] for index in range(len(stream))])
    assert [event.data for event in events] == ["na\u00efve \u2603"]
    assert parsed([b"data: \xe6\n\n"])[0][0].data == "\ufffd"


def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    """It is passed over in reading and kept in the bytes; later it belongs to a field's name."""
    events, _ = parsed([b"\xef\xbb", b"\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"])
    assert [event.data for event in events] == ["a", None]
    assert events[0].raw == b"\xef\xbb\xbfdata: a\n\n"


def test_separators_of_other_alphabets_end_no_line() -> None:
    """Only CR and LF do: form feeds and Unicode line separators are text."""
    events, _ = parsed(["data: a\u2028b\x0bc\x0cd\x85\n\n".encode()])
    assert [event.data for event in events] == ["a\u2028b\x0bc\x0cd\x85"]


def test_comments_alone_are_an_event_without_name_and_data() -> None:
    """Their bytes go on to the client: they keep idle connections open."""
    events, _ = parsed([b": PROCESSING\n\n"])
    assert events == [Event(b": PROCESSING\n\n", None, None)]


@pytest.mark.parametrize("ended", [b"", b"\n\n"])
def test_an_event_over_the_limit_is_refused(ended: bytes) -> None:
    """Finished or not, in one piece or in many."""
    stream = b"data: " + b"x" * 95 + ended
    with pytest.raises(WireError):
        SseParser(limit_bytes=100).feed(stream)
    parser = SseParser(limit_bytes=100)
    with pytest.raises(WireError):
        for index in range(len(stream)):
            parser.feed(stream[index : index + 1])


def test_many_events_may_together_exceed_the_limit() -> None:
    """The limit is for one event."""
    assert len(SseParser(limit_bytes=10).feed(b"data: x\n\n" * 50)) == 50
