"""What the host shows of a running sandbox: limits really set, the runtime really the one asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workers.errors import SandboxMismatchError
from workers.sandbox import proofs
from workers.sandbox.counters import set_limits

ID = "c" * 64
BODY: dict[str, Any] = {"HostConfig": {"Memory": 100, "PidsLimit": 7, "Runtime": "runc"}}


@pytest.mark.parametrize(
    ("runtime", "program", "fits"),
    [
        ("runc", "/sbin/docker-init", True),
        ("runc", "sleep", True),
        ("runc", "runsc-sandbox", False),
        ("runsc", "runsc-sandbox", True),
        ("runsc", "/sbin/docker-init", False),
        ("runc", "/x/runsc-folder/sleep", True),
        ("kata", "runsc-sandbox", True),
        ("runsc", None, True),
    ],
)
def test_a_runtime_that_is_another_program_is_noticed(runtime: str, program: str | None, fits: bool) -> None:
    """sandbox.md 7: by the host's view of the first process; what nobody knows is only recorded."""
    if fits:
        proofs.require_runtime(runtime, program)
        return
    with pytest.raises(SandboxMismatchError) as caught:
        proofs.require_runtime(runtime, program)
    assert caught.value.field == "runtime"


def test_the_first_word_of_a_process(tmp_path: Path) -> None:
    """A process that is gone, or of a kernel, says nothing."""
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "cmdline").write_bytes(b"runsc-sandbox\0--root=/x\0")
    (tmp_path / "6").mkdir()
    (tmp_path / "6" / "cmdline").write_bytes(b"")
    assert proofs.program_of(5, tmp_path) == "runsc-sandbox"
    assert proofs.program_of(6, tmp_path) is None and proofs.program_of(7, tmp_path) is None


def namespace(proc: Path, pid: str, inode: int, *routes: str) -> None:
    (proc / pid / "ns").mkdir(parents=True)
    (proc / pid / "ns" / "net").symlink_to(f"net:[{inode}]")
    (proc / pid / "net").mkdir()
    (proc / pid / "net" / "dev").write_text("x\ny\n    lo: 0\n")
    (proc / pid / "net" / "route").write_text("\n".join(["Iface", *routes]))


OUT = "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0"


@pytest.mark.parametrize(
    ("mode", "inode", "routes", "told"),
    [
        pytest.param("none", 2, (), True, id="its-own"),
        pytest.param("none", 1, (), "the host's", id="the-host's"),
        pytest.param("none", 2, (OUT,), "eth0", id="a-way-out"),
        pytest.param("container:x", 1, (OUT,), None, id="a-pod's"),
    ],
)
def test_no_network_is_a_namespace_without_a_way_out(
    mode: str, inode: int, routes: tuple[str, ...], told: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The engine may leave this namespace to the runtime, so it is looked at; a pod proves its own."""
    monkeypatch.setattr(proofs, "_PROC", tmp_path)
    namespace(tmp_path, "self", 1)
    namespace(tmp_path, "5", inode, *routes)
    body = {"HostConfig": {"NetworkMode": mode}}
    if not isinstance(told, str):
        assert proofs.require_own_network(5, body) is told
        return
    with pytest.raises(SandboxMismatchError, match=told):
        proofs.require_own_network(5, body)


def test_a_namespace_that_nobody_can_see_is_not_told(tmp_path: Path, monkeypatch: Any) -> None:
    """An engine in another namespace of processes, or a container that ended meanwhile."""
    monkeypatch.setattr(proofs, "_PROC", tmp_path)
    assert proofs.require_own_network(5, {"HostConfig": {"NetworkMode": "none"}}) is None


def v1(root: Path, memory: str = "100", pids: str = "7") -> None:
    for kind, name, text in (("memory", "memory.limit_in_bytes", memory), ("pids", "pids.max", pids)):
        folder = root / kind / "docker" / ID
        folder.mkdir(parents=True)
        (folder / name).write_text(text)


def test_limits_as_the_kernel_has_them(tmp_path: Path) -> None:
    """Both versions of cgroups; `max` is no limit, and no file is no answer."""
    assert set_limits(ID, tmp_path) == {"memoryBytes": None, "pids": None}
    v1(tmp_path)
    assert set_limits(ID, tmp_path) == {"memoryBytes": 100, "pids": 7}
    second = tmp_path / "second"
    folder = second / "system.slice" / f"docker-{ID}.scope"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("100\n")
    (folder / "pids.max").write_text("max\n")
    assert set_limits(ID, second) == {"memoryBytes": 100, "pids": None}


@pytest.mark.parametrize(("memory", "pids"), [(100, 7), (None, 7), (100, None), (None, None)])
def test_limits_that_fit_or_cannot_be_seen(
    monkeypatch: pytest.MonkeyPatch, memory: int | None, pids: int | None
) -> None:
    """What cannot be seen is recorded as not seen; the engine's own word was read back before."""
    monkeypatch.setattr(proofs, "set_limits", lambda container_id: {"memoryBytes": memory, "pids": pids})
    assert proofs.prove(ID, 0, BODY) == {"program": None, "limits": {"memoryBytes": memory, "pids": pids}}


@pytest.mark.parametrize(("memory", "pids"), [(1 << 62, 7), (99, 7), (100, 8)])
def test_a_limit_that_does_not_hold_is_noticed(
    monkeypatch: pytest.MonkeyPatch, memory: int, pids: int
) -> None:
    """google/gvisor#10371: a runtime told to ignore cgroups starts all the same."""
    monkeypatch.setattr(proofs, "set_limits", lambda container_id: {"memoryBytes": memory, "pids": pids})
    with pytest.raises(SandboxMismatchError) as caught:
        proofs.prove(ID, 0, BODY)
    assert caught.value.field.startswith("cgroup")


def limited(proc: Path, pid: int, size: str) -> None:
    (proc / str(pid)).mkdir()
    rows = ("Limit Soft Limit Hard Limit Units", "Max cpu time unlimited unlimited seconds")
    text = "\n".join((*rows, f"Max file size {size} {size} bytes", ""))
    (proc / str(pid) / "limits").write_text(text)


@pytest.mark.parametrize(
    ("size", "runtime", "fits"),
    [
        ("500", "runc", True),
        ("499", "runc", False),
        ("unlimited", "runc", False),
        ("unlimited", "runsc", True),
    ],
)
def test_the_size_of_files_as_the_kernel_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, runtime: str, fits: bool
) -> None:
    """A runtime that forgets a limit is noticed before the agent has control."""
    monkeypatch.setattr(proofs, "_PROC", tmp_path)
    limited(tmp_path, 5, size)
    ulimits = [{"Name": "core", "Soft": 0, "Hard": 0}, {"Name": "fsize", "Soft": 500, "Hard": 500}]
    body = {"HostConfig": {"Runtime": runtime, "Ulimits": ulimits}}
    if not fits:
        with pytest.raises(SandboxMismatchError):
            proofs.require_file_limit(5, body)
        return
    assert proofs.require_file_limit(5, body) == (500 if runtime == "runc" else None)
    assert proofs.require_file_limit(6, body) is None, "gone already, or of another host"


@pytest.mark.parametrize(
    ("status", "runtime", "found"),
    [
        ("Name: x\nSeccomp:\t2\nSeccomp_filters:\t1\n", "runc", True),
        ("Name: x\nSeccomp:\t0\n", "runc", False),
        ("Name: x\nSeccomp:\t1\n", "runc", False),
        ("Name: x\n", "runc", None),
        ("Name: x\nSeccomp:\t0\n", "runsc", None),
    ],
)
def test_a_process_without_a_filter_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, runtime: str, found: bool | None
) -> None:
    """An engine may repeat the option and not know it (built without seccomp): the kernel is asked."""
    monkeypatch.setattr(proofs, "_PROC", tmp_path)
    (tmp_path / "5").mkdir()
    (tmp_path / "5" / "status").write_text(status)
    body = {"HostConfig": {"Runtime": runtime}}
    assert proofs.filtered(6) is None
    if found is False:
        with pytest.raises(SandboxMismatchError):
            proofs.require_filter(5, body)
        return
    assert proofs.require_filter(5, body) is found


def test_the_runtimes_own_process_is_not_taken_for_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a busy machine: started, by the engine's word, and not yet become PID 1, without its filter."""
    monkeypatch.setattr(proofs, "_PROC", tmp_path)
    monkeypatch.setattr(proofs, "_BEGIN_S", 60.0)
    (tmp_path / "5").mkdir()
    told = iter(["runc:[2:INIT]", "runc:[2:INIT]", "docker-init"])
    monkeypatch.setattr(proofs, "name_of", lambda pid: next(told))
    proofs.await_command(5)
    assert next(told, None) is None
    monkeypatch.setattr(proofs, "_BEGIN_S", 0.0)
    monkeypatch.setattr(proofs, "name_of", lambda pid: "runc")
    proofs.await_command(5)
