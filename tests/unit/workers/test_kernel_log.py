"""The kernel's log tells a host without memory from a sandbox without, and no agent can write in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.sandbox.counters import Counters
from workers.sandbox.kernel_log import host_oom, host_oom_in
from workers.sandbox.runtime_crash import runtime_crashed

ASSETS = Path(__file__).parents[2] / "assets" / "faults"
DOCKER_ID = "36244c9dcc128f3edc538f89d502f4dbcaefa2222d5a7db14f5c570b985b948b"
SYSTEMD_ID = "aa" + DOCKER_ID[2:]


def records(name: str) -> list[str]:
    return (ASSETS / name).read_text().splitlines()


@pytest.mark.parametrize("container_id", [DOCKER_ID, SYSTEMD_ID])
def test_a_kill_for_want_of_memory_on_the_host_is_found(container_id: str) -> None:
    """sandbox.md 5.4: no constraint, `global_oom`, and the sandbox's own cgroup, under both drivers."""
    assert host_oom_in(records("host-oom.kmsg"), container_id)


def test_it_is_about_this_sandbox_only() -> None:
    """A neighbour's death is no excuse."""
    assert not host_oom_in(records("host-oom.kmsg"), "ff" * 32)


def test_its_own_limit_is_the_agents() -> None:
    """A record of this machine's kernel, of a sandbox that went over its own limit."""
    assert not host_oom_in(records("memcg-oom.kmsg"), DOCKER_ID)


def test_a_process_cannot_name_itself_out_of_it() -> None:
    """What an agent chooses stands behind `task=`; a record that only quotes the words is none."""
    assert not host_oom_in(records("imitated-oom.kmsg"), DOCKER_ID)


def test_the_whole_log_is_read_and_an_unreadable_one_is_not_observed(tmp_path: Path) -> None:
    """None is "not observed": a worker without the right to read the log excuses nobody."""
    assert host_oom(DOCKER_ID, ASSETS / "host-oom.kmsg") is True
    assert host_oom(DOCKER_ID, tmp_path / "absent") is None


STATE = {"ExitCode": 2, "OOMKilled": False}
IDLE = Counters(oom_kills=0, max_memory_bytes=60 << 20, pids_limit_hits=0)


@pytest.mark.parametrize(
    ("runtime", "state", "counters", "crashed"),
    [
        ("runsc", STATE, IDLE, True),
        ("runc", STATE, IDLE, False),  # there status 2 is a program's own
        ("runsc", {"ExitCode": 137, "OOMKilled": False}, IDLE, False),
        ("runsc", {"ExitCode": 2, "OOMKilled": True}, IDLE, False),
        ("runsc", STATE, Counters(1, 60 << 20, 0), False),
        ("runsc", STATE, Counters(0, 60 << 20, 3), False),  # a fork load drove it there
        ("runsc", STATE, Counters(0, 200 << 20, 0), False),
        ("runsc", STATE, Counters(None, 60 << 20, 0), False),
        ("runsc", STATE, Counters(0, None, 0), False),
        ("runsc", STATE, Counters(0, 60 << 20, None), False),
        ("runsc", None, IDLE, False),
    ],
)
def test_only_a_crash_without_load_is_the_runtimes(
    runtime: str, state: dict[str, object] | None, counters: Counters, crashed: bool
) -> None:
    """sandbox.md 5.18: status 2, no limit reached, memory far below; anything unknown speaks against it."""
    assert runtime_crashed(runtime, state, counters, 256 << 20) is crashed
