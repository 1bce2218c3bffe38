"""Programs of the child processes: what stands between the harness's pipes and the workspace's code.

Every task of the pack carries an identical copy of this file; `harness.py` reads it, nothing runs it here.
"""

PYTHON_DRIVER = """
import json, os, sys
_reply = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
%s
for _line in sys.stdin:
    try:
        _answer = {"ok": handle(json.loads(_line))}
    except Exception as _error:
        _answer = {"error": type(_error).__name__, "message": str(_error)}
    _reply.write(json.dumps(_answer) + "\\n")
    _reply.flush()
"""

NODE_DRIVER = """
const _fs = require('fs'); const _path = require('path');
const load = (name) => require(_path.join(process.cwd(), name));
console.log = console.info = console.error;
%s
(async () => {
  for (const line of _fs.readFileSync(0, 'utf8').split('\\n')) {
    if (!line) continue;
    let answer;
    try { answer = { ok: await handle(JSON.parse(line)) }; if (answer.ok === undefined) answer.ok = null; }
    catch (error) { answer = { error: error && error.name || 'Error', message: String(error && error.message) }; }
    _fs.writeSync(1, JSON.stringify(answer) + '\\n');
  }
})();
"""

# pytest is imported once, as root and before any workspace code exists in the process; every run is a fork that
# first becomes the child user. The forks hold no pipe of this process and none of the checks' values.
PYTEST_FORKER = """
import importlib, json, os, resource, sys, tempfile, traceback
import pytest
from _pytest.config import default_plugins
for name in default_plugins:
    importlib.import_module("_pytest." + name)
def child(order, output):
    os.setsid()
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 1024)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
    os.umask(0)
    with open("/proc/self/oom_score_adj", "w") as first_to_go:
        first_to_go.write("1000")
    os.setgroups([])
    os.setgid(order["uid"])
    os.setuid(order["uid"])
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    os.chdir(order["cwd"])
    sys.path.insert(0, order["cwd"])
    sys.argv = ["pytest"]
    return int(pytest.main(order["args"]))
for line in sys.stdin:
    order = json.loads(line)
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = child(order, output.fileno())
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        status = os.waitpid(pid, 0)[1]
        output.seek(max(0, output.seek(0, 2) - 8000))
        text = output.read().decode("utf-8", "replace")
    print(json.dumps([os.waitstatus_to_exitcode(status), text]), flush=True)
"""
