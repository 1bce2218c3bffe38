"""A package index for the time of one build: plain HTTP on the bridge address, files fetched by the host.

Why: a build container trusts no CA but the distribution's, so behind a TLS-intercepting proxy it cannot
reach an index itself. The host can. It fetches, checks each sha256 against the index, and hands the bytes
on over HTTP on the engine's bridge. No CA, key or setting remains in the image: the address travels as
build arguments, which are not part of an image's environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import html
import ipaddress
import re
import shutil
import socket
import struct
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .errors import PackageGatewayError
from .index import IndexFile, PackageIndex
from .store import ImageStore

BUILD_ARGUMENTS = (
    "PIP_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_DEFAULT_TIMEOUT",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_HTTP_TIMEOUT",
)
_CLIENT_TIMEOUT_S = "600"
_FIRST_PORT, _PORTS = 20000, 20000


class Gateway(ThreadingHTTPServer):
    """Serves `/simple/<project>/` and `/files/<sha256>/<filename>`; `refused` lists refusals."""

    daemon_threads = True

    def __init__(self, address: str, port: int, index: PackageIndex) -> None:
        self.index = index
        self.refused: list[str] = []
        super().__init__((address, port), _Handler)

    @property
    def build_arguments(self) -> dict[str, str]:
        """Values for BUILD_ARGUMENTS."""
        address, port = str(self.server_address[0]), self.server_address[1]
        url = f"http://{address}:{port}/simple/"
        return {
            "PIP_INDEX_URL": url,
            "PIP_TRUSTED_HOST": address,
            "PIP_DEFAULT_TIMEOUT": _CLIENT_TIMEOUT_S,
            "UV_DEFAULT_INDEX": url,
            "UV_INDEX_URL": url,
            "UV_HTTP_TIMEOUT": _CLIENT_TIMEOUT_S,
        }


@contextmanager
def package_gateway(index: PackageIndex, address: str, cache: Path) -> Iterator[Gateway]:
    """Run a gateway on `address` while the block runs.

    The port is derived from `cache`, so that the build arguments, and with them the engine's layer cache,
    stay the same from run to run; another port is taken when that one is busy.
    """
    wanted = _FIRST_PORT + int.from_bytes(hashlib.sha256(str(cache).encode()).digest()[:4], "big") % _PORTS
    server = _bind(address, wanted, index) or _bind(address, 0, index)
    if server is None:
        raise PackageGatewayError(
            f"no port can be opened on the engine's bridge address {address}",
            hint="image builds that install Python packages need a Docker engine on this very machine",
        )
    thread = threading.Thread(
        target=server.serve_forever, name="package-gateway", kwargs={"poll_interval": 0.05}
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def bridge_address(store: ImageStore) -> str:
    """The host's IPv4 address on the engine's default bridge. PackageGatewayError when there is none."""
    network = store.client.inspect_network("bridge")
    for config in (network.get("IPAM") or {}).get("Config") or []:
        gateway = str(config.get("Gateway") or "")
        if gateway and ipaddress.ip_address(gateway).version == 4:
            return gateway
    # An engine that found its bridge already made does not list the gateway: ask the interface itself.
    name = (network.get("Options") or {}).get("com.docker.network.bridge.name", "docker0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", str(name).encode()[:15])
            answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
        except OSError as error:
            raise PackageGatewayError(
                f"the engine's bridge {name} has no address on this machine",
                hint="image builds that install Python packages need a local engine with its default bridge",
            ) from error
    return socket.inet_ntoa(answer[20:24])


def render_page(project: str, files: tuple[IndexFile, ...]) -> bytes:
    """A PEP 503 page (with PEP 592 yanked, PEP 658 metadata) whose links point back to the gateway."""
    rows = []
    for file in files:
        values = {"href": f"/files/{file.sha256}/{urllib.parse.quote(file.filename)}#sha256={file.sha256}"}
        if file.requires_python:
            values["data-requires-python"] = file.requires_python
        if file.yanked is not None:
            values["data-yanked"] = file.yanked
        if file.metadata_sha256:
            values["data-core-metadata"] = values["data-dist-info-metadata"] = (
                f"sha256={file.metadata_sha256}"
            )
        attributes = " ".join(f'{name}="{html.escape(value)}"' for name, value in values.items())
        rows.append(f"<a {attributes}>{html.escape(file.filename)}</a><br>")
    head = f"<!DOCTYPE html><html><head><title>{html.escape(project)}</title></head>"
    return (head + "<body>\n" + "\n".join(rows) + "\n</body></html>\n").encode()


def _bind(address: str, port: int, index: PackageIndex) -> Gateway | None:
    try:
        return Gateway(address, port, index)
    except OSError:
        return None


class _Handler(BaseHTTPRequestHandler):
    server: Gateway
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        try:
            if match := re.fullmatch(r"/simple/([^/]+)/?", path):
                self._project(re.sub(r"[-_.]+", "-", match[1]).lower(), body)
            elif match := re.fullmatch(r"/files/([0-9a-f]{64})/([^/]+)", path):
                self._file(match[1], match[2], body)
            else:
                self._text(404, "not here", body)
        except PackageGatewayError as error:
            self.server.refused.append(error.message)
            self._text(502, error.message, body)

    def _project(self, name: str, body: bool) -> None:
        files = self.server.index.project(name)
        if files is None:
            self._text(404, "no such project", body)
            return
        page = render_page(name, files)
        self._head(200, "text/html; charset=utf-8", len(page))
        if body:
            self.wfile.write(page)

    def _file(self, sha256: str, filename: str, body: bool) -> None:
        path = self.server.index.file(sha256, filename)
        if path is None:
            self._text(404, "no such file", body)
            return
        with path.open("rb") as source:
            self._head(200, "application/octet-stream", path.stat().st_size)
            if body:
                shutil.copyfileobj(source, self.wfile)

    def _text(self, code: int, sentence: str, body: bool) -> None:
        data = sentence.encode()
        self._head(code, "text/plain; charset=utf-8", len(data))
        if body:
            self.wfile.write(data)

    def _head(self, code: int, content_type: str, length: int) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the build's own output tells what it fetched."""
