"""Run by the Python of an image, in a container without network: builds one wheel of a source package.

Reads `source.tar.gz` and the builder's wheel `builder.whl` (setuptools) in PLACE, writes into its `out`.
Standard library only; everything else that runs is the package's own code.
"""

from __future__ import annotations

import os
import sys
import tarfile
import zipfile
from pathlib import Path

PLACE = Path("/tmp/assize-build")


def main() -> None:
    """Unpack, build; ends with a traceback where the package cannot be built so."""
    with zipfile.ZipFile(PLACE / "builder.whl") as builder:
        builder.extractall(PLACE / "builder")
    with tarfile.open(PLACE / "source.tar.gz") as tar:
        tar.extractall(PLACE / "source")
    (root,) = (PLACE / "source").iterdir()
    sys.path.insert(0, str(PLACE / "builder"))
    sys.path.insert(0, str(root))
    os.chdir(root)
    from setuptools import build_meta  # type: ignore[import-untyped,unused-ignore]

    (PLACE / "out").mkdir()
    build_meta.build_wheel(str(PLACE / "out"))


if __name__ == "__main__":
    main()
