"""The grading harness of coding-core, run on this machine with small checks: verdicts, limits, separation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

PACK = Path(__file__).parents[3] / "orchestrator" / "packs" / "bundled" / "coding-core"
HARNESS = next((PACK / "tasks").glob("*/tests/harness.py"))
PYTHON = Path("/usr/bin/python3")
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
HEAD = "from harness import *\nfrom harness import _settings\n"


def usable() -> bool:
    """Root with a Python of the system and the right to make a process namespace."""
    if os.geteuid() != 0 or not PYTHON.exists() or shutil.which("unshare") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not usable(), reason="needs root and a process namespace of its own")


class Bench:
    """A workspace, a tests folder with the harness, and a logs folder, as in the grading container."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "workspace").mkdir()
        (root / "tests").mkdir(mode=0o700)
        (root / "logs" / "verifier").mkdir(parents=True, mode=0o700)
        for name in ("harness.py", "drivers.py"):
            shutil.copy(HARNESS.parent / name, root / "tests" / name)

    def grade(self, checks: str) -> tuple[str | None, dict[str, bool], str]:
        (self.root / "tests" / "checks.py").write_text(HEAD + checks, "utf-8")
        harness = self.root / "tests" / "harness.py"
        done = subprocess.run(
            [*APART, str(PYTHON), "-I", "-B", str(harness), "--root-dir", str(self.root)],
            capture_output=True, check=False, text=True, timeout=60,
        )  # fmt: skip
        reward = self.root / "logs" / "verifier" / "reward.txt"
        if not reward.exists():
            return None, {}, done.stdout + done.stderr
        listed = json.loads((self.root / "logs" / "verifier" / "checks.json").read_text("utf-8"))
        assert listed["total"] == len(listed["checks"])
        assert listed["passed"] == sum(item["ok"] for item in listed["checks"])
        names = {item["name"]: item["ok"] for item in listed["checks"]}
        return reward.read_text().strip(), names, done.stdout


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_reward_is_one_only_if_every_check_holds(bench: Bench) -> None:
    """Rule: one failing check is a failed task, and all checks are listed."""
    good = "@check('a')\ndef a(): equal(1, 1)\n"
    assert bench.grade(good)[:2] == ("1", {"a": True})
    bad = "@check('b')\ndef b(): return False\n@check('c')\ndef c(): equal(True, 1)\n"
    reward, listed, _ = bench.grade(good + bad)
    assert (reward, listed) == ("0", {"a": True, "b": False, "c": False})


def test_no_checks_is_no_pass(bench: Bench) -> None:
    """Rule: no task passes by doing nothing, not even an empty list of checks."""
    assert bench.grade("")[0] == "0"


def test_a_broken_grader_gives_no_verdict(bench: Bench) -> None:
    """Rule: a fault of the grader is never a reward of 0."""
    assert bench.grade("raise RuntimeError('grader')\n")[0] is None


def test_children_are_another_user_with_a_clean_environment(bench: Bench) -> None:
    """Rule (sandbox.md 3.2, H): uid 65532, no groups, only our variables."""
    reward, _, said = bench.grade(
        "@check('who')\ndef who():\n"
        "    done = run(['/bin/sh', '-c', 'id -u; id -G; env | cut -d= -f1 | sort | xargs'], scratch())\n"
        "    lines = done.text.split('\\n')\n"
        "    equal(lines[:2], ['65532', '65532'])\n"
        "    ours = {'HOME', 'LANG', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'PYTHONHASHSEED', 'TMPDIR', 'TZ'}\n"
        "    expect(set(lines[2].split()) <= ours | {'PWD', 'OLDPWD', 'SHLVL', '_'}, lines[2])\n"
    )
    assert reward == "1", said


def test_children_reach_neither_tests_nor_verdict(bench: Bench) -> None:
    """Rule (H): workspace code can neither read the hidden tests nor write the reward."""
    (bench.root / "workspace" / "evil.sh").write_text(
        f"cat {bench.root}/tests/checks.py; ls {bench.root}/tests\n"
        f"echo 1 > {bench.root}/logs/verifier/reward.txt\n"
    )
    reward, _, said = bench.grade(
        "@check('x')\ndef x():\n    equal(run(['/bin/sh', 'evil.sh'], scratch()).text, '')\n"
        "@check('bad')\ndef bad(): return False\n"
    )
    assert reward == "0", said


def test_links_pipes_and_locked_files_are_not_copied(bench: Bench) -> None:
    """Rule: a hostile workspace cannot make the grader read elsewhere or hang."""
    work = bench.root / "workspace"
    (work / "plain").write_text("x")
    (work / "link").symlink_to("/etc/passwd")
    (work / "dir").symlink_to("/etc")
    os.mkfifo(work / "pipe")
    reward, _, said = bench.grade(
        "import os\n@check('x')\ndef x(): equal(sorted(os.listdir(scratch())), ['plain'])\n"
        "def refused(name):\n    try: read_text(name)\n    except OSError: return True\n    return False\n"
        "@check('y')\ndef y(): return refused('link')\n@check('z')\ndef z(): return refused('dir/passwd')\n"
    )
    assert reward == "1", said


def test_hanging_and_flooding_children_are_ended(bench: Bench) -> None:
    """Rule: every child has a wall limit and an output limit, and leaves no process behind."""
    reward, _, said = bench.grade(
        "@check('hang')\n"
        "def hang(): expect(run(['/bin/sleep', '30'], scratch(), timeout=0.3).timed_out)\n"
        "@check('flood')\ndef flood():\n    done = run(['/usr/bin/yes'], scratch(), limit=100000)\n"
        "    expect(done.cut and len(done.stdout) < 1000000)\n"
        "@check('daemon')\ndef daemon():\n"
        "    run(['/bin/sh', '-c', 'setsid sleep 30 & sleep 0.1'], scratch(), timeout=5)\n"
        "    text = run(['/bin/sh', '-c', 'cat /proc/[0-9]*/cmdline'], scratch()).text\n"
        "    expect('harness.py' in text and 'sleep' not in text, text)\n"
        "@check('exit code')\ndef code(): equal([run(['/bin/sh', '-c', 'exit 3'], scratch()).code], [3])\n"
    )
    assert reward == "1", said


def test_answers_are_read_from_the_pipe_only(bench: Bench) -> None:
    """Rule: what the code prints is not an answer, and a child that leaves early fails the check."""
    work = bench.root / "workspace"
    code = "print('{\"ok\": 42}')\ndef f(x): return x + 1\ndef g(x): import os; os._exit(0)\n"
    (work / "mine.py").write_text(code)
    driver = "import mine\\ndef handle(q): return getattr(mine, q['f'])(q['x'])"
    reward, listed, said = bench.grade(
        f"D = '{driver.replace(chr(39), chr(92) + chr(39))}'\n"
        "@check('f')\ndef f(): equal(ask_python(D, [{'f': 'f', 'x': 1}], scratch()), [{'ok': 2}])\n"
        "@check('g')\ndef g(): ask_python(D, [{'f': 'g', 'x': 1}], scratch())\n"
    )
    assert (reward, listed) == ("0", {"f": True, "g": False}), said


def test_a_shared_step_that_fails_fails_every_check_of_it(bench: Bench) -> None:
    """Rule: the number of checks does not depend on what the workspace does."""
    reward, listed, _ = bench.grade(
        "@once\ndef step(): raise CheckFailed('no')\n"
        "@check('a')\ndef a(): step()\n@check('b')\ndef b(): step()\n@check('c')\ndef c(): pass\n"
    )
    assert (reward, listed) == ("0", {"a": False, "b": False, "c": True})


def test_no_text_stops_the_verdict(bench: Bench) -> None:
    """Rule: what the agent writes, odd characters too, never turns its failure into a grader fault."""
    reward, listed, _ = bench.grade(
        "@check('a')\ndef a(): expect(False, '\\ud800 \\x1b[2J \\udcff')\n"
        "@check('b')\ndef b(): raise RecursionError('deep')\n"
    )
    assert (reward, listed) == ("0", {"a": False, "b": False})


def test_the_budget_bounds_the_whole_run(bench: Bench) -> None:
    """Rule: checks after the budget fail at once instead of running into the verifier's limit."""
    started = time.monotonic()
    reward, listed, _ = bench.grade(
        "import time\n_settings['end'] = time.monotonic() + 0.5\n"
        "@check('a')\ndef a(): run(['/bin/sleep', '30'], scratch())\n"
        "@check('b')\ndef b(): run(['/bin/sleep', '30'], scratch())\n"
    )
    assert (reward, listed["b"]) == ("0", False)
    assert time.monotonic() - started < 25, "both children would have slept 30 s"


def test_what_hangs_uses_the_budget_up_faster_than_a_busy_machine_does(bench: Bench) -> None:
    """Rule: a slow machine costs no verdict, and one that hangs everywhere does not hold the machine."""
    reward, listed, said = bench.grade(
        "import time\n_settings['end'] = time.monotonic() + 60\n"
        "@check('slow')\ndef slow(): expect(run(['/bin/sleep', '1'], scratch()).code == 0)\n"
        "@check('kept')\ndef kept(): expect(_settings['end'] - time.monotonic() > 55)\n"
        "@check('hang')\ndef hang(): expect(run(['/bin/sleep', '30'], scratch(), timeout=1).timed_out)\n"
        "@check('charged')\ndef charged(): expect(_settings['end'] - time.monotonic() < 55)\n"
    )
    assert reward == "1", (listed, said)


def test_it_refuses_to_run_beside_other_processes(bench: Bench) -> None:
    """Rule: ending children by user id must never reach processes of anyone else on the machine."""
    (bench.root / "tests" / "checks.py").write_text(HEAD)
    done = subprocess.run(
        [str(PYTHON), "-I", "-B", str(bench.root / "tests" / "harness.py"), "--root-dir", str(bench.root)],
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "process namespace" in done.stderr
