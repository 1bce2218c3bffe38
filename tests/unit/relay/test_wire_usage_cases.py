"""The meter alone on every answered case of the shared case files (the whole relay runs them elsewhere)."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.prices.buckets import Buckets
from workers.relay.wire.family import Family
from workers.relay.wire.request import inspect
from workers.relay.wire.usage import Reading, meter_for

FOLDER = Path(__file__).parents[4] / "shared" / "cases"
SPLITS = (1, 7, 1 << 20)


def cases() -> list[dict[str, Any]]:
    """Cases whose upstream answers 200 to a metered call; none where the files are absent."""
    files = [FOLDER / name for name in ("relay.json", "agents.json")]
    found = [case for file in files if file.exists() for case in json.loads(file.read_text())["cases"]]
    return [
        case
        for case in found
        if (case.get("upstream") or {}).get("status") == 200 and "count_tokens" not in case["request"]["path"]
    ]


CASES = cases()


def family_of(path: str) -> Family:
    route = path.partition("?")[0]
    if ":" in route:
        return Family.GOOGLE
    return {
        "/v1/chat/completions": Family.OPENAI_CHAT,
        "/v1/responses": Family.OPENAI_RESPONSES,
        "/v1/embeddings": Family.OPENAI_EMBEDDINGS,
        "/v1/messages": Family.ANTHROPIC,
    }[route]


def answer(upstream: dict[str, Any]) -> bytes:
    """The body that the case's upstream sends, content encoding undone."""
    if "json" in upstream:
        return json.dumps(upstream["json"]).encode()
    if "sse" in upstream:
        return "".join(upstream["sse"]).encode()
    if "raw_parts_b64" in upstream:
        return b"".join(base64.b64decode(part) for part in upstream["raw_parts_b64"])
    body = base64.b64decode(upstream["body_b64"])
    return gzip.decompress(body) if upstream["headers"].get("content-encoding") == "gzip" else body


def metered(case: dict[str, Any], size: int) -> Reading:
    """The reading of the case's answer, fed in pieces of `size` bytes."""
    upstream, body = case["upstream"], answer(case["upstream"])
    family = family_of(case["request"]["path"])
    meter = meter_for(
        family,
        sse="event-stream" in upstream["headers"]["content-type"],
        provider={"oa": "openai", "an": "anthropic", "go": "google", "xa": "xai"}[case["model"][:2]],
        cache_ttls=inspect(family, case["request"]["body"]).cache_ttls,
    )
    for at in range(0, len(body), size):
        meter.feed(body[at : at + size])
    return meter.finish(clean=not upstream.get("cut"))


@pytest.mark.skipif(not CASES, reason="the shared case files are not beside this checkout")
@pytest.mark.parametrize("size", SPLITS)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_meter_reads_what_the_case_expects(case: dict[str, Any], size: int) -> None:
    """Buckets, completeness and the provider's fault, however the bytes arrive."""
    expected, found = case["expect"], metered(case, size)
    assert found.completeness == expected["completeness"]
    if "buckets" in expected:
        assert found.buckets == Buckets(**expected["buckets"])
    assert found.provider_fault == (expected.get("fault") == "provider")
