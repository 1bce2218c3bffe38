"""An agent's own figures beside the record: a flag where they differ, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import canonical
from orchestrator.evidence.claims import Figures, decode, differing, encode, metered, sentences
from orchestrator.evidence.errors import EvidenceError

RECORD = Figures(2, 1, 1000, 50, 1_000_000)
figures = st.one_of(st.none(), st.integers(0, canonical.MAX_INTEGER))
any_figures = st.builds(Figures, figures, figures, figures, figures, figures)


def test_the_same_figures_differ_in_nothing() -> None:
    """And what one of both does not have cannot differ."""
    assert differing(RECORD, RECORD) == () and differing(Figures(), RECORD) == ()
    assert differing(RECORD, Figures()) == ()


@pytest.mark.parametrize("name", ["model_calls", "tool_calls", "input_tokens", "output_tokens", "cost_nusd"])
def test_every_figure_counts(name: str) -> None:
    """One that is another is named, in words as well."""
    claimed = replace(RECORD, **{name: 7})
    assert differing(claimed, RECORD) == (name,)
    (said,) = sentences(claimed, RECORD)
    assert "the agent says 7" in said and str(getattr(RECORD, name)) in said


@pytest.mark.parametrize(("cost", "same"), [(990_000, True), (1_010_000, True), (989_999, False), (0, False)])
def test_costs_are_the_same_within_one_in_a_hundred(cost: int, same: bool) -> None:
    """Agents reckon in floating point; other figures are counted, and exact."""
    assert (differing(replace(RECORD, cost_nusd=cost), RECORD) == ()) == same


@given(any_figures, any_figures)
def test_claims_are_written_and_read_back(claimed: Figures, record: Figures) -> None:
    """Whatever the figures are; differing is the same from both sides but for the tolerance's base."""
    assert decode(encode(claimed, record)) == (claimed, record)
    exact = {name for name in differing(claimed, record) if name != "cost_nusd"}
    assert exact == {name for name in differing(record, claimed) if name != "cost_nusd"}


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{}", b"[]", b'{"claimed":{},"differs":[],"record":1}', b'{"claimed":{"x":1},"record":{}}'),
        b'{"claimed":{"model_calls":"2"},"differs":[],"record":{}}',
        b'{"claimed":{"model_calls":true},"differs":[],"record":{}}',
    ],
)
def test_anything_else_is_refused(raw: bytes) -> None:
    """It is read back for people: a wrong file is no figure."""
    with pytest.raises(EvidenceError):
        decode(raw)


def test_the_record_is_the_ledgers() -> None:
    """Sums over all calls; what is not known of one of them is not known of all."""
    line = {"inputTokens": 10, "outputTokens": 2, "costNusd": 5}
    assert metered([line, line], 3) == Figures(2, 3, 20, 4, 10)
    assert metered([line, {**line, "costNusd": None}], 0) == Figures(2, 0, 20, 4, None)
    assert metered([], 0) == Figures(0, 0, 0, 0, 0)
