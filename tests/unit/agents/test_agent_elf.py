"""What a program needs of a system, from its own headers: real ones, and files that look like some."""

from __future__ import annotations

import platform
import shutil
import struct
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


def wanting(libraries: int, symbols: int) -> bytes:
    """A file that says to want so many libraries, each with so many symbols, and whose lists go nowhere."""
    dynamic = struct.pack("<8Q", 5, 400, 0x6FFFFFFE, 300, 0x6FFFFFFF, libraries, 0, 0)
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", 62)
    head = head.ljust(32, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(54, b"\0") + struct.pack("<HH", 56, 2)
    parts = {
        0: head,
        64: struct.pack("<IIQQQQ", 1, 0, 0, 0, 0, 500) + bytes(8),
        120: struct.pack("<IIQQQQ", 2, 0, 200, 0, 0, len(dynamic)) + bytes(8),
        200: dynamic,
        300: struct.pack("<HHIII", 1, symbols, 0, 16, 0) + struct.pack("<IHHII", 0, 0, 0, 0, 0),
        400: b"GLIBC_2.17\0",
    }
    made = bytearray(500)
    for at, part in parts.items():
        made[at : at + len(part)] = part
    return bytes(made)


@pytest.mark.parametrize("libraries", [1, 2, 1 << 63])
@pytest.mark.parametrize("symbols", [1, 0xFFFF])
def test_lists_that_end_are_at_their_end(tmp_path: Path, libraries: int, symbols: int) -> None:
    """Whatever their counts say: an entry without a next one is the last, and reading ends."""
    (tmp_path / "x").write_bytes(wanting(libraries, symbols))
    found = linked(tmp_path / "x")
    assert found is not None and (found.machine, found.glibc) == (62, (2, 17))
