"""A transcript survives what its disk and its providers do to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from orchestrator.certificates.metered import TRANSCRIPT_LIMIT_BYTES
from orchestrator.evidence.transcript import Kind, read
from workers.relay import transcript
from workers.relay.transcript import FILE_NAME, Transcript


def test_a_write_that_fails_half_way_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk costs the record, not those that follow it: else all evidence of the try were gone."""
    made = Transcript(tmp_path, "lane")
    made.add(Kind.OPEN, 0, {})
    real, asked = os.write, []

    def half(file: int, data: memoryview) -> int:
        asked.append(len(data))
        if len(asked) > 1:
            raise OSError(errno.ENOSPC, "full")
        return real(file, data[: len(data) // 2])

    monkeypatch.setattr("workers.relay.transcript.os.write", half)
    with pytest.raises(OSError, match="full"):
        made.add(Kind.BODY, 1, {}, b"x" * 100)
    monkeypatch.undo()
    made.add(Kind.CLOSE, 0, {})
    made.close()
    chain = read((tmp_path / FILE_NAME).read_bytes())
    assert ([one["kind"] for one in chain.records], chain.torn_bytes) == (["open", "close"], 0)
    assert (chain.head, len(chain.records)) == (made.head, made.records)


def test_half_a_surrogate_pair_costs_no_record(tmp_path: Path) -> None:
    """Names come from providers, whose JSON may hold anything."""
    made = Transcript(tmp_path, "lane")
    made.add(Kind.SETTLE, 1, {"servedModel": "m\ud800", "\udfff": 1})
    made.close()
    assert read((tmp_path / FILE_NAME).read_bytes()).records[0]["data"] == {"servedModel": "m?", "?": 1}


def test_the_longest_transcript_can_be_signed() -> None:
    """Quotes and line ends double in JSON: an agent must not be able to make its try uncertifiable."""
    assert 2 * transcript.PAYLOAD_LIMIT_BYTES <= TRANSCRIPT_LIMIT_BYTES * 3 // 4
