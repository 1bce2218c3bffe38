"""Run by the Python of an image, in a container without network: gathers that very Python below TOP.

`lib/pythonX.Y` is its standard library, `lib/interpreter` the program and every shared library that it and
its modules load, but for glibc, which is the image's own wherever the agent runs. Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TOP = Path("/tmp/assize-python")
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
LEFT_OUT = (
    *("__pycache__", "site-packages", "dist-packages", "sitecustomize.py", "config-*", "test", "tests"),
    *("idlelib", "tkinter", "turtledemo", "ensurepip"),
)
GLIBC = re.compile(r"(ld-linux|lib(c|m|dl|pthread|rt|util|resolv|anl|nsl|nss_[a-z]+|mvec)\.so|linux-vdso)")
LISTED = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def main() -> None:
    """Fill TOP; ends with a traceback where this Python is not on glibc."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(
        stdlib,
        TOP / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}",
        ignore=shutil.ignore_patterns(*LEFT_OUT),
        ignore_dangling_symlinks=True,
    )
    program = os.path.realpath(sys.executable)
    target = TOP / "lib" / "interpreter"
    target.mkdir()
    shutil.copy(program, target / "python")
    loader = LOADERS[os.uname().machine]
    for file in (program, *map(str, stdlib.glob("lib-dynload/*.so"))):
        listed = subprocess.run([loader, "--list", file], capture_output=True, text=True).stdout
        for name, place in LISTED.findall(listed):
            if not GLIBC.match(name) and not (target / name).exists():
                shutil.copy(os.path.realpath(place), target / name)


if __name__ == "__main__":
    main()
