"""A program that is forked is one of its own: arguments, environment, folder, files, signals, exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assets.programs import forks
from tests.assets.programs.forks import ASSIZE, ROOT, TEXT
from tests.assets.services.own import wait_until

TELLS = "import os, sys; print(sys.argv, dict(os.environ), os.getcwd()); sys.stderr.write('oh'); sys.exit(7)"


def test_a_program_has_what_it_was_given(tmp_path: Path) -> None:
    """And nothing of the server's: its environment, its folder, its open files."""
    ran = forks.run([TEXT, TELLS, "a", "b c"], env={"ONLY": "this"}, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (7, "oh")
    assert ran.stdout == f"['-c', 'a', 'b c'] {{'ONLY': 'this'}} {tmp_path}\n"
    listed = forks.run([TEXT, "import os; print(os.listdir('/proc/self/fd'))"], env={}, cwd=tmp_path)
    assert listed.stdout == "['0', '1', '2', '3']\n", "3 is the folder that is listed"


def test_a_script_and_the_command_line(tmp_path: Path) -> None:
    """The three kinds of programs; an error that nobody catches ends as it does anywhere."""
    script = tmp_path / "script.py"
    script.write_text("import sys\nassert __name__ == '__main__'\nraise ValueError(sys.argv)\n")
    ran = forks.run([str(script), "x"], env={}, cwd=tmp_path)
    assert ran.returncode == 1 and ran.stderr.endswith(f"ValueError: {[str(script), 'x']}\n")
    ran = forks.run([ASSIZE, "--version"], env={}, cwd=tmp_path)
    assert ran.returncode == 0 and ran.stdout.startswith("assize, version")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(tmp_path: Path, number: signal.Signals) -> None:
    """By its own process id, which leads a session; the exit code says which one it was."""
    with (tmp_path / "out").open("wb") as out:
        text = "import os, signal; print(os.getpid(), os.getsid(0), flush=True); signal.pause()"
        process = forks.start([TEXT, text], env={}, cwd=tmp_path, stdout=out, stderr=out)
    wait_until(lambda: (tmp_path / "out").read_text().endswith("\n"), "it has begun")
    assert (tmp_path / "out").read_text() == f"{process.pid} {process.pid}\n"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.killpg(process.pid, number)
    assert process.wait(60) == process.poll() == -number
    process.send_signal(number)  # nobody is there any more, and nobody else is hit


def test_ctrl_c_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    """As in an interpreter that a terminal started."""
    with (tmp_path / "out").open("wb") as out:
        text = (
            "import signal\ntry:\n print(1, flush=True); signal.pause()\nexcept KeyboardInterrupt:\n print(2)"
        )
        process = forks.start([TEXT, text], env={}, cwd=tmp_path, stdout=out, stderr=out)
    wait_until(lambda: (tmp_path / "out").read_text() == "1\n", "it has begun")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0 and (tmp_path / "out").read_text() == "1\n2\n"


def test_what_must_not_outlive_the_tests_does_not(tmp_path: Path) -> None:
    """The process of the tests is killed: its programs are, too, those that asked for it."""
    text = (
        "import os, signal, sys; from pathlib import Path; from tests.assets.programs import forks\n"
        "sleeps = [forks.TEXT, 'import signal; signal.pause()']\n"
        "with open(os.devnull, 'wb') as out:\n"
        " one = forks.start(sleeps, env={}, cwd=Path('/'), stdout=out, stderr=out, on_parent_death=9)\n"
        "print(one.pid, flush=True); signal.pause()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env=environment)
    with process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        process.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its program has ended")
