"""What is seen from outside: figures for Prometheus, JSON log lines."""

from __future__ import annotations

import json
import logging

from prometheus_client.parser import text_string_to_metric_families

from orchestrator.engine.celery.logs import JsonFormatter, bound
from orchestrator.engine.celery.metrics import registry_of, text_of
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import hosts
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.owners import register
from orchestrator.ledger.providers import set_limits
from orchestrator.ledger.states import EngineName
from orchestrator.ledger.transitions import Claim, claim_message, start, stop_attempt
from orchestrator.ledger.window import fill

Q = "try.c1m1.cpu1-mem1g"


def figures(ledger: Ledger) -> dict[str, float]:
    """Every sample as `name{labels}`, as a scraper reads it."""
    found = {}
    for family in text_string_to_metric_families(text_of(registry_of(ledger, Times()))):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def claimed(ledger: Ledger) -> Claim:
    """A screening of three with a cap, one of them running on a worker."""
    screening = plan_stub(
        ledger,
        ["a", "b", "c"],
        tries=1,
        engine=EngineName.CELERY,
        queue=Q,
        cap_nusd=5_000_000_000,
        try_cap_nusd=1_000_000_000,
    )
    start(ledger, screening, who="test")
    worker_id = hosts.enter(ledger, WorkerRole.WORKER, host_name="lab", slots=2, queues=[Q])
    message = fill(ledger, {Q: 2}, who="d")[0]
    owner = register(ledger, worker_id)
    held = claim_message(ledger, message.slot_id, 1, owner.id, lease_ms=120_000, worker_id=worker_id)
    assert held is not None
    return held


def test_figures_come_from_the_ledger(ledger: Ledger) -> None:
    """Section 8: slots by state, money, workers, voids by reason; nothing is counted in a process."""
    held = claimed(ledger)
    seen = figures(ledger)
    one = f"screening={held.screening_id}"
    assert seen[f"assize_slots{{{one},state=running}}"] == 1
    assert seen[f"assize_slots{{{one},state=planned}}"] == 1
    assert seen[f"assize_cap_dollars{{{one}}}"] == 5 and seen[f"assize_reserved_dollars{{{one}}}"] == 2
    assert seen[f"assize_queue_expected{{queue={Q}}}"] == 1
    (worker,) = hosts.workers(ledger, beat_ms=20_000)
    label = f"host=lab,worker={worker.id}"
    assert seen[f"assize_worker_running{{{label}}}"] == 1 and seen[f"assize_worker_slots{{{label}}}"] == 2
    assert f"assize_worker_claim_age_seconds{{{label}}}" in seen
    assert f"assize_worker_sweep_age_seconds{{{label}}}" not in seen  # it has never swept
    stop_attempt(ledger, held, who="test")
    assert figures(ledger)["assize_void_attempts{reason=operator_cancelled}"] == 1


def test_limited_providers_are_shown(ledger: Ledger) -> None:
    """How many of its tries are out, and how many may be."""
    set_limits(ledger, {"openai": 2, "google": 1})
    start(
        ledger,
        plan_stub(ledger, ["a", "b", "c"], engine=EngineName.CELERY, queue=Q, providers=["openai"]),
        who="test",
    )
    fill(ledger, {Q: 9}, who="d")
    seen = figures(ledger)
    assert [seen[f"assize_provider_tries{{provider={one}}}"] for one in ("openai", "google")] == [2, 0]
    assert seen["assize_provider_tries_limit{provider=openai}"] == 2


def test_a_line_names_its_attempt(ledger: Ledger) -> None:
    """Section 8: screening, slot, token and host bound once; a line feed in a message stays in its line."""
    held = claimed(ledger)
    formatter = JsonFormatter("lab-3")
    record = logging.LogRecord("assize", logging.INFO, __file__, 1, "two\nlines %s", ("x",), None)
    with bound(held):
        line = formatter.format(record)
    said = json.loads(line)
    assert "\n" not in line and said["message"] == "two\nlines x" and said["host"] == "lab-3"
    assert (said["screening"], said["slot"], said["token"]) == (held.screening_id, held.slot_id, held.token)
    assert "slot" not in json.loads(formatter.format(record))


def test_an_error_is_part_of_its_line() -> None:
    """A traceback would break the stream of one object a line."""
    try:
        raise ValueError("no")
    except ValueError as error:
        record = logging.LogRecord(
            "assize", logging.ERROR, __file__, 1, "failed", (), (ValueError, error, error.__traceback__)
        )
    line = JsonFormatter().format(record)
    assert "\n" not in line and "ValueError: no" in json.loads(line)["error"]
