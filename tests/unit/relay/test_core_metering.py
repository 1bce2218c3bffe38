"""The metering ledger that follows from a transcript, and its sums (issue 4, deliver 3 and 5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.certificates import metered
from orchestrator.evidence import metering
from orchestrator.evidence.metering import FIGURES, Prices, Totals, ledger_lines, prices_of, totals
from orchestrator.evidence.transcript import Kind, TranscriptError, read
from workers.relay.transcript import Transcript

DIGEST = "ab" * 32
USAGE = {
    "input": 100,
    "cache_read": 20,
    "cache_write_5m": 3,
    "cache_write_1h": 4,
    "output": 7,
    "audio_input": 5,
    "audio_output": 2,
    "calls": {"web_search": 1},
}
EXACT = {
    "completeness": "exact",
    "usage": USAGE,
    "listNusd": 1000,
    "standardNusd": 900,
    "feesNusd": 50,
    "bookedNusd": 1000,
}


class Lane:
    """Writes calls down; the chain and the ledger that follow from them."""

    def __init__(self, folder: Path) -> None:
        self._made = Transcript(folder, "lane")
        prices = {"id": "sheet", "date": "2026-05-01", "digest": DIGEST}
        self.add(Kind.OPEN, 0, prices=prices)

    def add(self, kind: Kind, call: int, **data: Any) -> None:
        self._made.add(kind, call, data)

    def admit(self, call: int, *, purpose: str = "generate", hold_nusd: int = 5000) -> None:
        self.add(Kind.ADMIT, call, model="m", provider="p", purpose=purpose, holdNusd=hold_nusd, injected={})

    @property
    def raw(self) -> bytes:
        return self._made.path.read_bytes()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return ledger_lines(read(self.raw))

    def close(self) -> None:
        self._made.close()


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = Lane(tmp_path)
    yield made
    made.close()


def none_of(figures: dict[str, Any]) -> bool:
    return all(figures[name] is None for name in FIGURES)


def test_an_exact_call_has_every_figure(lane: Lane) -> None:
    """Input is all input, cached the cache's part of it; fees stand apart from token costs."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **EXACT)
    assert lane.lines == [
        {
            "call": 1,
            "model": "m",
            "provider": "p",
            "requests": 1,
            "completeness": "exact",
            "holdNusd": 5000,
            "bookedNusd": 1000,
            "inputTokens": 100 + 20 + 3 + 4 + 5,
            "cachedInputTokens": 20,
            "outputTokens": 9,
            "costNusd": 950,
            "standardCostNusd": 850,
            "paidToolCallsNusd": 50,
        }
    ]


@pytest.mark.parametrize("how", ["bounded", "unknown"])
def test_a_call_that_is_not_exact_has_its_hold_and_no_figure(lane: Lane, how: str) -> None:
    """Even where a usage was seen: an upper bound is no measurement."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, completeness=how, usage=USAGE, bookedNusd=5000)
    [line] = lane.lines
    assert (line["completeness"], line["bookedNusd"]) == (how, 5000)
    assert none_of(line)


def test_a_call_that_never_ended_is_unknown_at_its_hold(lane: Lane) -> None:
    """The relay was lost: the provider may have been paid."""
    lane.admit(1)
    lane.add(Kind.HEAD, 1, status=200)
    [line] = lane.lines
    assert (line["completeness"], line["bookedNusd"]) == ("unknown", 5000)
    assert none_of(line)


def test_what_no_provider_took_has_no_line(lane: Lane) -> None:
    """Released calls, refused ones and free counts are no requests."""
    lane.add(Kind.DENY, 1, code="cap_reached")
    lane.admit(2)
    lane.add(Kind.RELEASE, 2, status=429, fault="provider")
    lane.admit(3, purpose="count", hold_nusd=0)
    lane.add(Kind.RELEASE, 3, status=200, fault=None)
    lane.admit(4, purpose="count", hold_nusd=0)
    assert lane.lines == []


def test_lines_stand_in_the_order_of_the_calls(lane: Lane) -> None:
    """Whenever they ended."""
    for call in (1, 2, 3):
        lane.admit(call)
    for call in (3, 1, 2):
        lane.add(Kind.SETTLE, call, **EXACT)
    assert [line["call"] for line in lane.lines] == [1, 2, 3]


def test_the_ledger_is_the_same_bytes_for_the_same_transcript(lane: Lane) -> None:
    """The signer derives it again and compares."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **EXACT)
    encoded = metering.encode(lane.lines)
    assert encoded == metered.ledger_of(lane.raw)
    assert [json.loads(line) for line in encoded.splitlines()] == lane.lines


def test_exact_calls_add_up(lane: Lane) -> None:
    """Each figure for itself."""
    for call in (1, 2):
        lane.admit(call)
        lane.add(Kind.SETTLE, call, **EXACT)
    found = totals(lane.lines)
    assert found.requests == 2
    assert found.figures == {
        "inputTokens": 264,
        "cachedInputTokens": 40,
        "outputTokens": 18,
        "costNusd": 1900,
        "standardCostNusd": 1700,
        "paidToolCallsNusd": 100,
    }


@pytest.mark.parametrize("end", ["bounded", "unknown", None])
def test_one_call_that_is_not_exact_leaves_the_number_of_calls_only(lane: Lane, end: str | None) -> None:
    """No sum with a hole in it is published, in the ledger or in the certificate (seed 004)."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **EXACT)
    lane.admit(2)
    if end is not None:
        lane.add(Kind.SETTLE, 2, completeness=end, bookedNusd=5000)
    assert totals(lane.lines) == Totals(2, None)
    usage = metered.usage_of(lane.raw)
    assert (usage.metered, usage.requests, usage.cost_nusd, usage.input_tokens) == (True, 2, None, None)


def test_a_lane_without_a_call_used_nothing_and_that_is_exact(lane: Lane) -> None:
    """Zero is a figure: an agent that called no model cost nothing."""
    assert totals(lane.lines) == Totals(0, dict.fromkeys(FIGURES, 0))
    assert metered.usage_of(lane.raw).cost_nusd == 0


def test_a_certificate_names_sheet_and_head(lane: Lane) -> None:
    """Prices by digest, the transcript by its last hash and length."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **EXACT)
    usage = metered.usage_of(lane.raw)
    chain = read(lane.raw)
    assert prices_of(chain) == Prices("sheet", "2026-05-01", DIGEST)
    assert usage.price_list is not None and usage.price_list.digest.sha256 == DIGEST
    assert usage.transcript is not None
    assert (usage.transcript.records, usage.transcript.head.sha256) == (3, chain.head)
    assert (usage.cost_nusd, usage.standard_cost_nusd, usage.paid_tool_calls_nusd) == (950, 850, 50)


@pytest.mark.parametrize("missing", sorted(EXACT.keys() - {"completeness", "bookedNusd"}))
def test_an_exact_call_without_its_figures_is_refused(lane: Lane, missing: str) -> None:
    """Claimed exact, nothing to show: an error that the signer knows, not a crash."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **{name: value for name, value in EXACT.items() if name != missing})
    with pytest.raises(TranscriptError, match=r"line 3 of the transcript .* figures"):
        lane.lines  # noqa: B018 - the property is what is tested


@pytest.mark.parametrize("usage", [None, [], {}, {**USAGE, "input": "100"}, {**USAGE, "output": None}])
def test_a_usage_of_another_form_is_refused(lane: Lane, usage: Any) -> None:
    """Whatever stands there."""
    lane.admit(1)
    lane.add(Kind.SETTLE, 1, **{**EXACT, "usage": usage})
    with pytest.raises(TranscriptError):
        metered.usage_of(lane.raw)


def test_an_admission_without_its_terms_is_refused(lane: Lane) -> None:
    """A model, a provider and a hold belong to every call."""
    lane.add(Kind.ADMIT, 1, purpose="generate")
    with pytest.raises(TranscriptError, match="line 2"):
        metered.usage_of(lane.raw)


def test_a_settlement_of_a_call_that_was_never_admitted_is_refused(lane: Lane) -> None:
    """Money without a call: a record is missing."""
    lane.add(Kind.SETTLE, 7, **EXACT)
    with pytest.raises(TranscriptError, match=r"line 2 .*never admitted"):
        metered.usage_of(lane.raw)


def test_a_chain_that_opens_no_lane_has_no_prices() -> None:
    """Nothing can be certified by an empty transcript."""
    with pytest.raises(TranscriptError, match="does not open a lane"):
        prices_of(read(b""))
    with pytest.raises(TranscriptError):
        metered.usage_of(b"")
