"""Limits of a provider over every relay of a host (issue 4, deliver 6): locks that death gives back."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.relay import host_limits
from workers.relay.config import Provider, RelayConfig
from workers.relay.errors import RelayError
from workers.relay.gate import Gate
from workers.relay.host_limits import HostLimits, limits_folder

ADDRESS = "http://p.test/v1"
SOON_S = 20.0

HOLDER = """
import asyncio, sys
from pathlib import Path
from workers.relay.config import Provider
from workers.relay.gate import Gate

async def main():
    gate = Gate(Provider("p", "http://p.test/v1", "key", max_parallel=1), Path(sys.argv[1]))
    async with gate.place():
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
"""Another relay of this host that never gives its place back by itself."""


def provider(address: str = ADDRESS, **limits: int) -> Provider:
    return Provider("p", address, "key", **limits)  # type: ignore[arg-type]


class Crowd:
    """Counts who is inside, and lets them out one by one."""

    def __init__(self) -> None:
        self.inside = self.most = self.came = 0
        self.changed = asyncio.Condition()
        self.out = asyncio.Semaphore(0)

    async def call(self, gate: Gate) -> None:
        async with gate.place():
            self.inside, self.came = self.inside + 1, self.came + 1
            self.most = max(self.most, self.inside)
            async with self.changed:
                self.changed.notify_all()
            await self.out.acquire()
            self.inside -= 1

    async def until(self, came: int) -> None:
        async with asyncio.timeout(SOON_S), self.changed:
            await self.changed.wait_for(lambda: self.came >= came)


def test_the_gates_of_two_relays_share_the_places(tmp_path: Path) -> None:
    """Eight calls through two relays with two places: never three inside, and all get in."""

    async def work() -> tuple[int, int]:
        gates = [Gate(provider(max_parallel=2), tmp_path) for _ in range(2)]
        crowd = Crowd()
        async with asyncio.timeout(SOON_S), asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(crowd.call(gates[number % 2]))
            for came in range(2, 9):
                await crowd.until(came)
                crowd.out.release()
            crowd.out.release()
        return crowd.most, crowd.came

    assert asyncio.run(work()) == (2, 8)


def test_without_a_folder_gates_know_nothing_of_each_other() -> None:
    """The test above sees the folder's work, not a coincidence."""

    async def work() -> int:
        gates = [Gate(provider(max_parallel=2)) for _ in range(2)]
        crowd = Crowd()
        async with asyncio.timeout(SOON_S), asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(crowd.call(gates[number % 2]))
            await crowd.until(4)
            for _ in range(8):
                crowd.out.release()
        return crowd.most

    assert asyncio.run(work()) == 4


def test_another_address_has_places_of_its_own(tmp_path: Path) -> None:
    """Limits are those of one provider."""

    async def work() -> int:
        crowd = Crowd()
        gates = [Gate(provider(f"http://{name}.test", max_parallel=1), tmp_path) for name in ("a", "b")]
        async with asyncio.TaskGroup() as group:
            for gate in gates:
                group.create_task(crowd.call(gate))
            await crowd.until(2)
            crowd.out.release()
            crowd.out.release()
        return crowd.most

    assert asyncio.run(work()) == 2


def test_a_smaller_limit_counts_the_places_of_a_larger_one(tmp_path: Path) -> None:
    """A home that allows itself one place waits for it while another home has that one of its three."""

    async def work() -> list[str]:
        wide, narrow = (HostLimits(tmp_path, provider(max_parallel=most)) for most in (3, 1))
        seen: list[str] = []

        async def late() -> None:
            async with narrow.place():
                seen.append("narrow")

        async with wide.place():
            waiting = asyncio.create_task(late())
            async with wide.place():  # of the wide one's own, two are left
                seen.append("wide")
            await asyncio.sleep(3 * host_limits.LOOK_S)
            seen.append("first place given back")
        await asyncio.wait_for(waiting, SOON_S)
        return seen

    assert asyncio.run(work()) == ["wide", "first place given back", "narrow"]


def test_a_killed_relay_gives_its_place_back(tmp_path: Path) -> None:
    """By the kernel: nothing of ours has to notice."""

    async def work(child: subprocess.Popen[bytes]) -> None:
        place = Gate(provider(max_parallel=1), tmp_path).place()
        entering = asyncio.create_task(place.__aenter__())
        await asyncio.sleep(3 * host_limits.LOOK_S)
        assert not entering.done()
        child.kill()
        await asyncio.wait_for(entering, SOON_S)
        await place.__aexit__(None, None, None)

    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        asyncio.run(work(child))


def test_a_call_that_is_cut_while_it_waits_or_runs_leaves_nothing_locked(tmp_path: Path) -> None:
    """Otherwise a host would lose a provider one place at a time."""

    async def work() -> None:
        gate, other = (Gate(provider(max_parallel=1), tmp_path) for _ in range(2))
        crowd = Crowd()
        inside = asyncio.create_task(crowd.call(gate))
        await crowd.until(1)
        waiting = asyncio.create_task(crowd.call(other))
        await asyncio.sleep(2 * host_limits.LOOK_S)
        for task in (waiting, inside):
            task.cancel()
        await asyncio.gather(waiting, inside, return_exceptions=True)
        async with asyncio.timeout(SOON_S), other.place():
            return

    asyncio.run(work())


def test_the_calls_of_two_relays_keep_one_distance(tmp_path: Path) -> None:
    """1,200 a minute is one in 50 ms, whichever relay it comes from: the last of six starts after 250 ms."""

    async def work() -> list[float]:
        gates = [Gate(provider(requests_per_minute=1_200), tmp_path) for _ in range(2)]
        begin, found = time.monotonic(), list[float]()

        async def call(gate: Gate) -> None:
            async with gate.place():
                found.append(time.monotonic() - begin)

        await asyncio.gather(*(call(gates[number % 2]) for number in range(6)))
        return sorted(found)

    found = asyncio.run(work())
    for number, at in enumerate(found):
        assert at >= 0.05 * number - 0.001, found


def test_a_turn_file_that_is_locked_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """The event loop goes on while another relay writes down its turn."""

    async def work() -> None:
        gate = Gate(provider(requests_per_minute=60_000), tmp_path)
        async with gate.place():
            pass
        (path,) = tmp_path.glob("*/next")
        file = os.open(path, os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX)
        entering = asyncio.create_task(gate.place().__aenter__())
        await asyncio.sleep(0.02)
        assert not entering.done()
        os.close(file)
        await asyncio.wait_for(entering, SOON_S)

    asyncio.run(work())


def test_the_folder_is_this_users_alone(tmp_path: Path) -> None:
    """Made once with mode 0700, found again, named after this boot."""
    made = limits_folder(tmp_path)
    assert made == limits_folder(tmp_path)
    assert made.stat().st_mode & 0o777 == 0o700
    assert Path("/proc/sys/kernel/random/boot_id").read_text()[:8] in made.name


@pytest.mark.parametrize("how", ["open to others", "a link"])
def test_a_folder_that_somebody_else_prepared_is_refused(tmp_path: Path, how: str) -> None:
    """In a folder like /tmp anybody may have been there first."""
    made = limits_folder(tmp_path)
    if how == "a link":
        made.rename(tmp_path / "elsewhere")
        made.symlink_to(tmp_path / "elsewhere")
    else:
        made.chmod(0o777)
    with pytest.raises(RelayError, match="not a folder of this user alone"):
        limits_folder(tmp_path)


def test_a_place_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A lock must never be taken on a file outside of the folder."""

    async def work() -> None:
        limits = HostLimits(tmp_path, provider(max_parallel=1))
        async with limits.place():
            pass
        (place,) = tmp_path.glob("*/place.0")
        place.unlink()
        place.symlink_to(tmp_path / "target")
        with pytest.raises(OSError, match="symbolic link"):
            async with limits.place():
                pytest.fail("got in")

    asyncio.run(work())
    assert not (tmp_path / "target").exists()


def test_the_folder_reaches_the_relay_through_its_pipe(tmp_path: Path) -> None:
    """`as_data` and `from_data` are inverses with and without it."""
    for folder in (None, tmp_path):
        config = RelayConfig((provider(max_parallel=3),), {"a": 1}, limits_dir=folder)
        assert RelayConfig.from_data(config.as_data()) == config


def test_no_key_is_in_the_folder(tmp_path: Path) -> None:
    """Neither in a name nor in a file."""

    async def work() -> None:
        key = "sk-canary-0123456789"
        limited = Provider("p", ADDRESS, key, max_parallel=1, requests_per_minute=6_000)
        async with Gate(limited, tmp_path).place():
            pass

    asyncio.run(work())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"place.0", "next"}
    assert not any("canary" in str(path) or b"canary" in path.read_bytes() for path in files)
