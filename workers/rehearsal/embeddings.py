"""OpenAI embeddings: small vectors that depend on the text alone."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Mapping
from typing import Any, Final

from workers.rehearsal.asked import limit_in, model_in
from workers.rehearsal.errors import CallError
from workers.rehearsal.reply import compact, tokens

DIMENSIONS: Final = 8
MAX_DIMENSIONS: Final = 4096


def answer(body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `POST /v1/embeddings`; `CallError` for a body that would be refused.

    Vectors have 8 dimensions unless `dimensions` says otherwise, as numbers or as base64 of little-endian
    32-bit floats; both spell the same values. A text is charged by its bytes, a token list by its length.
    """
    model = model_in(body)
    size = limit_in(body, "dimensions") or DIMENSIONS
    if size > MAX_DIMENSIONS:
        raise CallError(f"dimensions: at most {MAX_DIMENSIONS} are possible")
    coding = body.get("encoding_format", "float")
    if coding not in ("float", "base64"):
        raise CallError("encoding_format: float or base64 is expected")
    inputs = _inputs(body.get("input"))
    data = [
        {"object": "embedding", "index": index, "embedding": _coded(_packed(item, size), coding)}
        for index, item in enumerate(inputs)
    ]
    counted = sum(_size(item) for item in inputs)
    usage = {"prompt_tokens": counted, "total_tokens": counted}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _inputs(given: object) -> list[str | list[int]]:
    """The inputs one by one: a text, a list of texts, a token list, or a list of those."""
    if _is_input(given):
        return [given]  # type: ignore[list-item]
    if isinstance(given, list) and given and all(_is_input(item) for item in given):
        return given
    raise CallError("input: a text, a token list, or a list of them is expected, and none may be empty")


def _is_input(given: object) -> bool:
    if isinstance(given, list):
        return bool(given) and all(isinstance(item, int) and not isinstance(item, bool) for item in given)
    return isinstance(given, str) and bool(given)


def _size(item: str | list[int]) -> int:
    return tokens(len(item.encode("utf-8", "surrogatepass"))) if isinstance(item, str) else len(item)


def _packed(item: str | list[int], size: int) -> bytes:
    """`size` floats between -1 and 1 from the SHA-256 of the input, as little-endian 32-bit floats."""
    stream = hashlib.shake_256(compact(item).encode("utf-8", "surrogatepass")).digest(2 * size)
    values = struct.unpack(f"<{size}h", stream)
    return struct.pack(f"<{size}f", *(value / 32768 for value in values))


def _coded(packed: bytes, coding: str) -> str | list[float]:
    if coding == "base64":
        return base64.b64encode(packed).decode()
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))
