"""Runs the calls of one client and writes what it saw as one line of JSON; argument: the module's name.

The module has `calls(shell)`, where `shell(folder, command)` runs a command in a folder of its own below the
workspace and gives back what it printed. Everything else the client knows is the environment.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path


def shell(folder: str, command: str) -> str:
    """What `command` prints; raises `CalledProcessError` when it fails."""
    place = Path(os.environ["ASSIZE_WORKSPACE"], folder)
    place.mkdir(exist_ok=True)
    return subprocess.run(["sh", "-c", command], cwd=place, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    saw = importlib.import_module(sys.argv[1]).calls(shell)
    sys.stdout.write(json.dumps(saw) + "\n")
