"""Engine set-up: what a pid file is worth, and what happens when the daemon does not come up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import docker
import docker.errors
import pytest

from sandbox_images import daemon, engine
from sandbox_images.daemon import PidFile, Process, judge_pid_file, read_process
from sandbox_images.errors import EngineStartError, EngineUnreachableError


def table(*processes: Process) -> Callable[[int], Process | None]:
    return {process.pid: process for process in processes}.get


@pytest.mark.parametrize(
    ("text", "process", "verdict"),
    [
        ("4711", Process(4711, "dockerd", "S"), PidFile.LIVE),
        ("4711\n", Process(4711, "dockerd", "R"), PidFile.LIVE),
        ("4711", Process(4711, "dockerd", "Z"), PidFile.STALE),  # a zombie counts as dead
        ("4711", Process(4711, "dockerd", "X"), PidFile.STALE),
        ("4711", Process(4711, "bash", "S"), PidFile.STALE),  # the number was given to somebody else
        ("4711", None, PidFile.STALE),
        ("", None, PidFile.STALE),
        ("not a number", None, PidFile.STALE),
        ("-1", None, PidFile.STALE),
    ],
)
def test_pid_file_rules(tmp_path: Path, text: str, process: Process | None, verdict: PidFile) -> None:
    """Issue 2, set-up: a pid file left by a dead engine must not block the start."""
    path = tmp_path / "docker.pid"
    path.write_text(text)
    assert judge_pid_file(path, "dockerd", table(*([process] if process else []))) is verdict


def test_containerd_has_its_own_name_and_no_file_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "containerd.pid"
    assert judge_pid_file(path, "containerd", table()) is PidFile.ABSENT
    path.write_text("7")
    assert judge_pid_file(path, "containerd", table(Process(7, "containerd", "S"))) is PidFile.LIVE
    assert judge_pid_file(path, "containerd", table(Process(7, "containerd", "Z"))) is PidFile.STALE
    assert {expected for _, expected in daemon.PID_FILES} == {"dockerd", "containerd"}


def test_a_real_zombie_is_read_as_one() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and nobody has waited for it yet
        assert read_process(child.pid) == Process(child.pid, "true", "Z")
    assert read_process(child.pid) is None


def test_a_daemon_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo starting; echo 'no space left' >&2; exit 3"]
    with pytest.raises(EngineStartError, match=r"ended with code 3: starting \| no space left"):
        daemon.start(command, tmp_path / "log", lambda: False, within_s=30)


def test_a_daemon_that_never_answers_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match="does not answer after 0 s"):
        daemon.start(["true"], tmp_path, lambda: False, within_s=0, forks=True)


def test_a_daemon_that_answers_is_left_running_in_its_own_session(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 60"]
    daemon.start(command, tmp_path, mark.exists, within_s=30)
    pid = int(mark.read_text())
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineStartError, match="cannot run no-such-daemon"):
        daemon.start(["no-such-daemon"], tmp_path, lambda: False, within_s=1)


def test_a_remote_engine_is_never_started_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With DOCKER_HOST set, the engine is somebody's choice: one message, nothing installed or started."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    said: list[str] = []
    with pytest.raises(EngineUnreachableError) as caught:
        engine.ensure_engine(said.append, tmp_path)
    assert "DOCKER_HOST" in str(caught.value.hint)
    assert said == []


def test_an_engine_that_answers_with_an_error_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never restart an engine that answers, whatever it answers."""

    def answer(**_: object) -> docker.APIClient:
        raise docker.errors.APIError("500 Server Error")

    monkeypatch.setattr(docker, "APIClient", answer)
    monkeypatch.setattr(daemon, "start", lambda *_, **__: pytest.fail("started"))
    assert engine.answers()
    with pytest.raises(EngineUnreachableError, match="answers, but with an error"):
        engine.ensure_engine(lambda line: pytest.fail(line), tmp_path)


def test_a_socket_nobody_may_open_is_not_a_missing_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbidden or slow: say so. Only a socket that is missing or refuses allows a start."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(daemon, "start", lambda *_, **__: pytest.fail("started"))
    for cause in (PermissionError(), TimeoutError()):
        _no_engine_here(monkeypatch, cause)
        with pytest.raises(EngineUnreachableError):
            engine.ensure_engine(lambda line: pytest.fail(line), Path("unused"))


def test_a_living_engine_that_does_not_answer_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung dockerd is for its operator; a second one beside it would break both."""
    pid_file = tmp_path / "docker.pid"
    pid_file.write_text("4711")
    monkeypatch.setattr(daemon, "PID_FILES", ((pid_file, "dockerd"),))
    monkeypatch.setattr(daemon, "read_process", table(Process(4711, "dockerd", "S")))
    monkeypatch.setattr(daemon, "start", lambda *_, **__: pytest.fail("started"))
    _no_engine_here(monkeypatch)
    with pytest.raises(EngineStartError, match="process 4711"):
        engine.ensure_engine(lambda _: None, tmp_path)
    assert pid_file.exists()


def test_stale_pid_files_go_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid_file = tmp_path / "docker.pid"
    pid_file.write_text("4711")
    monkeypatch.setattr(daemon, "PID_FILES", ((pid_file, "dockerd"),))
    monkeypatch.setattr(daemon, "read_process", table(Process(4711, "dockerd", "Z")))
    started: list[list[str]] = []

    def start(command: list[str], *_: object, **__: object) -> None:
        assert not pid_file.exists()
        started.append(command)

    monkeypatch.setattr(daemon, "start", start)
    _no_engine_here(monkeypatch)
    said: list[str] = []
    engine.ensure_engine(said.append, tmp_path)
    assert started == [["dockerd"]]
    assert [line.split()[0] for line in said] == ["removing", "starting"]


def _no_engine_here(monkeypatch: pytest.MonkeyPatch, cause: Exception | None = None) -> None:
    def refuse(*_: object) -> docker.APIClient:
        raise EngineUnreachableError("nothing there") from cause or FileNotFoundError()

    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(engine, "connect", refuse)
    monkeypatch.setattr(engine, "is_root", lambda: True)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/sbin/dockerd")
    monkeypatch.setattr(engine, "has_systemd", lambda: False)
    monkeypatch.setattr(engine, "debian_like", lambda: True)
