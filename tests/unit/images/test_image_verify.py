"""Which files of a built image can be compared with its context: only those whose place is certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_images.context import read_context
from sandbox_images.dockerfile import parse_dockerfile
from sandbox_images.verify import expected_files


def expected(folder: Path, steps: str) -> set[str]:
    (folder / "data").mkdir()
    for name in ("a.txt", "data/b.txt", "data/c.txt"):
        (folder / name).write_text(name)
    (folder / "Dockerfile").write_text(f"FROM x:1\n{steps}\n")
    return set(expected_files(read_context(folder), parse_dockerfile(f"FROM x:1\n{steps}\n")))


@pytest.mark.parametrize(
    ("steps", "paths"),
    [
        ("COPY . /t/", {"/t/a.txt", "/t/data/b.txt", "/t/data/c.txt", "/t/Dockerfile"}),
        ("COPY data /d", {"/d/b.txt", "/d/c.txt"}),
        ("WORKDIR /w\nCOPY data ./in", {"/w/in/b.txt", "/w/in/c.txt"}),
        ("COPY a.txt /t/", {"/t/a.txt"}),
        ("COPY a.txt /t", set()),  # a file name or a folder that exists: not certain
        ("COPY data in", set()),  # relative to a folder only the base image knows
        ("COPY *.txt /t/", set()),
        ("ENV D=/d\nCOPY data $D", set()),
        ("COPY data /d\nRUN sed -i s/a/b/ /d/b.txt", set()),  # changed rightfully
        ("RUN true\nCOPY data /d", {"/d/b.txt", "/d/c.txt"}),
        ("COPY data /d\nCOPY *.txt /d/", set()),  # may have been replaced
        ("COPY data /d\nCOPY *.txt /e/", {"/d/b.txt", "/d/c.txt"}),
    ],
)
def test_coverage(tmp_path: Path, steps: str, paths: set[str]) -> None:
    assert expected(tmp_path, steps) == paths
