"""What an image has for the programs of a bundle: looked up in its files, without running anything of it.

An agent whose programs cannot be started there would fail every try for a reason that is not its own, and
some end as if they had worked (reference/agents.md section 0.2). So it is seen before a try begins.
"""

from __future__ import annotations

import posixpath
import re
import tarfile
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import IO, Final, cast

from workers.errors import CarryOverflowError, ContainerGoneError, PathRefusedError
from workers.sandbox.client import Engine, translated
from workers.sandbox.helpers import unstarted
from workers.sandbox.stream import ChunkReader

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBC: Final = "libc.so.6"
_VERSION: Final = re.compile(rb"release version 2\.(\d{1,3})")
_LIBC_BYTES: Final = 64 << 20
_MOST_LINKS: Final = 8


class ImageProbe:
    """Answers are kept per image and need: an image Id never holds anything else."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[tuple[str, tuple[str, ...], str, str], str | None] = {}
        self._lock = threading.Lock()

    def lacking(
        self, image_id: str, programs: Sequence[str], loader: str = "", glibc: str = ""
    ) -> str | None:
        """What the image lacks, as a sentence; None if it has everything.

        `programs` are looked for on its PATH; `loader` and `glibc` (`2.28`) are empty for static programs.
        Raises `EngineCallError`.
        """
        key = (image_id, tuple(programs), loader, glibc)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._look(image_id, programs, loader, glibc)
            return self._known[key]

    def _look(self, image_id: str, programs: Sequence[str], loader: str, glibc: str) -> str | None:
        variables = self._engine.image_config(image_id).get("Env") or []
        path = next((text[5:] for text in variables if text.startswith("PATH=")), _PATH)
        folders = [folder for folder in path.split(":") if folder.startswith("/")]
        with unstarted(self._engine, image_id, "probe") as helper:
            for program in programs:
                if not any(self._find(helper, f"{folder}/{program}") for folder in folders):
                    return f"the image has no {program}, which the agent needs"
            return self._libc(helper, loader, glibc) if loader else None

    def _libc(self, helper: str, loader: str, glibc: str) -> str | None:
        found = self._find(helper, loader)
        if found is None:
            return f"the image has no glibc ({loader}), and the agent's programs need {glibc} or later"
        text = self._read(helper, f"{posixpath.dirname(found)}/{_LIBC}")
        version = _VERSION.search(text)
        if version is None:
            return f"the C library of the image is not glibc, and the agent's programs need {glibc} or later"
        has = f"2.{int(version[1])}"
        if int(version[1]) < int(glibc.partition(".")[2]):
            return f"the image has glibc {has}, and the agent's programs need {glibc} or later"
        return None

    def _find(self, helper: str, path: str) -> str | None:
        """Where the file at `path` really is, every link followed; None if there is none."""
        for _ in range(_MOST_LINKS):
            try:
                with translated("get_archive"):
                    chunks, status = self._engine.api.get_archive(helper, path)
                chunks.close()
            except PathRefusedError:
                return None
            except ContainerGoneError:
                # The engine says the same of a path and of a container that is not there.
                with translated("inspect_container"):
                    self._engine.api.inspect_container(helper)
                return None
            target = str(status.get("linkTarget") or "")
            if not target:
                return path
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return None

    def _read(self, helper: str, path: str) -> bytes:
        """The bytes of a regular file; empty for anything else."""
        place = self._find(helper, path)
        if place is None:
            return b""
        with translated("get_archive"):
            chunks, _ = self._engine.api.get_archive(helper, place)
        with closing(chunks):
            try:
                source = cast(IO[bytes], ChunkReader(chunks, _LIBC_BYTES))
                with tarfile.open(fileobj=source, mode="r|") as tar:
                    member = tar.next()
                    stream = None if member is None else tar.extractfile(member)
                    return b"" if stream is None else stream.read()
            except (tarfile.TarError, CarryOverflowError):
                return b""
