"""Kills a log writer with SIGKILL at every one of its file operations, and checks the log each time.

`python kill_writer.py FOLDER` prints how many times it killed; any broken promise ends it with a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[3]

if TYPE_CHECKING:
    from tests.assets.log.crash_disk import KillingDisk, Life, WatchedKey
    from tests.assets.log.log_world import ORIGIN, entries, signing_key
else:
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT)]
    from crash_disk import KillingDisk, Life, WatchedKey
    from log_world import ORIGIN, entries, signing_key


class LoggedLife(Life):
    """Writes down acknowledgements and heads in a file that the parent reads: the child's memory dies."""

    def acknowledge(self, batch: object, indexes: object) -> None:
        super().acknowledge(batch, indexes)  # type: ignore[arg-type]
        with (self.folder.parent / "acknowledged").open("a") as file:
            for raw, index in self.acknowledged.items():
                file.write(f"{raw.hex()} {index}\n")

    def recall(self) -> None:
        """Take over what the dead child had been told."""
        path = self.folder.parent / "acknowledged"
        for line in path.read_text().splitlines() if path.exists() else ():
            raw, index = line.split()
            super().acknowledge([bytes.fromhex(raw)], [int(index)])


def main(folder: Path) -> int:
    """One child per file operation, until a child is not killed any more."""
    items = entries(300)
    batches = [items[:2], items[2:254], items[250:258], items[:1], items[258:]]
    kills = 0
    while True:
        place = folder / str(kills)
        place.mkdir(parents=True)
        life = LoggedLife(place, ORIGIN, WatchedKey(signing_key("log")), batches)
        child = os.fork()
        if not child:
            life.run(KillingDisk(kills + 1))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            return kills if os.WEXITSTATUS(status) == 0 else -1
        assert os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
        life.recall()
        life.check()


if __name__ == "__main__":
    sys.stdout.write(f"{main(Path(sys.argv[1]))}\n")
