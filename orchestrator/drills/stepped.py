"""`assize` with a wall clock that is stepped from outside: `python -m orchestrator.drills.stepped FILE ...`.

FILE holds the seconds by which the clock is off at the moment. The monotonic clock is left alone, as it is
when somebody sets a machine's time.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_S: Final = 1_000_000_000
_PROGRAM: Final = "orchestrator.cli.main"


def step(offset_file: Path) -> None:
    """From now on `time.time` and `time.time_ns` of this process are off by what the file says."""
    real: Callable[[], int] = time.time_ns

    def time_ns() -> int:
        return real() + int(offset_file.read_text()) * _S

    time.time_ns = time_ns
    time.time = lambda: time_ns() / _S


def main() -> None:
    """Step, then be the program."""
    step(Path(sys.argv[1]))
    importlib.import_module(_PROGRAM).main(sys.argv[2:])


if __name__ == "__main__":
    main()
