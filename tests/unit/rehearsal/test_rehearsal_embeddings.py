"""Embeddings are small, depend on the text alone, and read the same in both codings."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from workers.rehearsal.embeddings import answer
from workers.rehearsal.errors import CallError


def test_both_codings_spell_the_same_vector() -> None:
    """base64 holds little-endian 32-bit floats; numbers are exactly those floats, between -1 and 1."""
    numbers = answer({"model": "m", "input": "größer"})["data"][0]["embedding"]
    coded = answer({"model": "m", "input": "größer", "encoding_format": "base64"})["data"][0]["embedding"]
    assert list(struct.unpack("<8f", base64.b64decode(coded))) == numbers
    assert all(-1 <= number < 1 for number in numbers)


def test_vectors_depend_on_the_text_alone() -> None:
    """The same text has the same vector anywhere in the list; other texts have others."""
    first, second, third = answer({"model": "m", "input": ["a", "b", "a"]})["data"]
    assert first["embedding"] == third["embedding"] != second["embedding"]
    assert [item["index"] for item in (first, second, third)] == [0, 1, 2]
    assert first["object"] == "embedding"


@pytest.mark.parametrize(
    ("given", "counted"), [("größer", 2), (["a", "b"], 2), ([1, 2, 3], 3), ([[1, 2], [3]], 3)]
)
def test_texts_and_token_lists_are_charged(given: Any, counted: int) -> None:
    """A text by its bytes, a token list by its length; prompt and total are the same."""
    found = answer({"model": "m", "input": given})
    assert found["usage"] == {"prompt_tokens": counted, "total_tokens": counted}
    assert (found["object"], found["model"]) == ("list", "m")


def test_dimensions_are_honoured() -> None:
    """As many as asked for."""
    assert len(answer({"model": "m", "input": "a", "dimensions": 3})["data"][0]["embedding"]) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"input": None},
        {"input": ""},
        {"input": []},
        {"input": ["a", ""]},
        {"input": [True]},
        {"input": [[]]},
        {"dimensions": 0},
        {"dimensions": 4097},
        {"encoding_format": "hex"},
        {"model": 7},
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any]) -> None:
    """With a sentence that names the field."""
    with pytest.raises(CallError, match=f"^{next(iter(change))}: "):
        answer({"model": "m", "input": "a", **change})
