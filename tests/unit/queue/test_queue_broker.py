"""The side that sends: never blocks, never raises, and what it sends is `{slot, generation}` and no more."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from orchestrator.engine.celery.broker import Publisher, broker_url, hidden
from orchestrator.engine.celery.errors import BrokerNameError
from orchestrator.engine.celery.settings import KEY_PREFIX, TASK_NAME
from orchestrator.errors import UsageError
from orchestrator.ledger.dispatch import Message
from tests.assets.services.own import free_port
from tests.assets.services.redis import RedisServer

Q = "try.c1m1.cpu1-mem1g"
MESSAGES = [Message(f"slot-{n}", n, Q, 60_000) for n in range(1, 4)]


def test_a_message_is_a_slot_and_a_generation(redis_server: RedisServer) -> None:
    """DESIGN section 3 step 2; JSON, our own key prefix, and a hard time limit from the try's own caps."""
    publisher = Publisher(redis_server.url, margin_s=300)
    assert publisher.publish(MESSAGES) == 3
    assert publisher.lengths([Q, "empty"]) == {Q: 3, "empty": 0}
    client = redis_server.client()
    try:
        raw = client.lindex(f"{KEY_PREFIX}{Q}", -1)
        kinds = {str(key) for key in client.keys("*")}
    finally:
        client.close()
    publisher.close()
    message = json.loads(str(raw))
    args, kwargs, _ = json.loads(base64.b64decode(message["body"]))
    assert (args, kwargs) == ([], {"slot": "slot-1", "generation": 1})
    assert message["headers"]["task"] == TASK_NAME and message["headers"]["timelimit"] == [360, None]
    assert message["content-type"] == "application/json"
    assert all(kind.startswith(KEY_PREFIX) for kind in kinds)


def test_a_wiped_redis_takes_messages_again(redis_server: RedisServer) -> None:
    """celery#10566: with a named exchange they were dropped without a word after a FLUSH."""
    publisher = Publisher(redis_server.url)
    assert publisher.publish(MESSAGES[:1]) == 1
    redis_server.wipe()
    assert publisher.publish(MESSAGES) == 3
    assert publisher.lengths([Q]) == {Q: 3}
    publisher.close()


def test_nobody_listens() -> None:
    """Nothing is raised and nothing is tried twice: it is left to the sweeper."""
    publisher = Publisher(f"redis://127.0.0.1:{free_port()}/0")
    assert publisher.publish(MESSAGES) == 0
    assert publisher.lengths([Q]) is None and not publisher.answers()


def test_a_frozen_redis_lets_go_and_a_thawed_one_is_used_again(redis_server: RedisServer) -> None:
    """Measured with the usual settings: still hanging after 45 s."""
    publisher = Publisher(redis_server.url)
    assert publisher.answers()
    redis_server.freeze()
    assert publisher.publish(MESSAGES) == 0
    redis_server.thaw()
    assert publisher.publish(MESSAGES) == 3
    publisher.close()


def test_where_the_broker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Option, option's file, environment, environment's file; a password never has to be an argument."""
    file = tmp_path / "broker"
    file.write_text("redis://:secret@host:6379/0\n")
    monkeypatch.setenv("ASSIZE_BROKER_URL", "redis://env/0")
    monkeypatch.setenv("ASSIZE_BROKER_FILE", str(file))
    assert broker_url("redis://option/0", None) == "redis://option/0"
    assert broker_url(None, file) == "redis://:secret@host:6379/0"
    assert broker_url(None, None) == "redis://env/0"
    monkeypatch.delenv("ASSIZE_BROKER_URL")
    assert broker_url(None, None) == "redis://:secret@host:6379/0"
    monkeypatch.delenv("ASSIZE_BROKER_FILE")
    with pytest.raises(BrokerNameError, match="no broker"):
        broker_url(None, None)


@pytest.mark.parametrize("url", ["amqp://user:secret@host//", "host:6379", "memory://"])
def test_other_brokers_are_refused_without_their_password(url: str) -> None:
    """RabbitMQ is not tested, so it is not promised; what is shown never holds a password."""
    with pytest.raises(BrokerNameError) as caught:
        broker_url(url, None)
    assert "secret" not in caught.value.message
    assert hidden("redis://u:secret@h:1/0") == "redis://u:***@h:1/0"


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    """Bad input is refused with a sentence."""
    with pytest.raises(UsageError, match="cannot be read"):
        broker_url(None, tmp_path / "absent")
