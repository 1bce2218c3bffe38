"""Publishes a signed draft in a child that kills itself at each file operation, and looks at what is left.

Run as: kill_publish.py HOME FOLDER. HOME has a signed draft of version 2. Prints how many operations there
were; ends with a traceback when a life ends badly.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path
from types import ModuleType

from orchestrator.custody import publishing
from orchestrator.custody.custodian import Custodian
from orchestrator.home import Home
from orchestrator.screenings.installation import Installation


def _crash() -> ModuleType:
    path = Path(__file__).resolve().parents[1] / "log" / "crash_disk.py"
    spec = importlib.util.spec_from_file_location("crash_disk", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _version(home: Home) -> int:
    """The version of the home, which must be able to sign."""
    installation = Installation.open(home)
    try:
        root = installation.trust_root()
        assert installation.signer().keyid in root.keys
        return root.version
    finally:
        installation.close()


def main() -> None:
    start, folder = Path(sys.argv[1]), Path(sys.argv[2])
    crash, last = _crash(), 0
    while True:
        last += 1
        home = Home(folder / str(last))
        shutil.copytree(start, home.root)
        child = os.fork()
        if child == 0:
            publishing.publish(Custodian(home, disk=crash.KillingDisk(last)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0, status
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert _version(home) in (1, 2)
        if Custodian(home).draft_path.exists():  # else nothing is left to finish
            assert publishing.publish(Custodian(home)).version == 2
        assert _version(home) == 2
    sys.stdout.write(str(last - 1))


main()
