"""Where an agent's own figures are others than the record's, card and certificate are shown with a flag."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evidence.claims import Figures, encode

ASSET = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certified_home.py"
RECORD = Figures(model_calls=2, tool_calls=1, input_tokens=100, output_tokens=10, cost_nusd=5_000)
ROW = "agent's own figures"


@pytest.fixture
def certified(tmp_path: Path, databases: str) -> Callable[..., Any]:
    """A certified home whose second task's agent says these figures of itself."""
    spec = importlib.util.spec_from_file_location("certified_home", ASSET)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("certified_home", module)
    spec.loader.exec_module(module)
    return lambda claimed: module.make_home(tmp_path / "made", claims=encode(claimed, RECORD))


def test_a_differing_claim_is_flagged(cli: Any, certified: Callable[..., Any]) -> None:
    """On the card with the number of tries, beside the certificate in words; what counts does not change."""
    made = certified(Figures(model_calls=2, output_tokens=99))
    plain = json.loads(cli("score", made.screening, "--json", home=made.home.root).out)
    assert plain["claims_differ"] == 2
    text = cli("score", made.screening, home=made.home.root).out
    assert f"{ROW}       other than metered in 2 tries: assize tries --claims-differ" in text
    slot = made.try_id("second")
    shown = cli("certificates", "show", slot, home=made.home.root).out
    said = "output tokens: the agent says 99, metered were 10"
    assert f"claims     not certified: other figures than the record; {said}" in shown
    data = json.loads(cli("certificates", "show", slot, "--json", home=made.home.root).out)
    assert data["claims_differ"] == [said]
    assert said not in json.dumps(data["statement"])


def test_the_same_figures_and_none_are_no_flag(cli: Any, certified: Callable[..., Any]) -> None:
    """A card that nothing is wrong with has no such row."""
    made = certified(RECORD)
    assert ROW not in cli("score", made.screening, home=made.home.root).out
    same = cli("certificates", "show", made.try_id("second"), "--json", home=made.home.root)
    none = cli("certificates", "show", made.try_id("first"), "--json", home=made.home.root)
    assert [json.loads(ran.out)["claims_differ"] for ran in (same, none)] == [[], None]
