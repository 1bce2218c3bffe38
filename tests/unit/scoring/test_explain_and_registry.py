"""The arithmetic as text, the card as plain data, and the registry of methodologies."""

from __future__ import annotations

import inspect
import json
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from scoring_builders import PASS, VIEWS, Screening, Spec, plan_of, screening, screenings

from orchestrator import canonical
from scoring import registry
from scoring.classify import View
from scoring.errors import ScoringError
from scoring.explain import REASON_TEXT, as_data, lines
from scoring.methodology import Methodology
from scoring.numbers import DASH
from scoring.pack_card import Missing
from scoring.pack_score import score_pack
from scoring.results import Reading
from scoring.vocabulary import Reason

MEAN = re.compile(r"(100 x )?\((?P<terms>[0-9/ +]+)\) / (?P<count>\d+) = (?P<result>\d+/\d+)")


def redo(line: str) -> tuple[Fraction, Fraction]:
    """The mean that a line writes out, done again from its own terms, and the result it states."""
    found = MEAN.search(line)
    assert found, line
    terms = [Fraction(term) for term in found["terms"].split(" + ")]
    assert len(terms) == int(found["count"])
    scale = 100 if found[1] else 1
    return scale * sum(terms, Fraction(0)) / len(terms), Fraction(found["result"])


def line_of(text: tuple[str, ...], start: str) -> str:
    (line,) = [line for line in text if line.startswith(start)]
    return line


@given(screenings(), VIEWS)
def test_the_arithmetic_can_be_redone_from_the_text(made: Screening, view: View) -> None:
    """UI-3: the sums of score, floor, ceiling and pass^3 are written out and come to the stated result."""
    card = made.card(view)
    text = lines(card)
    starts = {
        "Pack Score (pass^1)": card.pack_score,
        "floor": card.floor,
        "ceiling": card.ceiling,
        "every try passes (pass^3)": card.pass3,
    }
    for start, value in starts.items():
        line = line_of(text, start)
        if value is None:
            assert DASH in line
        else:
            again, stated = redo(line)
            assert again == stated == value


@given(screenings(), VIEWS)
def test_every_dash_says_why(made: Screening, view: View) -> None:
    """UI-2: a dash is always followed by a code and its sentence, and no line shows $0 for unknown."""
    for line in lines(made.card(view)):
        if f": {DASH}" in line and not line.startswith("scored "):
            assert re.search(rf"{DASH} \(([a-z0-9-]+): .+\)$", line), line


def test_every_reason_has_a_sentence() -> None:
    """G-5: no reason code without words."""
    assert set(REASON_TEXT) == set(Missing)


def test_explanation_of_a_small_card() -> None:
    """The whole text of one card, figures checked by hand."""
    made = screening("PPF", "PU-")
    text = lines(score_pack(made.plan, made.tries(), view=View.PUBLIC, do_nothing_floor=Fraction(0)))
    want = (
        "task t1: 2 passed of 3 counted = 2/3; 3 planned, 3 slots, 0 unfinished, 0 could not be counted, "
        "0 left out for certificate",
        "Pack Score (pass^1) = 100 x mean over scored tasks of passed / counted = "
        "100 x (2/3 + 1/2) / 2 = 175/3, shown 58.3",
        "floor = 100 x mean over all 2 tasks of passed / slots = 100 x (2/3 + 1/3) / 2 = 50/1, shown 50.0",
        "ceiling = the same with all but counted failures as passes = 100 x (2/3 + 2/3) / 2 = 200/3, "
        "shown 66.7",
        f"every try passes (pass^3): {DASH} (fewer-than-three-counted-tries: a scored task has fewer than "
        "three counted tries)",
        "USD per task = 400000000 nano-USD / 1000000000 / 4 finished counted tries = 1/10, shown $0.1000",
        "unfinished spend = 500000000 nano-USD over 1 unfinished tries, shown $0.5000",
        "did not finish, counted as failures: 1 (timeout 1)",
        "could not be counted: 1 (never_recorded 1)",
        "label Partial screen: tries-differ, could-not-be-counted",
        "label Short screen: a task has fewer than 3 counted tries",
        "do-nothing floor of the pack = 0/1, shown 0.0",
    )
    for line in want:
        assert line in text
    assert line_of(text, "differences under ").split(" points cannot be told apart here ")[0][-2] == "."
    assert sum(t.startswith("reading ") for t in text) == len(made.card().readings)


def floats_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [bad for item in value.values() for bad in floats_in(item)]
    if isinstance(value, list):
        return [bad for item in value for bad in floats_in(item)]
    return [] if value is None or isinstance(value, (str, int)) else [value]


@given(screenings(), VIEWS)
def test_data_is_canonical_json_without_floats(made: Screening, view: View) -> None:
    """Family 15: strings, integers, booleans and null only; it survives a round trip and can be digested."""
    data = as_data(made.card(view))
    assert floats_in(data) == []
    assert canonical.decode_strict(canonical.encode(data)) == data
    assert json.loads(json.dumps(data)) == data


@given(screenings(), VIEWS)
def test_data_states_exact_and_rounded_figures_that_agree(made: Screening, view: View) -> None:
    """UI-5: the display is the exact figure rounded once; money is a string of nano-USD."""
    card, data = made.card(view), as_data(made.card(view))
    for name in ("pack_score", "floor", "ceiling"):
        if data[name]["exact"] is not None:
            assert abs(Fraction(data[name]["exact"]) - Fraction(data[name]["display"])) <= Fraction(1, 20)
    if data["pass3"]["exact"] is not None:
        percent = 100 * Fraction(data["pass3"]["exact"])
        assert abs(percent - Fraction(data["pass3"]["display"])) <= Fraction(1, 20)
    cost = data["usd_per_task"]
    if cost["exact"] is not None:
        assert Fraction(cost["nano_usd"]) == Fraction(cost["exact"]) * 10**9
    known = card.unfinished_spend_nusd
    assert data["unfinished_spend"]["nano_usd"] == (None if known is None else str(known))
    if data["interval"]["low"] is not None:
        low, high = Fraction(data["interval"]["low"]), Fraction(data["interval"]["high"])
        assert 0 <= low <= Fraction(data["pack_score"]["display"]) <= high <= 100


def test_data_names_its_inputs() -> None:
    """Issue item: pack, agent and certificate digests, sorted, stand beside the figures."""
    made = screening("PPF", "PC-")
    data = as_data(made.card())
    digests = sorted(t.certificate_digest for t in made.tries() if t.certificate_digest)
    assert data["inputs"]["certificates"] == digests
    assert len(digests) == 4
    assert (data["inputs"]["agent_digest"], data["inputs"]["pack_digest"]) == ("a" * 64, "b" * 64)
    assert re.fullmatch("[0-9a-f]{64}", data["inputs"]["digest"])


def test_words_of_the_two_empty_cards() -> None:
    """UI-8, UI-9: exactly the document's words; for passes that were all left out, our own true sentence."""
    assert as_data(screening("---").card())["status_text"] == "No pack results yet"
    assert as_data(screening("UUU").card())["status_text"] == "runs recorded, none verified"
    assert "left out for its certificate" in as_data(screening("CC").card())["status_text"]


def test_names_outside_ascii_survive() -> None:
    """A task may be called anything; it is a value, never a key."""
    plan = plan_of({"größe-✓": 1})
    data = as_data(Screening(plan, {("größe-✓", 1): PASS}).card())
    assert canonical.decode_strict(canonical.encode(data))["tasks"][0]["task"] == "größe-✓"


def test_the_card_shows_every_reason_kind_by_its_own_word() -> None:
    """UI-11: kinds are the reasons of the closed vocabulary, unchanged."""
    faults = [r for r in Reason if registry_class(r)]
    plan = plan_of({"t1": len(faults) + 1})
    slots = {("t1", i): Spec(r) for i, r in enumerate(faults, 1)} | {("t1", len(faults) + 1): PASS}
    data = as_data(Screening(plan, slots).card())
    shown = data["counts"]["could_not_be_counted_by_kind"] + data["counts"]["unfinished_by_kind"]
    assert {item["kind"]: item["count"] for item in shown} == {r.value: 1 for r in faults}


def registry_class(reason: Reason) -> bool:
    card = Screening(plan_of({"t1": 1}), {("t1", 1): Spec(reason)}).card()
    return card.counts.unfinished + card.counts.could_not_be_counted == 1


def test_registry_finds_the_scorer_by_its_id() -> None:
    """G-4: an id names one scorer; the result carries that id and those readings."""
    entry = registry.find("pack-score/1")
    made = screening("PPP")
    card = entry.scorer(made.plan, made.tries(), view=View.PUBLIC, do_nothing_floor=None)
    assert card.methodology == entry.id
    assert card.readings == entry.readings
    with pytest.raises(ScoringError) as caught:
        registry.find("pack-score/2")
    assert caught.value.code == "unknown-methodology"


@pytest.mark.parametrize("data", registry.as_data(), ids=lambda data: str(data["id"]))
def test_registry_renders_as_data(data: dict[str, Any]) -> None:
    """UI-46: ids, readings and constants, parsed back from the data, equal the code's; names are unique."""
    entry = registry.find(data["id"])
    assert canonical.decode_strict(canonical.encode(data)) == data
    assert tuple(Reading(**reading) for reading in data["readings"]) == entry.readings
    assert tuple((c["name"], Fraction(c["exact"])) for c in data["constants"]) == entry.constants
    for names in ([r["code"] for r in data["readings"]], [c["name"] for c in data["constants"]]):
        assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", registry.METHODOLOGIES.values(), ids=lambda entry: str(entry.id))
def test_no_scorer_takes_a_funder(entry: Methodology) -> None:
    """Family 12, S4-36: by signature, who pays, asks or is shown cannot reach a figure."""
    words = ("fund", "request", "sponsor", "pay", "organisation", "display")
    assert not [name for name in inspect.signature(entry.scorer).parameters if name.startswith(words)]


def test_the_scorer_takes_no_funder_and_no_clock() -> None:
    """Family 12, S4-36: by signature there is nothing but plan, tries, view and the do-nothing floor."""
    parameters = inspect.signature(registry.find("pack-score/1").scorer).parameters
    assert list(parameters) == ["plan", "tries", "view", "do_nothing_floor"]
