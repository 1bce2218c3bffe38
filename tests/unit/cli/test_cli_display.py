"""Progress of a run as people and programs read it: what they are told while nothing seems to happen."""

from __future__ import annotations

import json

import pytest

from orchestrator.cli.display import JsonlDisplay, PlainDisplay
from orchestrator.engine.base import Waiting

WAITING = Waiting("01JAB4", "openai", 4)


def test_a_run_that_waits_for_a_place_says_at_which_provider(capsys: pytest.CaptureFixture[str]) -> None:
    """Another run may have them all, which nobody sees from this one."""
    PlainDisplay({"01JAB4": "shell"}, {"01JAB4": 3})(WAITING)
    line = "shell: waiting for a place at openai, which has 4 tries at a time\n"
    assert capsys.readouterr() == ("", line)
    JsonlDisplay({})(WAITING)
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["screening_id"], told["provider"], told["most"]) == (
        "waiting",
        "01JAB4",
        "openai",
        4,
    )
