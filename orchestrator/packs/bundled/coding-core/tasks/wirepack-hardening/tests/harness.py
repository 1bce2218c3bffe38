"""Runs the checks of one coding-core task and writes the verdict.

Every task of the pack carries an identical copy of this file beside its own `checks.py`. It is started as
root with `python3 -I -B`; nothing of the workspace is ever imported, sourced or built by this process.
Code from the workspace runs only in child processes: another uid (65532), a clean environment, a scratch
copy of the workspace, a wall limit, an output limit. Children answer over pipes, and the expected values
stay here, so a child can neither read them nor write the verdict.

Writes `checks.json` {"passed", "total", "checks": [{"name", "ok"}]} and then `reward.txt`: 1 only if every
check holds, else 0. If this process itself breaks, there is no reward file, which means "no verdict".

`--root-dir DIR` runs the same checks outside a container: workspace in DIR/workspace, logs in
DIR/logs/verifier. It insists on a process namespace of its own (`unshare --pid --fork --mount-proc`), because
children are ended by their user id.
"""

import json
import os
import resource
import select
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CHILD_UID = 65532
BUDGET_S = 560.0  # all children together; the verifier's own limit is 600 s
HANG_COUNTS = 6  # a second of a child that met its limit takes this many seconds off the budget
MAX_FILES = 20_000
MAX_BYTES = 64 << 20
TESTS = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
NODE = "/usr/bin/node"

DRIVERS = {}
exec(compile((TESTS / "drivers.py").read_bytes(), str(TESTS / "drivers.py"), "exec"), DRIVERS)
PYTHON_DRIVER, NODE_DRIVER, PYTEST_FORKER = (DRIVERS[name] for name in ("PYTHON_DRIVER", "NODE_DRIVER", "PYTEST_FORKER"))


@dataclass(frozen=True)
class Finished:
    """How a child ended: `code` is negative for a signal, `timed_out` and `cut` say which limit it met."""

    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    cut: bool
    extra: bytes

    @property
    def text(self):
        return self.stdout.decode("utf-8", "replace")


class CheckFailed(Exception):
    """A check does not hold; the text says what was seen."""


_checks = []
_settings = {"workspace": Path("/workspace"), "logs": Path("/logs/verifier"), "scratch": None, "end": 0.0, "forker": None}


def check(name):
    """Register the decorated function as one check; it fails by raising or by returning False."""

    def register(function):
        _checks.append((name, function))
        return function

    return register


def once(function):
    """Run a shared step at most once and repeat its result, or its failure, to every check that uses it."""
    memory = []

    def cached():
        if not memory:
            try:
                memory.append((function(), None))
            except Exception as error:  # repeated below to each caller
                memory.append((None, error))
        value, error = memory[0]
        if error is not None:
            raise CheckFailed(f"shared step failed: {error}")
        return value

    return cached


def expect(condition, seen=""):
    """Fail the running check unless `condition` holds."""
    if not condition:
        raise CheckFailed(str(seen)[:2000])


def equal(seen, wanted):
    """Fail the running check unless both values are the same, types included (True is not 1)."""
    if json.dumps(seen, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise CheckFailed(f"got {seen!r}, expected {wanted!r}"[:2000])


def _copy_tree(source, target, quota):
    os.mkdir(target, 0o777)
    os.chmod(target, 0o777)
    with os.scandir(source) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        place = os.path.join(target, entry.name)
        quota[0] += 1
        if quota[0] > MAX_FILES or quota[1] > MAX_BYTES:
            raise CheckFailed("the workspace is too large to be copied")
        if entry.name in (".git", "__pycache__", ".pytest_cache"):
            continue
        if entry.is_dir(follow_symlinks=False):
            _copy_dir(entry.path, place, quota)
        elif entry.is_file(follow_symlinks=False):
            _copy_file(entry.path, place, quota)


def _copy_dir(source, target, quota):
    try:
        _copy_tree(source, target, quota)
    except PermissionError:
        return  # unreadable for the grader: as if it were absent


def _copy_file(source, target, quota):
    try:
        handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            return
        quota[1] += status.st_size
        if quota[1] > MAX_BYTES:
            raise CheckFailed("the workspace is too large to be copied")
        with open(target, "wb") as out:
            shutil.copyfileobj(stream, out)
        os.chmod(target, 0o777 if status.st_mode & 0o111 else 0o666)


def scratch_dir():
    """A new empty folder that children may write to."""
    path = Path(tempfile.mkdtemp(dir=_settings["scratch"]))
    path.chmod(0o777)
    return path


def scratch(source=None):
    """A fresh copy of the workspace (regular files and folders only, no links, no .git) for children."""
    place = scratch_dir() / "w"
    _copy_tree(str(source or _settings["workspace"]), str(place), [0, 0])
    return place


def put(folder, name, data, mode=0o666):
    """Write one of the grader's own files into a scratch folder."""
    place = Path(folder) / name
    for parent in reversed([p for p in place.parents if len(p.parts) > len(Path(folder).parts)]):
        if not parent.is_dir():
            parent.mkdir()
            parent.chmod(0o777)
    if place.is_symlink() or place.exists():
        place.unlink()
    place.write_bytes(data.encode() if isinstance(data, str) else data)
    place.chmod(mode)
    return place


def hidden(name):
    """Bytes of a file that lies beside the checks."""
    return (TESTS / name).read_bytes()


def put_tree(folder, name, target=""):
    """Lay every file below the hidden folder `name` over a scratch folder."""
    base = TESTS / name
    for path in sorted(base.rglob("*")):
        if path.is_file():
            mode = 0o777 if path.stat().st_mode & 0o111 else 0o666
            put(folder, os.path.join(target, str(path.relative_to(base))), path.read_bytes(), mode)


def _become_child():
    """Between fork and exec: limits, and another user for good."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
    with open("/proc/self/oom_score_adj", "w") as first_to_go:  # short memory ends the child, not the grader
        first_to_go.write("1000")
    os.setgroups([])
    os.setgid(CHILD_UID)
    os.setuid(CHILD_UID)


def sweep():
    """Kill every process of the children's uid, including ones that left their process group."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(CHILD_UID)
            os.setuid(CHILD_UID)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def environment(folder, extra=None):
    """The whole environment of a child."""
    values = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8",
              "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    values.update(extra or {})
    return values


def _charge_hang(started):
    """A busy machine may slow every child down, so the budget is wide; what hangs must not use it up in full."""
    _settings["end"] -= (HANG_COUNTS - 1) * (time.monotonic() - started)


def run(argv, cwd, stdin=b"", env=None, timeout=20.0, limit=4 << 20, extra_fd=False):
    """Run `argv` as the child user and return a `Finished`.

    `limit` bounds stdout and stderr together in bytes. With `extra_fd` the child gets a pipe as
    descriptor 3 whose bytes come back in `extra`. The child's processes are all gone afterwards.
    """
    timeout = min(timeout, _settings["end"] - time.monotonic())
    if timeout <= 0:
        raise CheckFailed("the time budget of the verifier is used up")
    extra_read = extra_write = None
    pass_fds = ()
    shell = list(argv)
    if extra_fd:
        extra_read, extra_write = os.pipe()
        pass_fds = (extra_write,)
        shell = ["/bin/bash", "-c", f'exec 3>&{extra_write} {extra_write}>&-; exec "$@"', "run", *argv]
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            shell, cwd=str(cwd), env=environment(cwd, env), stdin=given, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, pass_fds=pass_fds, umask=0o000,
            preexec_fn=_become_child)
    if extra_write is not None:
        os.close(extra_write)
    started = time.monotonic()
    outputs, timed_out, cut = _collect(process, extra_read, started + timeout, limit)
    if timed_out:
        _charge_hang(started)
    return Finished(process.returncode, bytes(outputs["out"]), bytes(outputs["err"]), timed_out, cut,
                    bytes(outputs["extra"]))


def _collect(process, extra_read, deadline, limit):
    outputs = {"out": bytearray(), "err": bytearray(), "extra": bytearray()}
    timed_out = cut = swept = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "out")
        selector.register(process.stderr, selectors.EVENT_READ, "err")
        if extra_read is not None:
            selector.register(extra_read, selectors.EVENT_READ, "extra")
        while selector.get_map():
            for key, _ in selector.select(0.05):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                outputs[key.data] += data
            cut = cut or sum(map(len, outputs.values())) > limit
            timed_out = timed_out or (process.poll() is None and time.monotonic() > deadline)
            if not swept and (cut or timed_out or process.poll() is not None):
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                sweep()
                swept = True
    process.wait()
    sweep()
    process.stdout.close()
    process.stderr.close()
    if extra_read is not None:
        os.close(extra_read)
    return outputs, timed_out, cut


def _answers(done, count):
    lines = done.text.split("\n")[:-1]  # not splitlines: other separators may stand inside the JSON
    if done.timed_out or done.cut or len(lines) != count:
        tail = done.stderr[-600:].decode("utf-8", "replace")
        raise CheckFailed(f"{len(lines)} of {count} answers (exit {done.code}, timeout {done.timed_out}): {tail}")
    return [json.loads(line) for line in lines]


def ask_python(code, requests, cwd, timeout=20.0):
    """One child that imports from `cwd`, defines `handle(request)` by `code`, and answers each request.

    Returns one {"ok": value} or {"error": type, "message": text} per request.
    """
    given = "".join(json.dumps(request) + "\n" for request in requests).encode()
    return _answers(run([PYTHON, "-I", "-B", "-c", PYTHON_DRIVER % code], cwd, given, timeout=timeout), len(requests))


def ask_node(code, requests, cwd, timeout=20.0):
    """As `ask_python`, for a JavaScript `handle` (may be async); `load(path)` requires from `cwd`."""
    given = "".join(json.dumps(request) + "\n" for request in requests).encode()
    return _answers(run([NODE, "-e", NODE_DRIVER % code], cwd, given, timeout=timeout), len(requests))


def _forked(forker, order, end):
    forker.stdin.write(json.dumps(order).encode() + b"\n")
    forker.stdin.flush()
    started = time.monotonic()
    if not select.select([forker.stdout], [], [], max(0.0, end - started))[0]:
        sweep()
        _charge_hang(started)
    return json.loads(forker.stdout.readline())


def _end_forker():
    if _settings["forker"] is not None:
        _settings["forker"].kill()
        _settings["forker"].wait()
        _settings["forker"] = None


def pytest_run(cwd, targets, timeout=40.0):
    """pytest without any configuration or conftest of the workspace; returns (exit code, passed, output).

    The exit code is -9 after a timeout and 70 if pytest itself was left by an exception.
    """
    if _settings["forker"] is None:
        _settings["forker"] = subprocess.Popen([PYTHON, "-I", "-B", "-c", PYTEST_FORKER], stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, env=environment(_settings["scratch"]), cwd="/")
    args = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--noconftest", "--rootdir", str(cwd), "--color=no",
            "--assert=plain", "--tb=short", *targets]
    order = {"cwd": str(cwd), "uid": CHILD_UID, "env": environment(cwd), "args": args}
    end = min(time.monotonic() + timeout, _settings["end"])
    if end <= time.monotonic():
        raise CheckFailed("the time budget of the verifier is used up")
    try:
        code, text = _forked(_settings["forker"], order, end)
    except Exception:
        _end_forker()  # its next answer could belong to this order
        raise
    sweep()
    passed = 0
    for word, following in zip(text.split(), text.split()[1:]):
        if following.rstrip(",") == "passed" and word.isdigit():
            passed = int(word)
    return code, passed, text


def node_test_run(cwd, targets, timeout=40.0):
    """Node's own test runner; returns (exit code, passed, output)."""
    done = run([NODE, "--test", *targets], cwd, timeout=timeout)
    passed = 0
    for line in done.text.splitlines():
        words = line.replace("#", " ").replace("\u2139", " ").split()
        if len(words) == 2 and words[0] == "pass" and words[1].isdigit():
            passed = int(words[1])
    return (-1 if done.timed_out else done.code), passed, done.text


def read_text(relative):
    """Text of a regular workspace file; fails the check if it is absent, a link or over 1 MiB."""
    folder = os.open(_settings["workspace"], os.O_RDONLY | os.O_DIRECTORY)
    for part in Path(relative).parts[:-1]:
        inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        os.close(folder)
        folder = inner
    handle = os.open(Path(relative).name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    os.close(folder)
    with os.fdopen(handle, "rb") as stream:
        status = os.fstat(stream.fileno())
        expect(stat.S_ISREG(status.st_mode) and status.st_size <= 1 << 20, f"{relative} is not a plain file")
        return stream.read().decode("utf-8", "replace")


def workspace_files(suffix):
    """Relative names of the regular workspace files that end in `suffix`, hidden folders left out."""
    base = _settings["workspace"]
    names = []
    for folder, folders, files in os.walk(base, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(folder) / name
            if name.endswith(suffix) and path.is_file() and not path.is_symlink():
                names.append(str(path.relative_to(base)))
    return names


def _scratch_root():
    for place in ("/tmp", "/var/tmp"):
        if os.path.isdir(place) and not os.statvfs(place).f_flag & os.ST_NOEXEC:
            root = tempfile.mkdtemp(prefix="check-", dir=place)
            os.chmod(root, 0o711)
            return root
    raise SystemExit("no temporary folder allows execution")


def _verdict(results):
    logs = _settings["logs"]
    passed = sum(ok for _, ok in results)
    summary = {"passed": passed, "total": len(results),
               "checks": [{"name": name, "ok": ok} for name, ok in results]}
    (logs / "checks.json").write_text(json.dumps(summary, indent=1) + "\n")
    (logs / "reward.txt").write_text("1\n" if results and passed == len(results) else "0\n")
    print(f"{passed} of {len(results)} checks hold")


def _run_checks():
    """Load `checks.py`, run its checks in order, and return (name, holds) for each."""
    _settings["end"] = time.monotonic() + BUDGET_S
    sys.modules["harness"] = sys.modules["__main__"]
    source = TESTS / "checks.py"
    exec(compile(source.read_bytes(), str(source), "exec"), {"__name__": "checks"})
    results = []
    for name, function in _checks:
        try:
            ok, why = function() is not False, ""
        except Exception as error:  # whatever the agent's output caused: the check does not hold
            ok, why = False, f"{type(error).__name__}: {error}"
        results.append((name, ok))
        line = f"{'ok' if ok else 'not ok'}  {name}{': ' + why if why else ''}"
        print(line.encode("ascii", "backslashreplace").decode(), flush=True)  # no text may stop the verdict
    _end_forker()
    return results


def main(argv):
    if len(argv) == 2 and argv[0] == "--root-dir":
        if os.getpid() != 1:
            raise SystemExit("--root-dir needs a process namespace of its own: unshare --pid --fork --mount-proc")
        _settings["workspace"] = Path(argv[1]) / "workspace"
        _settings["logs"] = Path(argv[1]) / "logs" / "verifier"
    elif argv:
        raise SystemExit("usage: harness.py [--root-dir DIR]")
    if os.getuid() != 0:
        raise SystemExit("the harness needs root: children must run as another user")
    _settings["scratch"] = _scratch_root()
    try:
        _verdict(_run_checks())
    finally:
        if argv:
            shutil.rmtree(_settings["scratch"], ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
