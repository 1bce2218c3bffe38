"""The configuration table of reference/distribution.md section 3: on the app, and in a worker that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.celery import settings
from orchestrator.engine.celery.broker import make_app
from orchestrator.engine.celery.settings import TABLE
from orchestrator.engine.celery.times import Times
from tests.assets.queue.lab import QUEUE, Lab
from tests.assets.services.redis import RedisServer

SECTION_3: dict[str, Any] = {
    "task_acks_late": False,
    "task_ignore_result": True,
    "result_backend": None,
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "task_serializer": "json",
    "accept_content": ["json"],
    "worker_pool": "prefork",
    "worker_max_tasks_per_child": 20,
    "worker_max_memory_per_child": 400_000,
    "worker_proc_alive_timeout": 30,
    "task_soft_time_limit": None,
    "task_reject_on_worker_lost": False,
    "task_retry_on_worker_lost": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_soft_shutdown_timeout": 0,
    "broker_connection_retry": True,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "worker_enable_remote_control": False,
    "worker_send_task_events": False,
    "broker_transport_options": {
        "visibility_timeout": 3600,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "global_keyprefix": "assize:",
    },
}
"""Written down once more, from the reference: a slip in the table is seen."""


def test_the_app_has_what_the_reference_says() -> None:
    """Every row of section 3, on the real app; every setting of ours has a reason."""
    app = make_app("redis://127.0.0.1:1/0")
    assert {name: app.conf[name] for name in SECTION_3} == SECTION_3
    assert {name: app.conf[name] for name in settings.app_settings()} == settings.app_settings()
    assert all(one.why for one in TABLE) and len({one.name for one in TABLE}) == len(TABLE)


def test_a_publisher_waits_five_seconds_and_tries_once() -> None:
    """Section 3, dispatcher publish: a frozen Redis must not hang it (45 s and more, measured)."""
    options = settings.PUBLISHER_TRANSPORT
    assert options["socket_timeout"] == options["socket_connect_timeout"] == settings.PUBLISH_TIMEOUT_S == 5
    assert options["max_retries"] == 0 and make_app("redis://x").conf.task_publish_retry is False


def test_times_are_those_of_the_reference() -> None:
    """4.2: lease 120 s, beat 20 s, sweep 60 s; a lease outlasts several beats, and a watch several looks."""
    times = Times()
    assert (times.lease_ms, times.beat_ms, times.sweep_ms, times.margin_s) == (120_000, 20_000, 60_000, 300)
    assert times.lease_ms >= 3 * times.beat_ms and times.reap_ms * 2 < times.lease_ms


@pytest.fixture
def told(redis_server: RedisServer, tmp_path: Path) -> dict[str, Any]:
    """What a running worker says of its configuration."""
    (tmp_path / "ask").write_text(json.dumps(sorted(settings.app_settings())))
    lab = Lab(f"sqlite:///{tmp_path / 'ledger.db'}", redis_server.url, tmp_path)
    try:
        lab.worker(slots=2)
        return dict(json.loads((tmp_path / "described").read_text()))
    finally:
        lab.close()


@pytest.mark.only_on("sqlite", "what is asked is Celery's configuration, whatever the ledger")
def test_a_running_worker_has_it_too(told: dict[str, Any]) -> None:
    """What was configured is what runs: pool, places, queues; no results, gossip, mingle, beat, events."""
    assert told["conf"] == json.loads(json.dumps(settings.app_settings()))
    assert (told["pool"], told["concurrency"]) == ("celery.concurrency.prefork", 2)
    assert told["queues"] == [QUEUE] and told["tasks"] == [settings.TASK_NAME]
    assert told["backend"] == "DisabledBackend" and told["beat"] is False and told["gossip"] is False
    assert not {"Mingle", "Gossip", "Heart", "Control", "Events"} & set(told["steps"])
    assert told["restricted"] is True


def test_task_events_bring_events_and_no_control() -> None:
    """What the option adds to a worker: events of messages and of itself. Nobody can steer it by them."""
    plain, told = settings.worker_arguments(), settings.worker_arguments(task_events=True)
    assert {name for name in told if told[name] != plain.get(name)} == set(settings.TASK_EVENTS)
    assert told["without_gossip"] and told["without_mingle"]
    assert make_app("redis://127.0.0.1:1/0").conf.worker_enable_remote_control is False
