"""The transcript is a hash chain and a write-ahead ledger (reference/relay.md section 2, transcript)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.evidence.transcript import (
    START,
    Kind,
    TranscriptError,
    ledger_of,
    read,
    read_whole,
)
from workers.relay import transcript
from workers.relay.transcript import FILE_NAME, Transcript

ENDS: tuple[tuple[Kind, dict[str, Any]], ...] = (
    (Kind.SETTLE, {"completeness": "exact", "bookedNusd": 30}),
    (Kind.SETTLE, {"completeness": "unknown", "bookedNusd": 70}),
    (Kind.RELEASE, {"status": 429, "fault": "provider"}),
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A lane with a refusal, calls of every end that overlap, one that never ended, and the lane's end."""
    folder = tmp_path_factory.mktemp("lane")
    made = Transcript(folder, "lane")
    made.add(Kind.OPEN, 0, {"prices": {"id": "p", "date": "2026-01-01", "digest": "0" * 64}})
    made.add(Kind.DENY, 1, {"code": "cap_reached"}, b'{"model": "x"}', keep=False)
    for call in (2, 3, 4, 5):
        made.add(Kind.REQUEST, call, {"path": "/chat/completions"}, b'{"model": "m"}')
        made.add(Kind.ADMIT, call, {"purpose": "generate", "holdNusd": 70 + call})
    for call, (kind, data) in zip((4, 2, 3), ENDS, strict=True):
        made.add(Kind.HEAD, call, {"status": 200})
        made.add(Kind.BODY, call, {}, "käse \u2028".encode() if call == 2 else b"\xff\x00binary")
        made.add(kind, call, data)
    made.add(Kind.CLOSE, 0, {"denied": 1})
    made.close()
    found = (folder / FILE_NAME).read_bytes()
    assert read(found).head == made.head
    assert len(read(found).records) == made.records
    return found


def holds(raw: bytes, original: bytes) -> bool:
    """Whether changed bytes pass for the transcript that `original` was certified as."""
    try:
        found = read(raw)
    except TranscriptError:
        return False
    return found.head == read(original).head and found.torn_bytes == 0


def lines_of(raw: bytes) -> list[bytes]:
    return raw.splitlines(keepends=True)


@given(at=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_single_changed_byte_is_seen(raw: bytes, at: int, flip: int) -> None:
    """In any line, in any place: the chain breaks, or the last hash is another."""
    changed = bytearray(raw)
    changed[at % len(raw)] ^= flip
    assert not holds(bytes(changed), raw)


@given(at=st.integers(0, 10**6), byte=st.binary(min_size=1, max_size=1))
def test_a_byte_put_in_or_taken_out_is_seen(raw: bytes, at: int, byte: bytes) -> None:
    """Blank lines and white space are bytes like any other."""
    at %= len(raw) + 1
    assert not holds(raw[:at] + byte + raw[at:], raw)
    at %= len(raw)
    assert not holds(raw[:at] + raw[at + 1 :], raw)


@given(data=st.data())
def test_a_line_left_out_repeated_or_moved_is_seen(raw: bytes, data: st.DataObject) -> None:
    """The order and number of records are part of the chain."""
    lines = lines_of(raw)
    one, other = data.draw(st.lists(st.sampled_from(range(len(lines))), min_size=2, max_size=2, unique=True))
    dropped = lines[:one] + lines[one + 1 :]
    doubled = [*lines[:one], lines[one], *lines[one:]]
    swapped = list(lines)
    swapped[one], swapped[other] = lines[other], lines[one]
    for changed in (dropped, doubled, swapped):
        assert not holds(b"".join(changed), raw)


@pytest.mark.parametrize("extra", [b"\n", b"\n\n", b"{}\n", b"x", b" "])
def test_bytes_after_the_end_are_seen(raw: bytes, extra: bytes) -> None:
    """An empty line at the end too: there is one file for one hash."""
    assert not holds(raw + extra, raw)


def test_the_error_names_the_first_line_that_does_not_fit(raw: bytes) -> None:
    """Lines count from 1, as editors do."""
    lines = lines_of(raw)
    lines[4] = lines[4].replace(b'"holdNusd":72', b'"holdNusd":71').replace(b"model", b"nodel")
    with pytest.raises(TranscriptError) as caught:
        read(b"".join(lines))
    assert caught.value.line in (5, 6)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"not json", "is not JSON"),
        (b"[]", "is not the record with this number"),
        (b'{"seq": 1}', "is not the record with this number"),
        (b'{"seq": 0, "prev": "1"}', "does not follow"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"seq":0,"prev":"%s","payload":{"text":"a","sha256":"0"}}' % START.encode(), "payload"),
        (b'{"seq":0,"prev":"%s","payload":{"base64":"?","sha256":"0"}}' % START.encode(), "payload"),
        (b'{"seq":0,"prev":"%s","payload":{"text":1}}' % START.encode(), "payload"),
        (b'{"seq":0,"prev":"%s","payload":[1]}' % START.encode(), "payload"),
        (b'{"seq":0,"prev":"%s","payload":{"text":"\\ud800"}}' % START.encode(), "payload"),
    ],
)
def test_a_line_that_is_no_record_is_refused_in_one_sentence(line: bytes, said: str) -> None:
    """Whatever it is, the error is the one that callers know."""
    with pytest.raises(TranscriptError, match=f"line 1 of the transcript .*{said}"):
        read(line + b"\n")


@given(st.integers(0, 10**6))
def test_a_torn_last_line_is_left_out_and_counted(raw: bytes, at: int) -> None:
    """A crash cuts a write short: what was whole before it stands."""
    torn = raw[: at % len(raw)]
    found = read(torn)
    whole = torn.count(b"\n")
    assert len(found.records) == whole
    assert found.torn_bytes == len(torn) - sum(len(line) for line in lines_of(raw)[:whole])


def test_no_bytes_are_an_empty_chain() -> None:
    """A lane that was lost before its first record."""
    assert (read(b"").records, read(b"").head, read(b"").torn_bytes) == ((), START, 0)


@given(cut=st.integers(0, 10**6))
def test_the_money_at_every_moment_is_settled_calls_and_open_holds(raw: bytes, cut: int) -> None:
    """After a kill at any byte: `spent = settled + holds`, counted here from the lines by hand."""
    torn = raw[: cut % (len(raw) + 1)]
    settled, open_holds = 0, dict[int, int]()
    for line in torn.split(b"\n")[:-1]:
        record = json.loads(line)
        if record["kind"] == "admit":
            open_holds[record["call"]] = record["data"]["holdNusd"]
        elif record["kind"] in ("settle", "release"):
            del open_holds[record["call"]]
            settled += record["data"].get("bookedNusd", 0)
    found = ledger_of(read(torn).records)
    assert (found.settled_nusd, dict(found.open_holds)) == (settled, open_holds)
    assert found.spent_nusd == settled + sum(open_holds.values())
    assert found.closed == (torn == raw)


def test_the_whole_lane_costs_what_was_settled_and_the_call_that_never_ended(raw: bytes) -> None:
    """Released calls cost nothing; call 5 has no end and keeps its hold."""
    found = ledger_of(read(raw).records)
    assert (found.settled_nusd, dict(found.open_holds), found.spent_nusd) == (100, {5: 75}, 175)


def test_a_damaged_transcript_counts_as_far_as_it_is_whole(raw: bytes) -> None:
    """For the money of a crash; `read` refuses it as evidence."""
    lines = lines_of(raw)
    for at in range(len(lines)):
        damaged = b"".join([*lines[:at], b"{}\n", *lines[at + 1 :]])
        assert read_whole(damaged) == read(raw).records[:at]


def test_a_payload_is_text_where_it_can_be_and_base64_elsewhere(raw: bytes) -> None:
    """Both with size and digest; a refused body leaves only those."""
    payloads = [record["payload"] for record in read(raw).records if record["kind"] == "body"]
    assert payloads[0]["base64"] == "/wBiaW5hcnk="
    assert payloads[1]["text"] == "käse \u2028"
    denied = read(raw).records[1]["payload"]
    digest = hashlib.sha256(b'{"model": "x"}').hexdigest()
    assert denied == {"bytes": 14, "sha256": digest, "omitted": True}


def test_payloads_beyond_the_lanes_limit_leave_size_and_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent cannot fill the disk by talking; a small payload still fits after a large one did not."""
    monkeypatch.setattr(transcript, "PAYLOAD_LIMIT_BYTES", 10)
    made = Transcript(tmp_path, "lane")
    for payload in (b"12345678", b"1234", b"12", b"1"):
        made.add(Kind.BODY, 1, {}, payload)
    made.close()
    records = read((tmp_path / FILE_NAME).read_bytes()).records
    assert [record["payload"].get("text") for record in records] == ["12345678", None, "12", None]
    assert [record["payload"]["bytes"] for record in records] == [8, 4, 2, 1]


def test_a_transcript_is_never_written_over(tmp_path: Path) -> None:
    """A second lane of the same name would be a second truth."""
    Transcript(tmp_path, "lane").close()
    with pytest.raises(FileExistsError):
        Transcript(tmp_path, "lane")


def test_only_its_owner_may_read_a_transcript(tmp_path: Path) -> None:
    """Conversations are nobody else's on this host."""
    made = Transcript(tmp_path, "lane")
    assert made.path.stat().st_mode & 0o777 == 0o600
    made.close()


def test_a_record_is_in_the_file_when_add_returns(tmp_path: Path) -> None:
    """Write-ahead: a kill right after it leaves it there."""
    made = Transcript(tmp_path, "lane")
    for number in range(3):
        made.add(Kind.HEAD, 1, {"status": 200})
        assert read(made.path.read_bytes()).head == made.head
        assert made.records == number + 1
    made.close()


def test_a_write_in_small_parts_gives_the_same_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system may take less than it was given."""
    write: Callable[[int, Any], int] = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, bytes(data[:7])))
    made = Transcript(tmp_path, "lane")
    made.add(Kind.BODY, 1, {}, b"a long payload of many parts")
    made.close()
    assert read(made.path.read_bytes()).head == made.head


def test_a_record_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller must not go on as if it were there; head and number stay as they were."""

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    made = Transcript(tmp_path, "lane")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space left"):
        made.add(Kind.ADMIT, 1, {"holdNusd": 5})
    assert (made.head, made.records) == (START, 0)


def test_a_record_that_waits_is_written_with_the_next(tmp_path: Path) -> None:
    """One write for what belongs together, in order; nothing is in the file before."""
    made = Transcript(tmp_path, "lane")
    made.add(Kind.REQUEST, 1, {}, b"{}", with_next=True)
    made.add(Kind.SENT, 1, {}, b"{ }", with_next=True)
    assert made.path.read_bytes() == b""
    made.add(Kind.ADMIT, 1, {"holdNusd": 5})
    chain = read(made.path.read_bytes())
    assert [record["kind"] for record in chain.records] == ["request", "sent", "admit"]
    assert (chain.head, len(chain.records)) == (made.head, made.records)
    made.close()


def test_what_waits_at_the_end_is_written(tmp_path: Path) -> None:
    """Closing loses nothing."""
    made = Transcript(tmp_path, "lane")
    made.add(Kind.HEAD, 1, {"status": 200}, with_next=True)
    made.close()
    assert read(made.path.read_bytes()).head == made.head != START


def test_what_waited_is_forgotten_with_a_write_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain goes on from the last record that is really there."""

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    made = Transcript(tmp_path, "lane")
    made.add(Kind.OPEN, 0, {})
    made.add(Kind.REQUEST, 1, {}, b"{}", with_next=True)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space left"):
        patched.setattr(os, "write", full)
        made.add(Kind.ADMIT, 1, {"holdNusd": 5})
    made.add(Kind.CLOSE, 0, {})
    made.close()
    chain = read(made.path.read_bytes())
    assert [record["kind"] for record in chain.records] == ["open", "close"]
    assert (chain.head, len(chain.records)) == (made.head, made.records)


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=5), st.text()
)
def test_both_encoders_write_the_same_line(data: dict[str, Any], text: str) -> None:
    """The fast one refuses what it cannot write (2^64, half a pair); the other one takes over unnoticed."""
    record = {"data": data, "payload": {"text": text}}
    assert json.loads(transcript._line(record)) == json.loads(json.dumps(record))
