"""The disk guard on a real engine: what it holds still goes on, what it convicts is told as ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.ids import new_id
from workers.errors import EngineCallError

if TYPE_CHECKING:
    from workers.sandbox.client import Engine
    from workers.sandbox.container import Container

pytestmark = pytest.mark.docker
MIB = 1 << 20
HOME = "guard-tests"


@pytest.fixture
def made(base_image: str) -> Iterator[Callable[..., Container]]:
    """Starts containers of the hardened profile; removed at the end."""
    from workers.sandbox.container import Container
    from workers.sandbox.profile import Limits, create_body
    from workers.sandbox.station import Station

    station = Station(None, "assize.attempt")
    found: list[Container] = []

    def make(file_bytes: int = 32 * MIB, attempt: str = "slot/1") -> Container:
        body = create_body(
            base_image,
            Limits(256 * MIB, 2000, 64, 120),
            runtime="runc",
            grader=False,
            labels={"assize.home": HOME, "assize.attempt": attempt},
            volumes={},
            workdir="/",
            file_bytes=file_bytes,
        )
        found.append(Container.create(station.engine, station.watch, f"guard-{new_id().lower()}", body))
        found[-1].start()
        return found[-1]

    yield make
    for container in found:
        with suppress(EngineCallError):
            container.remove()
    station.close()


def run(engine: Engine, container: Container, text: str, **more: Any) -> Any:
    """A command in it, as an agent's."""
    import time

    from workers.sandbox.execute import Command, run_command

    return run_command(
        engine,
        container.id,
        Command(("sh", "-c", text), "1000:1000", {}, "/tmp"),
        deadline=time.monotonic() + 60,
        cap_bytes=MIB,
        still_running=container.is_running,
        **more,
    )


def test_no_command_writes_a_file_past_the_cap(engine: Engine, made: Callable[..., Container]) -> None:
    """The limit of PID 1 is that of every command in the container, as proved on the host before."""
    from workers.sandbox.proofs import prove

    container = made(3 * MIB)
    assert prove(container.id, container.pid(), container.body)["limits"]["fileBytes"] == 3 * MIB
    text = "ulimit -f; ulimit -f unlimited && echo raised; dd if=/dev/zero of=f bs=1M count=9; stat -c %s f"
    result = run(engine, container, f"({text}) 2>/dev/null")
    assert result.stdout.decode().split() == [str(3 * MIB // 512), str(3 * MIB)]


@pytest.mark.parametrize("through_the_engine", [False, True])
def test_both_holds_stop_everything_and_let_it_go_on(
    engine: Engine, made: Callable[..., Container], through_the_engine: bool
) -> None:
    """A paused neighbour loses nothing but time, and nobody takes our pause for somebody else's."""
    from workers.sandbox.holds import PausedHold, hold_of

    container = made()
    hold = PausedHold(container) if through_the_engine else hold_of(container)
    assert isinstance(hold, PausedHold) is through_the_engine
    run(engine, container, "nohup sh -c 'while :; do date >> /tmp/ticks; done' >/dev/null 2>&1 &")
    from workers.capture.growth import written

    hold.begin()
    while not hold.settled():
        pass
    first = written(container)
    assert written(container) == first and container.is_running()
    hold.let_go()
    while written(container) == first:
        assert container.is_running()
    assert container.death(container.kill()) is None


@pytest.mark.parametrize("through_the_engine", [False, True])
def test_a_conviction_is_no_death_of_the_agents_own(
    engine: Engine, made: Callable[..., Container], through_the_engine: bool
) -> None:
    """Rule `self-death` stands before the disk's: our kill must be told as ours, whatever dies with it."""
    from workers.sandbox.freezer import Freezer
    from workers.sandbox.holds import FrozenHold, PausedHold

    container = made()
    freezer = Freezer.of(container.id)
    assert freezer is not None
    hold: Any = PausedHold(container)
    if not through_the_engine:
        hold = FrozenHold(freezer, container.ended_inside)
        hold._spared = frozenset({container.pid()})  # as on a machine too busy to have begun PID 1's child
    hold.begin()
    hold.convict()
    hold.let_go()
    assert container.death(container.kill()) is None


def test_what_kill_9_leaves_frozen_is_reaped(engine: Engine, made: Callable[..., Container]) -> None:
    """A worker that dies between freezing and thawing leaves nothing behind."""
    from workers.sandbox.freezer import Freezer
    from workers.sandbox.reaper import reap

    container = made(attempt="dead/1")
    freezer = Freezer.of(container.id)
    assert freezer is not None
    freezer.freeze()
    assert reap(engine, HOME, lambda label: label != "dead/1").containers == [container.id]
    assert engine.api.containers(all=True, filters={"id": container.id}) == []
