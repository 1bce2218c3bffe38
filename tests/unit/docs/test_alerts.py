"""docs/alerts.yml asks for figures that `assize metrics` has, and says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.engine.celery.metrics import registry_of, text_of
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import plan_stub
from orchestrator.home import Home
from orchestrator.ledger import hosts
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import claim_message, start, stop_attempt
from orchestrator.ledger.window import fill

DOCS = Path(__file__).parents[3] / "docs"
Q = "try.c1m1.cpu1-mem1g"
(GROUP,) = yaml.safe_load((DOCS / "alerts.yml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = GROUP["rules"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, databases: str) -> Iterator[Mapping[str, set[str]]]:
    """Label names by figure, of a ledger in which everything has happened once."""
    ledger = open_ledger(Home(tmp_path_factory.mktemp("alerts")).database_url)
    options = {"tries": 1, "engine": EngineName.CELERY, "queue": Q, "cap_nusd": 10**9, "try_cap_nusd": 1}
    start(ledger, plan_stub(ledger, ["a", "b"], **options), who="test")  # type: ignore[arg-type]
    worker_id = hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=1, queues=[Q])
    hosts.present_beat(ledger, worker_id, swept=True, reaped=True)
    message = fill(ledger, {Q: 2}, who="d")[0]
    owner = register(ledger, worker_id)
    held = claim_message(ledger, message.slot_id, 1, owner.id, lease_ms=60_000, worker_id=worker_id)
    assert held is not None
    stop_attempt(ledger, held, who="test")
    text = text_of(registry_of(ledger, Times()))
    yield {
        family.name: {label for sample in family.samples for label in sample.labels}
        for family in text_string_to_metric_families(text)
        if family.samples
    }
    ledger.close()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_asks_for_what_is_served(rule: dict[str, Any], served: Mapping[str, set[str]]) -> None:
    """Figures by name, and labels that they have: a rule over anything else is silent for ever."""
    asked = re.findall(r"(assize_[a-z_]+)(?:\{([a-z]+)!?=~?)?", rule["expr"])
    assert asked
    for figure, label in asked:
        assert figure in served and (not label or label in served[figure]), figure
    assert re.search(r" (>|==|<) ", rule["expr"]) and rule["expr"].count("(") == rule["expr"].count(")")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_how_bad_it_is_and_what_comes_next(rule: dict[str, Any]) -> None:
    """One sentence, and a command that exists."""
    assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("page", "look")
    assert rule["annotations"]["summary"].endswith(".") and rule["annotations"]["next"]
    reference = (DOCS / "cli.md").read_text("utf-8")
    for command in re.findall(r"assize ([a-z]+(?: (?:list|run))?)", rule["annotations"]["next"]):
        assert f"## assize {command}" in reference


def test_names_are_unique_and_the_page_names_the_file() -> None:
    """An alarm that shadows another one would never be seen."""
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names) and all(name.startswith("Assize") for name in names)
    assert "(alerts.yml)" in (DOCS / "many-hosts.md").read_text("utf-8")
