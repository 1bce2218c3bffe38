"""Small task folders, built in a temporary place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

NO_NETWORK = '[environment]\nnetwork_mode = "no-network"\n'
FILES = {
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM base\n",
    "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
    "solution/solve.sh": "true\n",
}

MakeTask = Callable[..., Path]


def write(root: Path, files: Mapping[str, str | None]) -> Path:
    """Write text files below `root`; None leaves one out."""
    for name, text in files.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, "utf-8")
    return root


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """`make_task(toml, name=..., files={...})`: a complete task folder; a None file is left out."""

    def make(toml: str = NO_NETWORK, *, name: str = "demo", files: Mapping[str, str | None] = {}) -> Path:
        return write(tmp_path / name, {"task.toml": toml, **FILES, **files})

    return make
