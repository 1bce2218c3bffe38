"""Strict JSON for request bodies: one document, read by us exactly as the provider will read it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.refusals import Refusal

MAX_DEPTH: Final = 128
"""Nesting of lists and objects: room for any tool schema, far from the interpreter's own limit."""

MOST_ITEMS: Final = 1_000_000
"""Commas and brackets of a body. More than any model's context holds; parsed, they fill memory and block the
relay for everybody: 60 MiB of empty lists took 1.7 GB and nine seconds (measured)."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key given twice would let us see one value and the provider the other."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequestError("the body names a key twice in one object")
    return found


def _constant(text: str) -> Any:
    raise BadRequestError(f"the body holds {text}, which is not JSON")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadRequestError("the body holds a number too large for a double")
    return value


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_number)


def _check_depth(body: dict[str, Any]) -> None:
    """Level by level, so that no depth can end in a recursion error here."""
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        below = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not below:
            return
        level = below
    raise BadRequestError(f"the body is nested deeper than {MAX_DEPTH} levels")


def items_in(raw: bytes | bytearray) -> int:
    """At least as many as the lists and objects of a body have elements."""
    return raw.count(b",") + raw.count(b"[") + raw.count(b"{")


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request body, keys in their order.

    Raises `BadRequestError` (invalid_request) for anything else: a key given twice at any depth, NaN or
    Infinity, bytes that are not UTF-8, a surrogate without its twin, nesting beyond `MAX_DEPTH`; more than
    `MOST_ITEMS` (body_too_large) is not even parsed. What is accepted, written by `json.dumps` without ASCII
    escapes, is an equal document.
    """
    items = items_in(raw)
    if items > MOST_ITEMS:
        raise BadRequestError(f"the body holds more than {MOST_ITEMS} items", Refusal.BODY_TOO_LARGE)
    try:
        body = _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadRequestError("the body is not UTF-8") from None
    except RecursionError:
        raise BadRequestError(f"the body is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise BadRequestError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequestError("the body is not a JSON object")
    if items > MAX_DEPTH and raw.count(b"{") + raw.count(b"[") > MAX_DEPTH:
        _check_depth(body)
    if _SURROGATE.search(raw) is not None:
        try:
            json.dumps(body, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise BadRequestError("the body holds half of a surrogate pair") from None
    return body
