"""Every hostile agent of the case files, each beside an honest sibling, through the whole product.

ASSIZE_HOSTILE_CASES names another file of the same format. Under runc always, and under runsc where the
engine has it. What the runner does not understand of a case fails that case.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.docker


def test_a_hostile_agent_gets_nothing(
    runtime: str,
    case_id: str,
    unfit_because: Callable[[str, str], str | None],
    played: Callable[[str], Mapping[str, Any]],
    hostile_part: Callable[[str], ModuleType],
    record_property: Callable[[str, object], None],
) -> None:
    """Issue 6: the expected outcome and L1 to L9, never a pass, never a fault of the platform."""
    if runtime != "runc" and (why := unfit_because(runtime, case_id)) is not None:
        pytest.skip(why)
    seen = played(runtime)[case_id]
    if seen.report is not None and seen.sibling is not None:
        record_property("reason", seen.report.decision.reason.value)
        record_property("wall_ms", seen.report.wall_ms)
        record_property("sibling_wall_ms", seen.sibling.wall_ms)
        report = json.loads(seen.files.get("sandbox-report.json", b"{}"))
        record_property("written_bytes", report.get("counters", {}).get("writtenBytes"))
    assert hostile_part("case_rules").broken(seen) == []
