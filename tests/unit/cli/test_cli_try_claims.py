"""What stands beside an outcome: an agent's own figures, and why it could not be started."""

from __future__ import annotations

import json
from typing import Any


def test_other_figures_than_the_record_are_shown(cli: Any, world: Any) -> None:
    """Both numbers, in words and as data; the outcome does not know of it."""
    slot = world.try_id("flaky")
    assert "claims      other figures than the record; model calls: the agent says 3, metered were 2" in (
        cli("try", slot).out
    )
    said = json.loads(cli("try", slot, "--json").out)["agent_claims"]
    assert said["differs"] == ["model_calls"]
    assert (said["claimed"]["model_calls"], said["record"]["model_calls"]) == (3, 2)


def test_the_same_figures_are_said_to_be_the_same(cli: Any, world: Any) -> None:
    """And where nothing was claimed nothing is shown."""
    assert "claims      as metered" in cli("try", world.try_id("lost")).out
    silent = world.try_id("fix-login")
    assert "claims  " not in cli("try", silent).out
    assert json.loads(cli("try", silent, "--json").out)["agent_claims"] is None


def test_tries_can_be_asked_for_by_differing_claims(cli: Any, world: Any) -> None:
    """Only those of which the evidence says so."""
    ran = cli("tries", world.done, "--claims-differ", "--json")
    rows = json.loads(ran.out)["tries"]
    assert rows and {row["task"] for row in rows} == {"flaky"}
    assert len(json.loads(cli("tries", world.done, "--json").out)["tries"]) > len(rows)


def test_why_an_agent_could_not_be_started_is_said(cli: Any, world: Any) -> None:
    """The platform's own sentence, with names in it that are the task's: made safe to look at."""
    shown = cli("try", world.try_id("lost")).out
    assert "in detail" in shown and "the image has no glibc" in shown and "\x1b" not in shown
    assert json.loads(cli("try", world.try_id("lost"), "--json").out)["trouble"].startswith("the image has")
    assert json.loads(cli("try", world.try_id("fix-login"), "--json").out)["trouble"] is None
