"""A stand-in base and a build that installs Python packages, all through the host-side gateway."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox_images import base as base_module
from sandbox_images import build as build_module
from sandbox_images.base import ensure_base
from sandbox_images.build import BuildRequest, BuiltImage, build_image
from sandbox_images.engine import connect
from sandbox_images.errors import BuildFailedError
from sandbox_images.index import PipSettings
from sandbox_images.lock import ImageLock
from sandbox_images.recipes import Recipe
from sandbox_images.store import ImageStore

pytestmark = pytest.mark.docker
WHEEL = "tiny_thing-1.0-py3-none-any.whl"
DOCKERFILE = "FROM python:3-slim\nRUN pip install --no-cache-dir tiny-thing==1.0\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ImageStore]:
    client = connect(600)
    cache = tmp_path / "cache"
    cache.mkdir()
    made = ImageStore(client, ImageLock(tmp_path / "images.lock.json"), cache, pull=False)
    yield made
    for summary in made.engine.images(filters={"label": "assize.test=packages"}):
        made.engine.remove_image(summary["Id"], force=True)
    client.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index on the host's loopback, where no build container can reach it, with one wheel."""
    root = tmp_path / "index"
    (root / "simple" / "tiny-thing").mkdir(parents=True)
    with zipfile.ZipFile(root / WHEEL, "w") as wheel:
        wheel.writestr("tiny_thing.py", "VALUE = 42\n")
        info = "tiny_thing-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    _list(root, hashlib.sha256((root / WHEEL).read_bytes()).hexdigest())
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    monkeypatch.setattr(build_module, "read_pip_settings", lambda: PipSettings(url, ""))
    yield root
    server.shutdown()
    thread.join()
    server.server_close()


def _list(root: Path, sha256: str) -> None:
    page = f'<a href="../../{WHEEL}#sha256={sha256}">{WHEEL}</a>'
    (root / "simple" / "tiny-thing" / "index.html").write_text(page)


def test_a_registry_image_is_the_start_where_there_is_one(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 2, base image: a registry image where one can be pulled; its Id is the first layers of ours.

    No registry can be asked in a test: an image already in the engine plays the pulled one.
    """
    start, name = "assize-test/start:1", "assize/test-layered:1"
    standin = ensure_base(store, "python:3-slim")
    recipe = Recipe(name, "debian", registry=start, packages=("jq",), user="agent")
    monkeypatch.setattr(base_module, "load_recipes", lambda: (recipe,))
    store.client.tag(standin.id, "assize-test/start", "1")
    try:
        made = ensure_base(dataclasses.replace(store, pull=True), name)
        assert made.source == "registry"
        assert not made.standin
        first, whole = store.inspect(standin.id), store.inspect(made.id)
        assert first is not None
        assert whole is not None
        layers = first["RootFS"]["Layers"]
        assert whole["RootFS"]["Layers"][: len(layers)] == layers
        assert ensure_base(store, name) == made
    finally:
        store.engine.remove_image(start)
        store.engine.remove_image(name, force=True)


def build(store: ImageStore, folder: Path, text: str) -> BuiltImage:
    folder.mkdir()
    (folder / "Dockerfile").write_text(text)
    return build_image(store, BuildRequest(folder, labels={"assize.test": "packages"}, timeout_s=600))


def test_packages_come_from_the_host_and_leave_no_trace_in_the_settings(
    store: ImageStore, index: Path, tmp_path: Path
) -> None:
    """Issue 2, set-up: a TLS-intercepting host must work; no CA, key or address is baked into the image."""
    image = build(store, tmp_path / "task", DOCKERFILE)
    description = store.inspect(image.id)
    assert description is not None
    environment = json.dumps(description["Config"]["Env"])
    assert "PIP_" not in environment
    assert "UV_" not in environment
    assert "CERT" not in environment
    command = ["python", "-c", "import tiny_thing, glob; print(tiny_thing.VALUE, glob.glob('/etc/pip.conf'))"]
    host = store.client.create_host_config(network_mode="none")
    container = store.client.create_container(image.id, command, host_config=host)
    try:
        store.client.start(container["Id"])
        assert store.client.wait(container["Id"])["StatusCode"] == 0
        assert bytes(store.client.logs(container["Id"])) == b"42 []\n"
    finally:
        store.client.remove_container(container["Id"], force=True)


def test_a_stand_in_is_recorded_and_told(store: ImageStore, index: Path, tmp_path: Path) -> None:
    """A public name we only stand in for is a deviation of the pack: caller and lock both know."""
    image = build(store, tmp_path / "task", "FROM python:3-slim\n")
    (standin,) = image.standins
    assert standin.name == "python:3-slim"
    assert "python3 " in standin.detail
    locked = store.lock.get("python:3-slim")
    assert locked is not None
    assert (locked.source, locked.id) == ("standin", standin.id)


def test_a_package_with_other_bytes_than_listed_fails_the_build(
    store: ImageStore, index: Path, tmp_path: Path
) -> None:
    _list(index, hashlib.sha256(b"what was published").hexdigest())
    with pytest.raises(BuildFailedError, match="not what the index lists"):
        build(store, tmp_path / "task", DOCKERFILE.replace("1.0", "1.0 # mismatch"))
