"""Agents that eat processes, memory, files, disk, output, CPU (hostile_agents.json, group resource)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Reason

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]

FORKS = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except OSError:
        time.sleep(60)
"""
SPIN = """
import os
for _ in range(8):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
"""
MEMORY = "b = []\nwhile True: b.append(bytearray(1 << 20))"
FILES = "import os\nfor i in range({count}): os.close(os.open(f'{folder}/{{i}}', os.O_CREAT))"
HIDDEN = """
import os, time
os.chdir('/var/tmp')
for _ in range(30):
    os.mkdir('d' * 200)
    os.chdir('d' * 200)
for number in range(4):
    with open(str(number), 'wb') as file:
        for _ in range(48):
            file.write(bytes(1 << 20))
time.sleep(60)
"""
FILL = "b = bytes(1 << 20)\nf = open('/var/tmp/fill', 'wb')\nwhile True: f.write(b); f.flush()"


def test_forks_and_spins_until_the_clock(siege: Any, hostile: Hostile) -> None:
    """res-forkbomb, res-cpu-spin: contained by pids limit and quota, ended by the host's clock."""
    orders = {
        "forks": hostile(FORKS, python=True, wall_ms=3_000),
        "spin": hostile(SPIN, python=True, wall_ms=3_000),
    }
    siege.all_fail(orders, {Reason.TIMEOUT})


def test_allocates_without_end(siege: Any, hostile: Hostile) -> None:
    """res-memhog: the cgroup's own counter is the proof."""
    report = siege.fails(hostile(MEMORY, python=True), {Reason.OUT_OF_MEMORY})
    assert report.observations["agent_oom_kills"] > 0


def test_many_files(siege: Any, hostile: Hostile) -> None:
    """res-inodes: neither in the workspace nor beside it does the number of files hold the worker up."""
    places = ("/tmp", "/var/tmp", "/usr/lib")
    orders = {
        place: hostile(FILES.format(count=2_000, folder=place), python=True, wall_ms=20_000)
        for place in places
    }
    siege.all_fail(orders, {Reason.WRONG_OUTPUT})


def test_more_files_than_may_cross(siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """res-inodes: beyond the number of members, or of changes, nothing is graded and the reason says so."""
    monkeypatch.setattr("workers.capture.carry.MAX_MEMBERS", 500)
    monkeypatch.setattr("workers.capture.layer.MAX_CHANGES", 1_000)
    orders = {
        "members": hostile(FILES.format(count=600, folder="/tmp"), python=True),
        "changes": hostile(FILES.format(count=1_100, folder="/usr/lib"), python=True),
    }
    siege.all_fail(orders, {Reason.DISK_LIMIT})


def test_writes_until_the_hosts_disk_is_full(
    siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """res-disk-writable: the container is measured while it runs, and ended long before its own time."""
    monkeypatch.setattr("workers.sandbox.disk.LIMIT_BYTES", 64 << 20)
    report = siege.fails(hostile(FILL, python=True), {Reason.DISK_LIMIT})
    assert report.observations["agent_clock"] is None


def test_writes_where_no_path_reaches(siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """res-disk-writable: a folder too deep for a single path is no place to fill the disk from."""
    monkeypatch.setattr("workers.sandbox.disk.LIMIT_BYTES", 64 << 20)
    report = siege.fails(hostile(HIDDEN, python=True, wall_ms=60_000), {Reason.DISK_LIMIT})
    assert report.observations["agent_clock"] is None


def test_makes_files_until_the_host_has_none_left(
    siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """res-inodes: files are counted like bytes while the agent runs."""
    monkeypatch.setattr("workers.sandbox.disk.LIMIT_FILES", 300)
    script = FILES.format(count=20_000, folder="/var/tmp") + "\nimport time; time.sleep(60)"
    report = siege.fails(hostile(script, python=True, wall_ms=60_000), {Reason.DISK_LIMIT})
    assert report.observations["agent_clock"] is None


def test_sparse_files(siege: Any, hostile: Hostile) -> None:
    """res-sparse-artifact: bytes are counted before they are read, never believed or allocated."""
    scripts = {
        "artefact": "truncate -s 9G /tmp/out.txt",
        "sum of small ones": "mkdir /srv/x; for i in 1 2 3 4 5 6 7 8 9; do truncate -s 1M /srv/x/$i; done",
        "long name": "truncate -s 9G /tmp/$(printf 'a%.0s' $(seq 200))",
    }
    siege.all_fail({name: hostile(script) for name, script in scripts.items()}, {Reason.DISK_LIMIT})
    siege.fails(hostile("truncate -s 9G /usr/lib/sparse"), {Reason.WRONG_OUTPUT})


def test_a_file_larger_than_the_disk_limit_is_refused(siege: Any, hostile: Hostile) -> None:
    """Sparse or not, the kernel ends it at the limit of the try: nothing is left of it to be counted."""
    siege.fails(hostile("truncate -s 1T /tmp/out.txt"), {Reason.CRASH})


def test_floods_its_output(siege: Any, hostile: Hostile) -> None:
    """res-stdout-flood: the reader stops at the cap, in the foreground and after the agent's own exit."""
    scripts = ["yes", "yes >&2", "yes & exit 0", "cat /dev/zero"]
    siege.all_fail({script: hostile(script) for script in scripts}, {Reason.OUTPUT_LIMIT})
