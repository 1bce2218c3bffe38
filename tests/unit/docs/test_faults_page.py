"""docs/faults.md shows the fault rules as they are: every row, in order, with its class and its evidence."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.faults import RULES, TWICE
from scoring.vocabulary import OUTCOME_OF

PAGE = (Path(__file__).parents[3] / "docs" / "faults.md").read_text("utf-8")


def test_the_table_is_the_rules() -> None:
    """Rule by rule: name, outcome, reason, phase, doubt, evidence; each with some words of its own."""
    shown = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    wanted = [
        [
            str(number),
            rule.name,
            OUTCOME_OF[rule.reason].value,
            rule.reason.value,
            rule.phase.value,
            "turns" if rule.turns else "suspect" if rule.suspect else "",
            "`, `".join(rule.evidence),
        ]
        for number, rule in enumerate(RULES, 1)
    ]
    assert [[*row[:2], *row[3:]] for row in shown] == wanted
    words = [row[2] for row in shown]
    assert all(words) and len(set(words)) == len(words)


def test_the_rule_that_turns_is_named() -> None:
    """The word that a certificate carries is the word that the page explains."""
    assert f"`{TWICE}`" in PAGE
