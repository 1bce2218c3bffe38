"""What a program needs of a system, from its own headers: real ones, and files that look like some."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import pytest

from orchestrator.agents.packing.elf import linked


def test_a_program_of_glibc() -> None:
    """The Python that runs this test is one: its loader is a file here, its version is one of glibc's."""
    found = linked(Path(sys.executable).resolve())
    assert found is not None and found.is_for(platform.machine()) and not found.is_for("riscv64")
    assert found.loader is not None and Path(found.loader).exists()
    here = tuple(map(int, platform.libc_ver()[1].split(".")))
    assert found.glibc is not None and (2, 2) < found.glibc <= here


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_what_is_no_program(tmp_path: Path, content: bytes) -> None:
    """Scripts, and headers that lead nowhere."""
    (tmp_path / "x").write_bytes(content)
    assert linked(tmp_path / "x") is None


def test_a_program_that_was_cut_off_is_none(tmp_path: Path) -> None:
    """At any place, and never an exception."""
    whole = Path(shutil.which("true") or "/bin/true").resolve().read_bytes()
    for size in range(6, len(whole), max(1, len(whole) // 200)):
        (tmp_path / "cut").write_bytes(whole[:size])
        found = linked(tmp_path / "cut")
        assert found is None or found.machine == linked(Path("/bin/true").resolve()).machine  # type: ignore[union-attr]
