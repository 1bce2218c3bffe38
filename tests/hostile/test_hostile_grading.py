"""Agents that aim at the verdict (group grading), graded fresh and in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.attempts import AttemptOrder
from scoring.vocabulary import Outcome, Reason

pytestmark = pytest.mark.docker

Hostile = Callable[..., AttemptOrder]

WRONG = {Reason.WRONG_OUTPUT}
SILENT = {Reason.NO_VERDICT, Reason.TAMPERING}

IMPORTING = (
    'cd / && python3 -c \'import sys; sys.path.insert(0, "/tmp"); import solution;'
    'ok = solution.add(2, 3) == 5; open("/logs/verifier/reward.txt", "w").write(str(int(ok)))\''
)
"""A weak hidden test, as real packs have them: it runs the agent's code as itself."""

PLANTED = (
    "mkdir -p /tests /assize; for f in /logs/verifier /logs /tmp /tmp/logs; do mkdir -p $f;"
    "echo 1 > $f/reward.txt; echo '{\"reward\": 1}' > $f/reward.json; done;"
    "printf '/tests\\0' > /assize/deleted;"
    "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh"
)
OVERWRITER = (
    "setsid sh -c 'while :; do for f in /tests/*; do [ -f $f ] && echo true > $f; done; sleep 0.01; done'"
    " >/dev/null 2>&1 &"
)
HIJACK = (
    "for b in cat bash sh python3 echo rm sleep; do for d in /usr/local/bin /usr/bin /bin /usr/local/sbin; do"
    " printf '#!/bin/dash\\necho done\\nexit 0\\n' > $d/.x && chmod +x $d/.x && mv $d/.x $d/$b; done; done"
)
HOME_PLANTS = (
    "for d in ~ /root; do mkdir -p $d/.local/lib/python3.11/site-packages; done; mkdir -p /home/new/.config;"
    "for d in ~ /root /home/new /tmp; do echo 'exit 0' > $d/.bashrc; cp $d/.bashrc $d/.profile; done;"
    "for d in ~ /root; do for n in usercustomize sitecustomize; do"
    " echo 'import os; os._exit(0)' > $d/.local/lib/python3.11/site-packages/$n.py; done; done;"
    "echo 'import os; os._exit(0)' > /usr/lib/python3/dist-packages/z.pth;"
    "echo 'export PATH=/tmp' > /etc/profile.d/x.sh; echo /tmp/evil.so > /etc/ld.so.preload"
)
TEST_TOOL = (
    "printf 'import pytest\\n@pytest.hookimpl(hookwrapper=True)\\n"
    "def pytest_runtest_makereport(item, call):\\n"
    '    o = yield\\n    o.get_result().outcome = "passed"\\n\' > /tmp/conftest.py;'
    "printf '[pytest]\\naddopts=--collect-only -q\\n' > /tmp/pytest.ini;"
    "for m in random json unittest typing; do echo 'import os; os._exit(0)' > /tmp/$m.py; done"
)


def test_what_is_planted_does_not_reach_the_verifier(siege: Any, hostile: Hostile) -> None:
    """grade-plant-reward, -test-overwriter, -path-hijack, -conftest: only work crosses, tests come last."""
    scripts = {
        "reward": PLANTED,
        "overwriter": OVERWRITER,
        "path": HIJACK,
        "home": HOME_PLANTS,
        "test tool": TEST_TOOL,
    }
    siege.all_fail({name: hostile(f"({script}); exit 0") for name, script in scripts.items()}, WRONG)


def test_home_and_program_plants_are_named_as_refused(siege: Any, hostile: Hostile) -> None:
    """A whole new folder is no vehicle: each path in it is judged by itself."""
    script = (
        "rm -rf /home; mkdir -p /home/u/.local/lib /home/u/work; touch /home/u/.local/lib/x /home/u/work/y;"
        "rm -rf /opt; mkdir -p /opt/tools/bin /opt/data; touch /opt/tools/bin/bash /opt/data/z"
    )
    test = (
        "[ ! -e /home/u/.local ] && [ -e /home/u/work/y ] && [ -e /opt/data/z ]"
        " && echo 1 > /logs/verifier/reward.txt"
    )
    assert siege.run(hostile(script, test)).decision.outcome is Outcome.PASSED


ATTACKS = {
    "os exit": "import os; os._exit(0)",
    "sys exit": "import sys; sys.exit(0)",
    "kill": "import os, signal; os.kill(1, signal.SIGTERM); os.kill(-1, signal.SIGKILL)",
    "flood": "print('x' * (2 << 20))",
    "memory": "b = bytearray(300 << 20)",
    "fifo": "import os; os.mkfifo('/logs/verifier/reward.txt'); os._exit(0)",
    "link": "import os; os.symlink('/tmp/solution.py', '/logs/verifier/reward.json'); os._exit(0)",
    "folder": "import os; os.rmdir('/logs/verifier'); os.symlink('/tmp', '/logs/verifier'); os._exit(0)",
    "deep": "open('/logs/verifier/reward.json', 'w').write('[' * 60000); raise SystemExit",
    "number": "open('/logs/verifier/reward.json', 'w').write('{\"reward\": 1e999999999}'); raise SystemExit",
    "huge": "open('/logs/verifier/reward.txt', 'w').truncate(1 << 40); raise SystemExit",
}


def solution(code: str) -> str:
    """An agent's script that leaves `code` to be imported by the tests."""
    return f"cat > /tmp/solution.py <<'EOS'\n{code}\nEOS"


def test_code_that_attacks_while_it_is_tested(siege: Any, hostile: Hostile) -> None:
    """grade-exit-zero and worse: a silent or broken verifier is the agent's once the oracle passed there."""
    orders = {name: hostile(solution(code), IMPORTING) for name, code in ATTACKS.items()}
    siege.all_fail(orders, SILENT)
    siege.fails(hostile(solution("def add(a, b): return a + b + 1"), IMPORTING), WRONG)


def test_code_that_hangs_the_verifier(siege: Any, hostile: Hostile) -> None:
    """grade-hang-verifier: the verifier has its own clock."""
    order = hostile("echo 'import time; time.sleep(600)' > /tmp/solution.py", IMPORTING)
    order = replace(order, caps=replace(order.caps, grade_wall_ms=1_500))
    assert siege.fails(order, {Reason.NO_VERDICT}).observations["grader_clock"] == "wall"


DEEP = (
    "python3 -c \"import os; os.chdir('/tmp');"
    " [(os.mkdir('d' * 200), os.chdir('d' * 200)) for _ in range(300)]\""
)
ODD_VERDICT_NAMES = r"""
import os
os.chdir("/logs/verifier")
for i in range(12):
    open(f"file-{i}", "w").write("x")
    open(b"bad-\xff-%d" % i, "w").write("x")
open("new\nline", "w").write("x")
open("n" * 255, "w").write("x")
os.makedirs("a/b/c")
open("a/b/c/d", "w").write("x")
for i in range(300):
    open(f"many-{i}", "w").write("x")
os.chdir("a")
for i in range(40):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
"""


def test_odd_files_beside_the_verdict(siege: Any, hostile: Hostile) -> None:
    """Names in the verifier's folder end up in the manifest: none may make the evidence unwritable."""
    siege.fails(hostile(solution(ODD_VERDICT_NAMES), IMPORTING), WRONG | SILENT)


FORGE = """
import atexit
def add(a, b):
    return 0
def plant():
    open('/logs/verifier/reward.json', 'w').write('{{"reward": 1}}')
    open('/logs/verifier/reward.k', 'w').truncate({size})
atexit.register(plant)
"""


def test_a_flood_does_not_hide_the_tests_own_verdict(siege: Any, hostile: Hostile) -> None:
    """A forged reward.json followed by more than is read must not outlive the honest reward.txt after it."""
    sizes = (40 << 20, 1 << 40)
    orders = {str(size): hostile(solution(FORGE.format(size=size)), IMPORTING) for size in sizes}
    siege.all_fail(orders, SILENT)


RUINS = {
    "no sleep": "rm -rf /usr/bin/sleep /bin/sleep",
    "trojan sleep": "printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/sleep",
    "no bash": "rm -f /usr/bin/bash /bin/bash",
    "no init": "rm -rf /sbin/docker-init /usr/sbin; echo x > /usr/sbin",
    "looping logs": "rm -rf /logs /tests; ln -s logs /logs; ln -s / /tests",
    "no workspace": "rm -rf /tmp; echo x > /tmp",
    "piped users": "rm -f /etc/passwd /etc/group; mkfifo /etc/passwd; mkdir /etc/group",
    "endless groups": "truncate -s 1T /etc/group",
    "whiteouts": "touch /tmp/.wh. /tmp/.wh.. /tmp/.wh..wh..opq /tmp/.wh.x /.wh.tmp",
    "deep": DEEP,
    "nothing left": "rm -rf /usr /bin /lib /lib64 2>/dev/null",
    "kernel places": "rm -rf /proc /sys /dev /etc/hosts 2>/dev/null; true",
}


def test_in_place_a_broken_file_system_is_the_agents(siege: Any, hostile: Hostile) -> None:
    """Graded in place, all that the verifier starts with was in the agent's hands: no re-run for a ruin."""
    orders = {name: hostile(f"({script}); exit 0", grading="in_place") for name, script in RUINS.items()}
    siege.all_fail(orders, {*WRONG, *SILENT, Reason.DISK_LIMIT, Reason.CRASH})
