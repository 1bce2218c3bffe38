"""The package gateway: what it serves is what the index lists, byte for byte, or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox_images.errors import PackageGatewayError
from sandbox_images.gateway import Gateway, package_gateway
from sandbox_images.index import PackageIndex, PipSettings, parse_page

WHEEL = "tiny_thing-1.0-py3-none-any.whl"


class Upstream(ThreadingHTTPServer):
    """A stand-in for the host's index: `answers` maps a path to (content type, bytes)."""

    daemon_threads = True

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), UpstreamHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class UpstreamHandler(BaseHTTPRequestHandler):
    server: Upstream

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        kind, data = self.server.answers.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in self.server.answers else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def gateway(upstream: Upstream, tmp_path: Path) -> Iterator[Gateway]:
    cache = tmp_path / "packages"
    cache.mkdir()
    index = PackageIndex(PipSettings(f"{upstream.url}/simple/", ""), cache)
    with package_gateway(index, "127.0.0.1", cache) as server:
        yield server


def make_wheel(folder: Path) -> bytes:
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_thing.py", "VALUE = 42\n")
        info = "tiny_thing-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


def publish(upstream: Upstream, data: bytes, sha256: str, *, as_json: bool) -> None:
    if as_json:
        files = [
            {"filename": WHEEL, "url": f"../../files/{WHEEL}", "hashes": {"sha256": sha256}, "yanked": False}
        ]
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": "tiny-thing", "files": files}).encode()
        upstream.answers["/simple/tiny-thing/"] = ("application/vnd.pypi.simple.v1+json", page)
    else:
        page = f'<a href="../../files/{WHEEL}#sha256={sha256}">{WHEEL}</a>'.encode()
        upstream.answers["/simple/tiny-thing/"] = ("text/html", page)
    upstream.answers[f"/files/{WHEEL}"] = ("application/octet-stream", data)


def get(gateway: Gateway, path: str) -> bytes:
    address, port = gateway.server_address[:2]
    with urllib.request.urlopen(f"http://{address!s}:{port}{path}", timeout=30) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("as_json", [True, False])
def test_a_real_pip_installs_from_it(
    gateway: Gateway, upstream: Upstream, tmp_path: Path, as_json: bool
) -> None:
    """Both index formats (PEP 503, PEP 691) come out as pages that pip itself accepts and verifies."""
    data = make_wheel(tmp_path)
    publish(upstream, data, hashlib.sha256(data).hexdigest(), as_json=as_json)
    # Only what a build container has: the build arguments, no host configuration.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    environment |= gateway.build_arguments
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-cache-dir",
            "-d",
            str(tmp_path / "got"),
            "tiny.thing==1.0",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got" / WHEEL).read_bytes() == data


def test_bytes_that_are_not_the_listed_ones_are_refused(
    gateway: Gateway, upstream: Upstream, tmp_path: Path
) -> None:
    """Issue 2, set-up: packages come with hashes. A wrong file is neither served nor kept."""
    listed = hashlib.sha256(b"the published file").hexdigest()
    publish(upstream, b"another file", listed, as_json=True)
    assert listed in get(gateway, "/simple/tiny-thing/").decode()
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(gateway, f"/files/{listed}/{WHEEL}")
    with caught.value as answer:
        assert answer.code == 502
        assert b"not what the index lists" in answer.read()
    assert len(gateway.refused) == 1
    assert list((tmp_path / "packages").iterdir()) == []


def test_a_damaged_cached_file_is_fetched_again(gateway: Gateway, upstream: Upstream, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"good").hexdigest()
    publish(upstream, b"good", sha256, as_json=True)
    (tmp_path / "packages" / sha256).write_bytes(b"bad")
    get(gateway, "/simple/tiny-thing/")
    assert get(gateway, f"/files/{sha256}/{WHEEL}") == b"good"
    before = len(upstream.asked)
    assert get(gateway, f"/files/{sha256}/{WHEEL}") == b"good"
    assert len(upstream.asked) == before


@pytest.mark.parametrize(
    "path",
    [
        f"/files/{'0' * 64}/{WHEEL}",
        "/simple/no-such/",
        "/simple/..%2f..%2fetc/",
        "/etc/passwd",
        "/",
        "/simple/",
    ],
)
def test_nothing_else_is_served(gateway: Gateway, path: str) -> None:
    """Only listed files and existing projects: the gateway is no proxy."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(gateway, path)
    with caught.value as answer:
        assert answer.code == 404


def test_files_without_sha256_are_not_listed() -> None:
    md5 = b'<a href="a-1.whl#md5=00">a-1.whl</a><a href="b-1.whl">b-1.whl</a>'
    assert parse_page(md5, "text/html", "http://x/") == ()
    page = json.dumps({"files": [{"filename": "a-1.whl", "url": "a", "hashes": {"md5": "00"}}]}).encode()
    assert parse_page(page, "application/json", "http://x/") == ()


def test_yanked_requires_python_and_metadata_survive(gateway: Gateway, upstream: Upstream) -> None:
    digest, metadata = "a" * 64, "b" * 64
    page = (
        f'<a href="{WHEEL}#sha256={digest}" data-requires-python="&gt;=3.8" data-yanked="bad &amp; old"'
        f' data-core-metadata="sha256={metadata}">{WHEEL}</a>'
    )
    upstream.answers["/simple/tiny-thing/"] = ("text/html", page.encode())
    served = parse_page(get(gateway, "/simple/Tiny_Thing/"), "text/html", "http://gateway/")
    assert [(f.filename, f.sha256, f.requires_python, f.yanked, f.metadata_sha256) for f in served] == [
        (WHEEL, digest, ">=3.8", "bad & old", metadata)
    ]


def test_credentials_of_the_index_stay_on_the_host(upstream: Upstream, tmp_path: Path) -> None:
    """They go to the index itself, to no other host, and never into a build argument."""
    url = upstream.url.replace("http://", "http://user:s%40cret@") + "/simple/"
    with Upstream() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        data = b"x"
        sha256 = hashlib.sha256(data).hexdigest()
        elsewhere = other.url.replace("127.0.0.1", "localhost")
        page = f'<a href="{elsewhere}/{WHEEL}#sha256={sha256}">x</a>'.encode()
        upstream.answers["/simple/tiny-thing/"] = ("text/html", page)
        other.answers[f"/{WHEEL}"] = ("application/octet-stream", data)
        index = PackageIndex(PipSettings(url, ""), tmp_path)
        with package_gateway(index, "127.0.0.1", tmp_path) as gateway:
            assert index.project("tiny-thing")
            assert index.file(sha256, WHEEL)
            assert not any("cret" in value for value in gateway.build_arguments.values())
        other.shutdown()
        thread.join()
    assert upstream.asked == [("/simple/tiny-thing/", "Basic dXNlcjpzQGNyZXQ=")]
    assert other.asked == [(f"/{WHEEL}", "")]


def test_the_port_is_the_same_from_run_to_run(upstream: Upstream, tmp_path: Path) -> None:
    """So that the engine's layer cache, which knows the build arguments, is reused; if busy, another one."""
    index = PackageIndex(PipSettings(upstream.url, ""), tmp_path)
    with (
        package_gateway(index, "127.0.0.1", tmp_path) as first,
        package_gateway(index, "127.0.0.1", tmp_path) as beside,
    ):
        assert beside.server_address != first.server_address
    with package_gateway(index, "127.0.0.1", tmp_path) as again:
        assert again.server_address == first.server_address


def test_an_address_that_is_not_ours_is_an_error(upstream: Upstream, tmp_path: Path) -> None:
    index = PackageIndex(PipSettings(upstream.url, ""), tmp_path)
    gateway = package_gateway(index, "203.0.113.1", tmp_path)
    with pytest.raises(PackageGatewayError, match="no port can be opened"), gateway:
        pass
