"""The strict YAML of compose files: what is read has one meaning, everything else is refused by line.

Rules: packs.md, tasks are run as they are or refused by name; what a word means must not depend on who reads.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.packs.compose_yaml import MAX_CHARS, MAX_DEPTH, YamlError, parse_yaml

READ: list[tuple[str, Any]] = [
    ("", None),
    ("# only words\n\n", None),
    ("---\na: 1\n", {"a": 1}),
    ("a: 1\nb: -2\nc: 0\nd: 1.5\n", {"a": 1, "b": -2, "c": 0, "d": 1.5}),
    ("a: ~\nb: null\nc:\nd: Null\n", {"a": None, "b": None, "c": None, "d": None}),
    ("a: true\nb: False\nc: TRUE\n", {"a": True, "b": False, "c": True}),
    (
        "a: word and more\nb: x:y\nc: a#b\nd: http://h:1/p?q=1\n",
        {"a": "word and more", "b": "x:y", "c": "a#b", "d": "http://h:1/p?q=1"},
    ),
    ("a: one # comment\nb: 'two # words' # c\n", {"a": "one", "b": "two # words"}),
    ("a: 'it''s'\nb: \"\\\"q\\\" \\n \\x41\\u00e4\"\n", {"a": "it's", "b": '"q" \n Aä'}),
    ("'a b': 1\n\"c: d\": 2\n", {"a b": 1, "c: d": 2}),
    ("a:\n  b:\n    c: 1\n  d: 2\ne: 3\n", {"a": {"b": {"c": 1}, "d": 2}, "e": 3}),
    ("- 1\n- a: 2\n  b: 3\n-\n  - x\n- - v\n  - z\n", [1, {"a": 2, "b": 3}, ["x"], ["v", "z"]]),
    ("a:\n- 1\n- 2\nb: 3\n", {"a": [1, 2], "b": 3}),
    ('a:\n  - K=v w\n  - "Q=a: b"\n', {"a": ["K=v w", "Q=a: b"]}),
    ("a: [1, 'x, y', [b, {c: d}], ]\n", {"a": [1, "x, y", ["b", {"c": "d"}]]}),
    ("a: {b: c, d: [1], 'e f': ~, g: }\n", {"a": {"b": "c", "d": [1], "e f": None, "g": None}}),
    ("a: [\n  CMD, # first\n  'b',\n]\nc: 1\n", {"a": ["CMD", "b"], "c": 1}),
    (
        "a: |\n  one: 1\n   two # no comment\n\n  three\nb: 2\n",
        {"a": "one: 1\n two # no comment\n\nthree\n", "b": 2},
    ),
    ("a: |-\n  x\n\nb: 1\n", {"a": "x", "b": 1}),
    ("a: []\nb: {}\n", {"a": [], "b": {}}),
    ("a: >-\n  b\n  c\n", {"a": "b c"}),
    ("a: one\n  two\n", {"a": "one two"}),
    ("a: |+\n  x\n\n", {"a": "x\n\n"}),
    ("a: |\nb: 1\n", {"a": "", "b": 1}),
    ("? a\n: b\n", {"a": "b"}),
    ("8000: x\n", {"8000": "x"}),
    ("a: -x\nb: --flag\n", {"a": "-x", "b": "--flag"}),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_what_is_read(text: str, value: Any) -> None:
    """One document, with types as every reader of YAML has them."""
    found = parse_yaml(text)
    assert json.dumps(found) == json.dumps(value)


REFUSED = [
    ("a: &x 1\n", 1, "anchors"),
    ("a: *x\n", 1, "aliases"),
    ("a: !!str 1\n", 1, "tags"),
    ("x: 1\n<<: {a: 1}\n", 2, "<< is read"),
    ("a: {<<: b}\n", 1, "<< is read"),
    ("a: 1\na: 2\n", 2, "repeated"),
    ("a: {b: 1, b: 2}\n", 1, "repeated"),
    ("a: yes\n", 1, "different ways"),
    ("a: Off\n", 1, "different ways"),
    ("a: 0755\n", 1, "different ways"),
    ("a: 1e3\n", 1, "different ways"),
    ("a: 22:22\n", 1, "different ways"),
    ("a: [1_000]\n", 1, "different ways"),
    ("a: 0x1f\n", 1, "different ways"),
    ("a: .5\n", 1, "different ways"),
    ("a: 2026-01-01\n", 1, "different ways"),
    ("on: 1\n", 1, "different ways"),
    ("a:\n\tb: 1\n", 2, "not YAML"),
    ("a: b: c\n", 1, "not YAML"),
    ("a: 'open\n", 2, "not YAML"),
    ("a: 'x' y\n", 1, "not YAML"),
    ("a: [1, 2\n", 2, "not YAML"),
    ("a: [1] x\n", 1, "not YAML"),
    ('a: "\\q"\n', 1, "not YAML"),
    ('a: "\\ud800"\n', 1, "surrogate"),
    ("a: 1\n---\nb: 2\n", 2, "second document"),
    ("%YAML 1.2\n---\na: 1\n", 1, "directives"),
    ("a:\n    b: 1\n  c: 2\n", 3, "not YAML"),
    ("a: 1\n  b: 2\n", 2, "not YAML"),
    ("word\n", 1, "neither a mapping nor a list"),
    ("a: @x\n", 1, "not YAML"),
    ("? [a]\n: b\n", 1, "complex"),
    ("a: b\x07\n", 1, "character"),
    ("x" * (MAX_CHARS + 1), 1, "longer"),
    ("a: " + "[" * 100 + "]" * 100 + "\n", 1, "nested"),
]


@pytest.mark.parametrize(("text", "line", "words"), REFUSED)
def test_what_is_refused(text: str, line: int, words: str) -> None:
    """With the line and the reason; nothing is guessed."""
    with pytest.raises(YamlError) as refused:
        parse_yaml(text)
    assert refused.value.line == line and words in refused.value.message


def test_depth_has_an_end_in_blocks_too() -> None:
    """No text runs the reader out of its stack."""
    text = "".join(f"{'  ' * at}a:\n" for at in range(MAX_DEPTH + 5))
    with pytest.raises(YamlError, match="deeper"):
        parse_yaml(text)
    with pytest.raises(YamlError, match="deeper"):
        parse_yaml("- " * 200 + "a\n")


_TEXTS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp"), blacklist_characters="\ufeff\x85")
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=3))
def test_json_in_one_line_is_read_as_it_is(value: dict[str, Any]) -> None:
    """Property: JSON is YAML; a value written so comes back."""
    text = json.dumps(value, ensure_ascii=False)
    assert parse_yaml(text) == value


@given(st.text(st.sampled_from("ab:-[]{}|>#'\"&*!,? \n\t1.~"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Property: nothing but `YamlError` comes out."""
    try:
        parse_yaml(text)
    except YamlError as error:
        assert error.line >= 1
