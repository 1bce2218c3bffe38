"""The canaries of the suite notice what comes to them: without this their silence would prove nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.ids import new_id

if TYPE_CHECKING:
    from workers.sandbox.client import Engine

pytestmark = pytest.mark.docker

KNOCK = """
import socket, sys
for kind, address, port in {targets}:
    with socket.socket(socket.AF_INET, getattr(socket, kind)) as one:
        one.settimeout(5)
        one.connect((address, port))
        one.send(b"x")
"""


def test_what_comes_out_of_a_container_is_seen(
    engine: Engine, hostile_part: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """L9: a container with a network finds gateway, names and neighbour; each of them says so."""
    canaries = hostile_part("case_canaries")
    api: Any = engine.api
    canary, bystander = canaries.HostCanary(tmp_path, engine), canaries.Bystander(engine)
    knocking = None
    try:
        address = api.inspect_container(bystander._id)["NetworkSettings"]["IPAddress"]
        outside = [
            (one.type.name, *one.getsockname())
            for one in canary._sockets
            if not one.getsockname()[0].startswith("127.")
        ]
        targets = [*outside, *(("SOCK_STREAM", address, port) for port in canaries.PORTS)]
        targets.append(("SOCK_DGRAM", address, canaries.NAMES_PORT))
        assert {kind for kind, *_ in outside} == {"SOCK_STREAM", "SOCK_DGRAM"}
        text = KNOCK.format(targets=json.dumps(targets))
        body = {"Image": canaries.BASE_IMAGE, "Entrypoint": ["python3", "-c", text]}
        knocking = api.create_container_from_config(body, f"knocking-{new_id().lower()}")["Id"]
        api.start(knocking)
        assert api.wait(knocking)["StatusCode"] == 0, api.logs(knocking)
        while len(bystander.connections) < len(canaries.PORTS) + 1:
            bystander.look()
        while len(canary.connections) < len(outside):
            pass
        assert len(canary.connections) == len(outside), "each once"
        assert bystander.listening and canary.problems() == []
    finally:
        canary.close()
        bystander.close()
        if knocking is not None:
            api.remove_container(knocking, force=True)


def test_a_neighbour_that_died_listens_no_more(
    engine: Engine, hostile_part: Callable[[str], ModuleType]
) -> None:
    """Its silence counts for nothing then, and every case of the suite says so."""
    api: Any = engine.api
    bystander = hostile_part("case_canaries").Bystander(engine)
    try:
        assert bystander.listening
        api.kill(bystander._id)
        api.wait(bystander._id)
        bystander.look()
        assert bystander.listening == []
    finally:
        bystander.close()
