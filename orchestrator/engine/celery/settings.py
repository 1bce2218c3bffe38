"""Every setting of Celery that matters, with its reason: one table, used by workers and publishers alike.

The facts behind it were measured (reference/distribution.md sections 1 to 3). A message is only a hint that
a slot is queued: no setting here may let the broker decide what runs or what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

KEY_PREFIX: Final = "assize:"
TASK_NAME: Final = "assize.try"
"""The one task; its message is `{slot, generation}`."""

PUBLISH_TIMEOUT_S: Final = 5
DAY_S: Final = 86_400


@dataclass(frozen=True)
class Setting:
    """One setting of the app (`where` "app") or one argument of the worker ("worker")."""

    name: str
    value: Any
    why: str
    where: str = "app"


WORKER_TRANSPORT: Final[Mapping[str, Any]] = {
    "visibility_timeout": 3600,
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "global_keyprefix": KEY_PREFIX,
}
"""A frozen Redis must not hang a worker for ever; the Redis may be shared with others. The visibility
timeout does not matter with early acknowledgement."""

PUBLISHER_TRANSPORT: Final[Mapping[str, Any]] = {
    **WORKER_TRANSPORT,
    "socket_timeout": PUBLISH_TIMEOUT_S,
    "socket_connect_timeout": PUBLISH_TIMEOUT_S,
    "max_retries": 0,
    "interval_start": 0,
}
"""A dispatcher never waits longer than five seconds: what it could not send is the sweeper's."""

TABLE: Final[tuple[Setting, ...]] = (
    Setting(
        "task_acks_late", False, "late acknowledgement only adds duplicates: a dropped connection re-ran"
    ),
    Setting("task_ignore_result", True, "the database is the result"),
    Setting("result_backend", None, "results in Redis have no owner and fill it"),
    Setting("worker_disable_prefetch", True, "a worker holds no message that an idle one could run"),
    Setting("worker_prefetch_multiplier", 1, "for brokers that cannot switch prefetching off"),
    Setting("task_serializer", "json", "a message is two plain values; pickle runs what it is sent"),
    Setting("accept_content", ["json"], "no pickle, whoever writes to the broker"),
    Setting("worker_pool", "prefork", "an attempt can be killed alone, and dies with its parent"),
    Setting("worker_max_tasks_per_child", 20, "leaks end with the child; 9 ms a try is nothing"),
    Setting("worker_max_memory_per_child", 400_000, "kB; leaks end with the child"),
    Setting("worker_proc_alive_timeout", 30.0, "a slow fork on a busy host must not become a loop of kills"),
    Setting("task_time_limit", DAY_S, "last backstop; each message brings its own, from the caps of its try"),
    Setting("task_soft_time_limit", None, "deadlines are the engine's own, outside the sandbox"),
    Setting("task_reject_on_worker_lost", False, "re-runs are decided in one place, the ledger"),
    Setting("task_retry_on_worker_lost", False, "two counters of re-runs would disagree"),
    Setting("task_publish_retry", False, "one try, then the sweeper"),
    Setting(
        "worker_cancel_long_running_tasks_on_connection_loss",
        False,
        "a blip of Redis must not kill paid tries",
    ),
    Setting("worker_soft_shutdown_timeout", 0.0, "a soft shutdown kills tries at its end; drain instead"),
    Setting("worker_enable_soft_shutdown_on_idle", False, "as above"),
    Setting("broker_transport_options", dict(WORKER_TRANSPORT), "see WORKER_TRANSPORT"),
    Setting("broker_connection_timeout", PUBLISH_TIMEOUT_S, "as the socket's"),
    Setting("broker_connection_retry", True, "wait for Redis for ever: a limit ends workers silently"),
    Setting("broker_connection_retry_on_startup", True, "as above"),
    Setting("broker_connection_max_retries", None, "as above"),
    Setting("worker_enable_remote_control", False, "replies have no end in Redis; our control is the ledger"),
    Setting("worker_send_task_events", False, "events are in the ledger; Flower is an extra"),
    Setting("task_send_sent_event", False, "as above"),
    Setting("worker_detect_quorum_queues", False, "for RabbitMQ, which is not tested"),
    Setting("worker_hijack_root_logger", False, "log lines are ours, one form for all processes"),
    Setting("worker_redirect_stdouts", False, "as above"),
    Setting("task_default_queue", "try", "nobody publishes there: each class of try has its own queue"),
    Setting("without_gossip", True, "fewer connections; several reconnect defects name it", where="worker"),
    Setting("without_mingle", True, "as above", where="worker"),
    Setting("without_heartbeat", True, "our heartbeat is the lease", where="worker"),
    Setting(
        "beat", False, "a singleton that hangs stops everything; sweeper and reaper run everywhere", "worker"
    ),
)


def app_settings() -> dict[str, Any]:
    """What the app is configured with."""
    return {one.name: one.value for one in TABLE if one.where == "app"}


EVENTS_EVERY_S: Final = 20
"""As often as our own beat: an onlooker counts a worker as gone after a minute without."""

TASK_EVENTS: Final[Mapping[str, Any]] = {
    "task_events": True,
    "without_heartbeat": False,
    "heartbeat_interval": EVENTS_EVERY_S,
}
"""What a worker is started with beside the table when it is to be watched with Celery's own tools."""


def worker_arguments(*, task_events: bool = False) -> dict[str, Any]:
    """What the worker is started with; with `task_events` it tells onlookers of messages and of itself.

    They are published and not kept: without an onlooker each is gone at once. Remote control stays off.
    """
    told = {one.name: one.value for one in TABLE if one.where == "worker"}
    return {**told, **TASK_EVENTS} if task_events else told
