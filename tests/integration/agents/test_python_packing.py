"""Python for a bundle: an image's own, taken along and run elsewhere; packages built in a sandbox."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.agents.packing.building import BUILDER, build, fetch_listed
from orchestrator.agents.packing.client import PackingError
from orchestrator.agents.packing.interpreter import START, Interpreter
from orchestrator.agents.packing.python import ask_image
from orchestrator.agents.profile import SourcePackage
from orchestrator.screenings.images import open_store
from orchestrator.screenings.installation import Installation
from sandbox_images.base import OTHER_BASE, ensure_base
from workers.sandbox.client import Engine

pytestmark = pytest.mark.docker

ASK: Final = (
    "import ctypes, json, sqlite3, ssl, subprocess, sys, zlib; "
    "again = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout; "
    "own = [sys.executable, sys.prefix, json.__cached__]; "
    "print(json.dumps([list(sys.version_info[:2]), *own, again.strip()]))"
)
PACKAGE: Final = SourcePackage(name="tiny-thing", version="1.0", sha256="0" * 64)
HONEST: Final = """
import os
assert os.listdir("/sys/class/net") == ["lo"], "there is a network"
assert os.getuid() == 65534 and not os.access("/usr", os.W_OK)
from setuptools import setup
setup(name="tiny-thing", version="1.0", py_modules=["tiny_thing"])
"""


@pytest.fixture
def interpreter(engine: Engine, base_image: str) -> Interpreter:
    return Interpreter(engine.api, base_image)


@pytest.mark.only_on("sqlite", "nothing is planned, so nothing is asked of the ledger")
def test_a_python_runs_in_an_image_that_has_another(
    interpreter: Interpreter, engine: Engine, installation: Installation, base_image: str, tmp_path: Path
) -> None:
    """By its own libraries, with its own byte code, and what it starts by its own name is the same Python."""
    interpreter.put_into(tmp_path / "app")
    image = ask_image(engine.api, base_image)
    interpreter.compile(tmp_path / "app")
    store = open_store(installation.home, lambda line: None)
    other = ensure_base(store, OTHER_BASE).id
    store.client.close()
    assert ask_image(engine.api, other).python != image.python
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(tmp_path / "app", "opt/agent/app")
    made = engine.api.create_container(
        other, [f"/opt/agent/app/{START}", "-I", "-c", ASK], network_disabled=True, user="1000:1000"
    )
    try:
        engine.api.put_archive(made, "/", buffer.getvalue())
        engine.api.start(made)
        assert engine.api.wait(made)["StatusCode"] == 0, engine.api.logs(made)
        version, program, prefix, cached, again = json.loads(engine.api.logs(made, stderr=False))
    finally:
        engine.api.remove_container(made, force=True)
    assert tuple(version) == image.python
    assert (program, prefix, again) == (f"/opt/agent/app/{START}", "/opt/agent/app", "42")
    assert cached.startswith(f"/opt/agent/app/lib/python{image.version}/json/__pycache__/")


def test_byte_code_is_that_of_the_image_and_holds_no_time(interpreter: Interpreter, tmp_path: Path) -> None:
    """Twice, at two times: the same bytes, under the path at which they run; a broken file stays source."""
    made = []
    for number, name in enumerate(("a", "b")):
        site = tmp_path / name / "site"
        site.mkdir(parents=True)
        (site / "one.py").write_text("NAMES = {'a', 'b', 'c', 'd'}\ndef f(x): return x in {'p', 'q', 'r'}\n")
        (site / "broken.py").write_text("def (\n")
        os.utime(site / "one.py", (number * 1000, number * 1000))
        interpreter.compile(tmp_path / name)
        (code,) = (site / "__pycache__").iterdir()
        made.append(code.read_bytes())
    assert made[0] == made[1] and b"/opt/agent/app/site/one.py" in made[0]


def source_of(setup: str) -> bytes:
    """A source package as an index has it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in (("setup.py", setup), ("tiny_thing.py", "VALUE = 1\n")):
            info = tarfile.TarInfo(f"tiny-thing-1.0/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def built(
    interpreter: Interpreter, pytestconfig: pytest.Config, tmp_path: Path
) -> Callable[..., tuple[Any, bytes, str]]:
    """Builds a package with this setup.py: its source, the wheel and the wheel's name."""
    assert pytestconfig.cache is not None
    listed = fetch_listed(pytestconfig.cache.mkdir("assize-builder"))

    def run(setup: str) -> tuple[Any, bytes, str]:
        def fetch(project: str, filename: str, sha256: str) -> bytes:
            return listed(project, filename, sha256) if project == BUILDER[0] else source_of(setup)

        out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        out.mkdir()
        source = build(PACKAGE, interpreter, fetch, out)
        (wheel,) = out.iterdir()
        return source, wheel.read_bytes(), wheel.name

    return run


def test_a_package_is_built_without_a_network_and_written_down(
    built: Callable[..., tuple[Any, bytes, str]],
) -> None:
    """Unprivileged; the digests of source and wheel are kept, and the same source gives the same wheel."""
    source, wheel, name = built(HONEST)
    assert name == "tiny_thing-1.0-py3-none-any.whl"
    assert source.integrity == f"sha256-{PACKAGE.sha256}" and source.built.startswith("sha256-")
    assert built(HONEST)[1] == wheel


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("raise SystemExit('it will not')", "tiny-thing 1.0 cannot be built: it will not"),
        ("open('/tmp/assize-build/out/more', 'w')\n" + HONEST, "tiny-thing 1.0: building it gave no wheel"),
        (
            HONEST.replace("tiny-thing", "openai"),
            "tiny-thing 1.0: building it gave the wheel of something else, openai-1.0-py3-none-any.whl",
        ),
    ],
)
def test_what_gives_no_wheel_is_refused(
    setup: str, said: str, built: Callable[..., tuple[Any, bytes, str]]
) -> None:
    """In one sentence; nothing that the package's code wrote is believed."""
    with pytest.raises(PackingError) as caught:
        built(setup)
    assert caught.value.message == said


def test_a_file_that_the_index_does_not_list_is_not_built(tmp_path: Path) -> None:
    """The profile names bytes, and no others are taken."""
    with pytest.raises(PackingError, match="lists no file of setuptools with SHA-256 000"):
        fetch_listed(tmp_path)("setuptools", "", "0" * 64)
