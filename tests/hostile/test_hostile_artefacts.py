"""What agents leave behind to fool, stop or break the collector (group artifact)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Outcome, Reason
from workers.errors import EngineCallError

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]

WRONG = {Reason.WRONG_OUTPUT}
NAMES = r"""
import os
os.chdir("/tmp")
open(b"a\n\x1b[31m\xff\xe2\x80\xae", "wb").write(b"x")
open(b"\xed\xa0\x80surrogate", "wb").write(b"x")
open("n" * 255, "w").write("x")
os.mkdir("d")
open(b"d/\xff\xfe", "wb").write(b"x")
os.symlink(b"\xff\xfe", b"d/link-\xff")
open("d/back\\slash", "w").write("x")
open("d/.wh.file", "w").write("x")
open("d/%2e%2e%2f?path=%2Fetc", "w").write("x")
"""
DEEP = """
import os
os.chdir('{where}')
for _ in range({levels}):
    os.mkdir('d' * 200)
    os.chdir('d' * 200)
"""
HARD_LINKS = (
    "mkdir /tmp/a; echo x > /tmp/a/f; ln /tmp/a/f /tmp/a/g; ln /tmp/a/f /srv/h;"
    "ln -s f /tmp/a/s; ln -P /tmp/a/s /tmp/a/t"
)
LONG_LINK = "import os; os.symlink('x/' * 2000, '/tmp/long'); os.symlink('y' * 4095, '/tmp/longer')"


@pytest.fixture(params=["layer", "engine"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read a dead container: its own layer on this host, and the engine's API."""
    if request.param == "engine":
        monkeypatch.setattr("workers.capture.layer.OverlayLayer.of", lambda inspected: None)
    return str(request.param)


def test_odd_names(siege: Any, hostile: Hostile, reading: str) -> None:
    """art-names: bytes that are no text, control characters, long names end up escaped in the evidence."""
    places = ("/tmp", "/srv")
    siege.all_fail({place: hostile(NAMES, python=True, workdir=place) for place in places}, WRONG)


def test_deep_trees(siege: Any, hostile: Hostile, reading: str) -> None:
    """art-names: paths longer than the system's own limit are the agent's, wherever they lie."""
    places = [("/tmp", 10), ("/tmp", 300), ("/srv", 300), ("/usr/lib", 300), ("/root", 300)]
    orders = {
        f"{where} {levels}": hostile(DEEP.format(where=where, levels=levels), python=True)
        for where, levels in places
    }
    siege.all_fail(orders, {*WRONG, Reason.DISK_LIMIT})


def test_a_link_to_the_hidden_tests(siege: Any, hostile: Hostile, want_canary: str) -> None:
    """art-symlink-secret: no chain of links makes the verifier compare its own secret with itself."""
    scripts = [
        "ln -s /tests/test.sh /tmp/out.txt",
        "ln -s ../tests/test.sh /tmp/out.txt",
        "ln -s / /tmp/root; ln -s root/tests/test.sh /tmp/out.txt",
        "ln -s /usr /tmp/u; ln -s u/../tests/test.sh /tmp/out.txt",
        "ln -s /usr/lib /tmp/u; ln -s /tmp/u/../../tests/test.sh /tmp/out.txt",
        "mkdir /tmp/a; ln -s .. /tmp/a/b; ln -s a/b/../tests/test.sh /tmp/out.txt",
        "ln -s /tests /tmp/t; ln -s t/test.sh /tmp/out.txt",
        "ln -s /proc/self/root /tmp/r; ln -s r/tests/test.sh /tmp/out.txt",
        "rm -rf /srv; ln -s / /srv; ln -s /srv/tests/test.sh /tmp/out.txt",
        "rm -rf /opt; ln -s /tests /opt; ln -s /opt/test.sh /tmp/out.txt",
        "ln -s /../tests/test.sh /tmp/out.txt",
        "ln -s /dev/../tests/test.sh /tmp/out.txt",
    ]
    siege.all_fail({script: hostile(script, want_canary) for script in scripts}, WRONG)


def test_things_that_are_no_plain_files(siege: Any, hostile: Hostile, reading: str) -> None:
    """art-symlink-secret, art-fifo, art-setuid: read, dropped or carried, never followed or waited for."""
    scripts = [
        "ln -sf /etc/shadow /tmp/out.txt; ln -sf / /tmp/root",
        "ln -s out.txt /tmp/out.txt; ln -s b /tmp/a; ln -s a /tmp/b",
        "ln -s /usr/lib /tmp/dir; mkdir -p /tmp/real; ln -s real /tmp/other; echo x > /tmp/other/f",
        "mkfifo /tmp/out.txt",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/out.txt\")'",
        "cp /bin/sh /tmp/sh; chmod 6777 /tmp/sh; ln /tmp/sh /tmp/sh2; ln -P /etc/passwd /tmp/p || true",
        HARD_LINKS,
        f'python3 -c "{LONG_LINK}"',
        "chmod 000 /tmp; chmod 000 /srv",
    ]
    if reading == "engine":  # each costs the engine a walk over the image: only what it could stumble over
        scripts = [scripts[1], scripts[6], scripts[7]]
    siege.all_fail({script: hostile(script) for script in scripts}, WRONG)


def test_one_kind_of_thing_where_another_was(siege: Any, hostile: Hostile, reading: str) -> None:
    """Replaced folders, links, workspaces fail the agent's own try; a refusing engine buys no re-run."""
    scripts = [
        "rm -f /etc/motd; mkdir /etc/motd; echo x > /etc/motd/x",
        "for f in /var/run /var/lock; do rm $f; mkdir $f; echo x > $f/x; done",
        "rm -rf /srv; echo x > /srv",
        "rm -rf /srv; ln -s /usr /srv",
        "rm -rf /var/cache; mkdir /var/cache; echo x > /var/cache/x",
        "rm -rf /tmp; echo x > /tmp",
        "rm -rf /tmp; ln -s tmp /tmp",
        "rm -rf /tmp",
        "rm -rf /logs; ln -s logs /logs",
        "rm -rf /logs /assize /home /root /srv /opt /mnt /media",
    ]
    if reading == "engine":
        scripts = scripts[:6]
    ends = {*WRONG, Reason.NO_VERDICT, Reason.CRASH}
    siege.all_fail({script: hostile(script) for script in scripts}, ends)


def test_a_replaced_link_is_not_written_through(siege: Any, hostile: Hostile, reading: str) -> None:
    """A folder in the place of a link of the image arrives as a folder; nothing lands behind the link."""
    test = "[ -f /var/run/x ] && [ ! -e /run/x ] && [ ! -L /var/run ] && echo 1 > /logs/verifier/reward.txt"
    report = siege.run(hostile("rm /var/run; mkdir /var/run; echo x > /var/run/x", test))
    assert report.decision.outcome is Outcome.PASSED


def test_a_declared_artefact_is_not_what_it_should_be(siege: Any, hostile: Hostile, reading: str) -> None:
    """The pack names the path, the agent decides what lies on the way to it."""
    scripts = {
        "loop above": "ln -s out /tmp/out",
        "file above": "echo x > /tmp/out",
        "loop": "mkdir -p /tmp/out; ln -s result /tmp/out/result",
        "fifo": "mkdir -p /tmp/out; mkfifo /tmp/out/result",
        "link above": "ln -s /etc /tmp/out; ln -s /etc/passwd /tmp/result",
        "kernel": "ln -s /proc/1 /tmp/out",
        "missing": "true",
    }
    declared = ({"source": "/tmp/out/result"},)
    orders = {name: hostile(script, artifacts=declared, separate=True) for name, script in scripts.items()}
    orders["both"] = hostile(scripts["loop above"], artifacts=declared)
    siege.all_fail(orders, WRONG)


def test_work_in_a_new_folder_beside_a_similar_name_passes(
    siege: Any, hostile: Hostile, reading: str
) -> None:
    """The honest side: many files, names that sort between a folder and its content, replaced folders."""
    script = (
        "set -e; mkdir -p /srv/a/b /srv/a-b /srv/a.b; for i in $(seq 100); do echo $i > /srv/a/b/$i; done;"
        "echo x > /srv/a-b/x; echo x > /srv/a.b/x; chmod 700 /srv/a; rm -rf /var/cache; mkdir /var/cache;"
        "echo x > /var/cache/x; t=$(mktemp); rm $t; printf 'caf\\351' > /srv/caf; mkdir /srv/$(cat /srv/caf);"
        "touch /srv/$(cat /srv/caf)/in; for i in $(seq 80); do echo $i > /var/tmp/$i; done"
    )
    test = (
        "set -e; [ $(ls /srv/a/b | wc -l) = 100 ]; [ -f /srv/a-b/x ]; [ -f /srv/a.b/x ];"
        "[ $(ls /var/cache) = x ]; [ $(stat -c %a /tmp) = 1777 ]; [ -f /srv/$(cat /srv/caf)/in ];"
        "[ $(ls /var/tmp | wc -l) = 80 ]; echo 1 > /logs/verifier/reward.txt"
    )
    report = siege.run(hostile(script, test, workdir="/srv"))
    assert report.decision.outcome is Outcome.PASSED


def test_a_diff_that_cannot_be_made_does_not_cost_the_verdict(
    siege: Any, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The diff is for people; an engine that fails for it must not turn a failure into a re-run."""

    def broken(self: object, paths: object) -> dict[str, bytes]:
        raise EngineCallError("get_archive", "APIError", "boom", 500)

    monkeypatch.setattr("workers.capture.source.LayerSource.originals", broken)
    siege.fails(hostile("echo changed > /etc/motd; echo wrong > /tmp/out.txt"), WRONG)
