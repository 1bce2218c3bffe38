"""The filter of system calls in a real sandbox: what is refused, and that ordinary programs do not notice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.ids import new_id
from workers.errors import EngineCallError

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.docker
MIB = 1 << 20
ASK = """
import ctypes, errno, json, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
new = {"io_uring_setup": 425, "fsopen": 430, "clone3": 435, "pidfd_getfd": 438, "memfd_secret": 447}
x86 = {"ptrace": 101, "userfaultfd": 323, "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248,
       "unshare": 272, "setns": 308, "mount": 165, "open_by_handle_at": 304, "kcmp": 312, "chroot": 161,
       "process_vm_readv": 310, "fallocate": 285, "modify_ldt": 154, "a_call_of_next_year": 900}
arm = {"ptrace": 117, "userfaultfd": 282, "bpf": 280, "perf_event_open": 241, "keyctl": 219, "add_key": 217,
       "unshare": 97, "setns": 268, "mount": 40, "open_by_handle_at": 265, "kcmp": 272, "chroot": 51,
       "process_vm_readv": 270, "fallocate": 47, "modify_ldt": 900, "a_call_of_next_year": 900}
told = {}
for name, number in {**new, **(x86 if platform.machine() == "x86_64" else arm)}.items():
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6)
    told[name] = errno.errorcode.get(ctypes.get_errno())
for family in (socket.AF_ALG, socket.AF_VSOCK, socket.AF_NETLINK, socket.AF_INET, socket.AF_UNIX):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        told[family.name] = None
    except OSError as error:
        told[family.name] = errno.errorcode[error.errno]
flags = 0x10000000 | 17
clone = 56 if platform.machine() == "x86_64" else 220
child = libc.syscall(ctypes.c_long(clone), ctypes.c_long(flags), 0, 0, 0, 0)
if child == 0:
    import os
    os._exit(0)
told["clone into a user namespace"] = errno.errorcode[ctypes.get_errno()] if child < 0 else None
print(json.dumps(told))
"""
PERM = [
    "ptrace",
    "userfaultfd",
    "bpf",
    "perf_event_open",
    "keyctl",
    "add_key",
    "unshare",
    "setns",
    "mount",
    "open_by_handle_at",
    "kcmp",
    "chroot",
    "process_vm_readv",
    "fsopen",
    "pidfd_getfd",
    "AF_ALG",
    "AF_VSOCK",
]
ABSENT = ("io_uring_setup", "clone3", "memfd_secret", "modify_ldt", "a_call_of_next_year")
ORDINARY = {
    "python": """python3 - <<'X'
import asyncio, concurrent.futures as f, multiprocessing as m, os, sqlite3, subprocess, tempfile
assert subprocess.run(["true"]).returncode == 0
assert sum(f.ThreadPoolExecutor(4).map(abs, range(9))) == 36
assert m.get_context("fork").Pool(2).map(abs, [-1, 2]) == [1, 2]
async def one():
    done = await asyncio.create_subprocess_exec("true")
    return await done.wait()
assert asyncio.run(one()) == 0
base = sqlite3.connect("/tmp/base.db"); base.execute("pragma journal_mode=wal")
base.execute("create table t (n)")
base.execute("insert into t values (7)"); base.commit()
with tempfile.TemporaryFile() as file:
    os.posix_fallocate(file.fileno(), 0, 1 << 20)
    assert os.fstat(file.fileno()).st_size == 1 << 20
os.close(os.memfd_create("x")); os.mkfifo("/tmp/fifo")
X""",
    "node": """node -e '
const fs = require("fs"), {Worker} = require("worker_threads"), {execSync} = require("child_process");
fs.promises.readFile("/etc/passwd").then(b => { if (!b.length) process.exit(1) });
execSync("true");
const serve = "require(\\"net\\").createServer().listen(0, \\"127.0.0.1\\", function() { this.close() })";
new Worker(serve, {eval: true})
  .on("exit", code => process.exit(code))'""",
    "gcc": """cat > /tmp/a.c <<'X'
#include <pthread.h>
#include <stdio.h>
static void *run(void *x) { return x; }
int main(void) {
  pthread_t t; void *r;
  pthread_create(&t, 0, run, "ok"); pthread_join(t, &r); return puts(r) < 0;
}
X
gcc -O2 -pthread -o /tmp/a /tmp/a.c && /tmp/a""",
    "git": """cd /tmp && git init -q r && cd r && git config user.email a@b.c && git config user.name a &&
echo x > f && git add f && git commit -qm x && git gc -q && git clone -q /tmp/r /tmp/s &&
git -C /tmp/s log --oneline""",
    "shell": "set -e; timeout 5 sh -c 'sleep 0.01 & wait'; tar cf t.tar /etc/passwd 2>/dev/null; setsid true",
}


@pytest.fixture(scope="module")
def ran(base_image: str) -> Iterator[Callable[..., Any]]:
    """Runs a command line in a fresh sandbox, as an agent, as a verifier, or under a read-only root."""
    from workers.sandbox.container import Container
    from workers.sandbox.execute import Command, run_command
    from workers.sandbox.profile import Limits, Writable, create_body
    from workers.sandbox.station import Station

    station = Station(None, "assize.attempt")
    found: list[Container] = []

    def run(text: str, *, grader: bool = False, sized: bool = False) -> Any:
        body = create_body(
            base_image,
            Limits(512 * MIB, 2000, 128, 120),
            runtime="runc",
            grader=grader,
            labels={"assize.home": "calls-tests", "assize.attempt": "slot/1"},
            volumes={},
            workdir="/",
            writable=Writable((), {"/tmp": "rw,exec,mode=1777,size=64m"}) if sized else None,
        )
        found.append(Container.create(station.engine, station.watch, f"calls-{new_id().lower()}", body))
        found[-1].start()
        return run_command(
            station.engine,
            found[-1].id,
            Command(("sh", "-c", text), "0:0" if grader else "1000:1000", {"HOME": "/tmp"}, "/tmp"),
            deadline=time.monotonic() + 100,
            cap_bytes=MIB,
            still_running=found[-1].is_running,
        )

    yield run
    for container in found:
        with suppress(EngineCallError):
            container.remove()
    station.close()


@pytest.mark.parametrize("kind", ["agent", "verifier", "sized"])
def test_what_the_kernel_answers_inside(ran: Callable[..., Any], kind: str) -> None:
    """Asked in the sandbox itself: as an agent, as a verifier (root), under a strict disk."""
    result = ran(f"python3 - <<'X'\n{ASK}\nX", grader=kind == "verifier", sized=kind == "sized")
    assert result.exit_code == 0, result.stderr.decode()
    told = json.loads(result.stdout)
    assert {name: told[name] for name in PERM} == dict.fromkeys(PERM, "EPERM")
    assert {name: told[name] for name in ABSENT} == dict.fromkeys(ABSENT, "ENOSYS")
    assert told["clone into a user namespace"] == "EPERM"
    assert told["fallocate"] == ("EINVAL" if kind == "sized" else "ENOTSUP")
    assert [told[name] for name in ("AF_NETLINK", "AF_INET", "AF_UNIX")] == [None] * 3


@pytest.mark.parametrize("sized", [False, True], ids=["writable", "sized"])
@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_programs_do_not_notice(ran: Callable[..., Any], name: str, sized: bool) -> None:
    """A filter that breaks honest work would be worse than none."""
    result = ran(ORDINARY[name], sized=sized)
    assert result.exit_code == 0, (result.stdout.decode(), result.stderr.decode())
