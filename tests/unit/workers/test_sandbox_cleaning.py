"""What removes things: the disposer's threads and the reaper's rules, with a tiny fake engine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import docker.errors
import pytest
import requests

from workers.errors import EngineCallError, WorkerError
from workers.sandbox.client import Engine
from workers.sandbox.disposer import Disposer
from workers.sandbox.reaper import reap


def test_removals_run_beside_the_work_and_are_waited_for() -> None:
    """Nothing is lost between submit and drain, even what is submitted while draining."""
    disposer, done, gate = Disposer(), [], threading.Event()

    def first() -> None:
        gate.wait(10)
        done.append(1)
        disposer.submit(lambda: done.append(2))

    disposer.submit(first)
    assert done == []
    gate.set()
    assert disposer.drain() == [] and sorted(done) == [1, 2]
    assert disposer.close() == []


def test_failures_are_told_once() -> None:
    """What could not be removed is the reaper's; the caller hears of it."""
    disposer = Disposer()

    def fail() -> None:
        raise WorkerError("no")

    for _ in range(3):
        disposer.submit(fail)
    assert disposer.drain() == ["no"] * 3
    assert disposer.drain() == []
    assert disposer.close() == []


def test_many_threads_may_submit() -> None:
    """Attempts end at the same time."""
    disposer, done = Disposer(threads=2), []

    def submit_many() -> None:
        for _ in range(50):
            disposer.submit(lambda: done.append(1))

    threads = [threading.Thread(target=submit_many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disposer.close() == [] and len(done) == 400


def test_draining_nothing() -> None:
    """A worker without attempts closes at once."""
    assert Disposer().close() == []


def labelled(identity: str, attempt: str | None, **more: Any) -> dict[str, Any]:
    labels = {"assize.home": "h"} | ({"assize.attempt": attempt} if attempt else {})
    return {"Id": identity, "Name": identity, "Labels": labels, **more}


class FakeApi:
    """Lists what it was given and records removals; `errors` are raised for an identity."""

    def __init__(
        self,
        containers: list[Any],
        volumes: list[Any] | None,
        images: list[Any],
        networks: Sequence[Any] = (),
    ) -> None:
        self.found = {"containers": containers, "volumes": volumes, "images": images, "networks": networks}
        self.removed: list[str] = []
        self.filters: list[Any] = []
        self.errors: dict[str, Exception] = {}

    def containers(self, all: bool, filters: Any) -> Any:
        assert all
        self.filters.append(filters)
        return self.found["containers"]

    def volumes(self, filters: Any) -> Any:
        self.filters.append(filters)
        return {"Volumes": self.found["volumes"]}

    def images(self, filters: Any) -> Any:
        self.filters.append(filters)
        return self.found["images"]

    def networks(self, filters: Any) -> Any:
        self.filters.append(filters)
        return self.found["networks"]

    def remove_network(self, identity: str) -> None:
        self._remove(identity, force=True)

    def _remove(self, identity: str, **options: Any) -> None:
        if identity in self.errors:
            raise self.errors[identity]
        assert options["force"] is True
        self.removed.append(identity)

    remove_container = remove_volume = remove_image = _remove


def api_error(status: int) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return kind("x", response=response, explanation="x")


def reaped(api: FakeApi, live: set[str]) -> Any:
    return reap(cast(Engine, SimpleNamespace(api=api)), "h", lambda label: label in live)


def test_only_objects_of_dead_attempts_go() -> None:
    """By label and by the ledger's answer; what has no attempt label is not ours to judge."""
    api = FakeApi(
        [
            labelled("live", "s/1"),
            labelled("dead", "s/2"),
            labelled("other", None),
            {"Id": "bare", "Labels": None},
        ],
        [labelled("volume-dead", "owner/x"), labelled("volume-live", "s/1")],
        [labelled("image-dead", "s/2"), labelled("image-live", "s/1")],
        [labelled("network-dead", "s/2"), labelled("network-live", "s/1"), labelled("network-other", None)],
    )
    found = reaped(api, {"s/1"})
    assert api.removed == ["dead", "network-dead", "volume-dead", "image-dead"]
    assert found.networks == ["network-dead"]
    assert (found.containers, found.volumes, found.images) == (["dead"], ["volume-dead"], ["image-dead"])
    assert bool(found)
    assert api.filters == [{"label": "assize.home=h"}] * 4


def test_nothing_to_reap() -> None:
    """The engine says null for no volumes."""
    found = reaped(FakeApi([], None, []), set())
    assert not found


@pytest.mark.parametrize("status", [404, 409])
def test_somebody_else_removes_at_the_same_time(status: int) -> None:
    """Gone already, or going: the rest is still reaped."""
    api = FakeApi([labelled("a", "x/1"), labelled("b", "x/1")], [], [labelled("c", "x/1")])
    api.errors["a"] = api_error(status)
    reaped(api, set())
    assert api.removed == ["b", "c"]


def test_an_engine_that_fails_is_told() -> None:
    """A reaper that cannot reap must not report a clean host."""
    api = FakeApi([labelled("a", "x/1")], [], [])
    api.errors["a"] = api_error(500)
    with pytest.raises(EngineCallError):
        reaped(api, set())


def test_a_network_still_in_use_is_left_for_the_next_time() -> None:
    """Its last container may be going away just now; it is not reported as removed."""
    api = FakeApi([], [], [], [labelled("a", "x/1"), labelled("b", "x/1")])
    api.errors["a"] = api_error(403)
    assert reaped(api, set()).networks == ["b"]


def test_a_network_that_somebody_else_removed() -> None:
    """Gone is gone; any other failure is told."""
    api = FakeApi([], [], [], [labelled("a", "x/1")])
    api.errors["a"] = api_error(404)
    assert reaped(api, set()).networks == ["a"]
    api.errors["a"] = api_error(500)
    with pytest.raises(EngineCallError):
        reaped(api, set())


def test_an_image_in_use_does_not_stop_it() -> None:
    """A snapshot whose container is still going away is taken the next time."""
    api = FakeApi([], [], [labelled("a", "x/1"), labelled("b", "x/1")])
    api.errors["a"] = api_error(409)
    reaped(api, set())
    assert api.removed == ["b"]
