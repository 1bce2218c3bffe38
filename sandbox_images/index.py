"""The host's Python package index, read on the host: pages, files, and the sha256 of each.

Which index: the one the host's pip is set up for, else pip's own default, asked of pip at run time. The
host's CA bundle and proxies apply here and only here; builds never see them.
"""

from __future__ import annotations

import hashlib
import html.parser
import json
import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .errors import PackageGatewayError
from .lock import write_atomically

_TIMEOUT_S = 60
_PAGE_LIMIT_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1 << 20
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class IndexFile:
    """One file of a project; files whose index entry has no sha256 are never listed."""

    filename: str
    url: str
    sha256: str
    requires_python: str
    yanked: str | None
    metadata_sha256: str


@dataclass(frozen=True)
class PipSettings:
    """What the host's pip would use: index URL (may hold credentials) and extra CA bundle, empty if none."""

    index_url: str
    ca_bundle: str


def read_pip_settings() -> PipSettings:
    """Ask the pip of this interpreter. PackageGatewayError when there is none."""
    config: dict[str, str] = {}
    for line in _pip("-m", "pip", "--disable-pip-version-check", "config", "list").splitlines():
        key, found, value = line.partition("=")
        if found:
            config[key.strip()] = value.strip().strip("'\"")
    sections = (":env:", "download", "install", "global")

    def setting(name: str) -> str:
        return next((config[f"{s}.{name}"] for s in sections if f"{s}.{name}" in config), "")

    index = (
        setting("index-url")
        or _pip("-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)").strip()
    )
    return PipSettings(index, setting("cert") or os.environ.get("REQUESTS_CA_BUNDLE", ""))


def pip_environment() -> dict[str, str]:
    """The environment for a pip of this host. Older pips read only PIP_CERT, not SSL_CERT_FILE."""
    environment = dict(os.environ)
    if bundle := environment.get("SSL_CERT_FILE"):
        environment.setdefault("PIP_CERT", bundle)
    return environment


def _pip(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        env=pip_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise PackageGatewayError(
            "pip is missing from this Python: package index unknown",
            hint="make the virtual environment again: make setup",
        )
    return done.stdout


class PackageIndex:
    """Reads project pages once and files once; files are kept in `cache` under their sha256."""

    def __init__(self, settings: PipSettings, cache: Path) -> None:
        parts = urllib.parse.urlsplit(settings.index_url)
        self._host = parts.hostname or ""
        self._authorization = ""
        if parts.username is not None:
            pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self._authorization = "Basic " + b64encode(pair.encode()).decode()
        address = self._host + (f":{parts.port}" if parts.port else "")
        self._base = urllib.parse.urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
        self._cache = cache
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=_tls(settings.ca_bundle))
        )
        self._pages: dict[str, tuple[IndexFile, ...]] = {}
        self._files: dict[tuple[str, str], tuple[str, str]] = {}
        self._guard = threading.Lock()

    def project(self, name: str) -> tuple[IndexFile, ...] | None:
        """The files of a project by its normalised name; None when the index has no such project."""
        if not _PROJECT.fullmatch(name):
            return None
        with self._guard:
            if name in self._pages:
                return self._pages[name]
        try:
            with self._open(f"{self._base}/{name}/") as answer:
                body = answer.read(_PAGE_LIMIT_BYTES)
                files = parse_page(body, answer.headers.get_content_type(), answer.geturl())
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                return None
            raise PackageGatewayError(f"the package index answers {error.code} for {name}") from error
        except (OSError, ValueError) as error:
            raise PackageGatewayError(
                f"the package index cannot be read for {name}: {_cause(error)}"
            ) from error
        with self._guard:
            self._pages[name] = files
            for file in files:
                self._files[(file.sha256, file.filename)] = (file.url, file.sha256)
                if file.metadata_sha256:
                    metadata = (file.url + ".metadata", file.metadata_sha256)
                    self._files[(file.sha256, file.filename + ".metadata")] = metadata
        return files

    def file(self, sha256: str, filename: str) -> Path | None:
        """A local path with the verified bytes, or None for a file no page listed.

        PackageGatewayError if the bytes that came do not have the sha256 of the index page.
        """
        with self._guard:
            known = self._files.get((sha256, filename))
        if known is None:
            return None
        url, expected = known
        path = self._cache / expected
        if path.is_file():
            with path.open("rb") as kept:
                if hashlib.file_digest(kept, "sha256").hexdigest() == expected:
                    return path
            path.unlink()
        try:
            with self._open(url) as answer:
                data = _read_all(answer)
        except (OSError, ValueError) as error:
            raise PackageGatewayError(f"{filename} cannot be downloaded: {_cause(error)}") from error
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise PackageGatewayError(
                f"{filename}: the bytes that came (sha256 {found}) are not what the index lists ({expected})"
            )
        write_atomically(path, data)
        return path

    def _open(self, url: str) -> Any:
        request = urllib.request.Request(url, headers={"Accept": _ACCEPT, "User-Agent": "assize-image-build"})
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"scheme {parts.scheme!r}")
        if self._authorization and parts.hostname == self._host:
            request.add_unredirected_header("Authorization", self._authorization)
        return self._opener.open(request, timeout=_TIMEOUT_S)


def parse_page(body: bytes, content_type: str, base_url: str) -> tuple[IndexFile, ...]:
    """The files of a project page, JSON (PEP 691) or HTML (PEP 503); ValueError if it is neither."""
    if content_type.endswith("json"):
        data = json.loads(body)
        entries = [_json_entry(entry) for entry in data.get("files", [])]
    else:
        reader = _Links()
        reader.feed(body.decode("utf-8", errors="replace"))
        entries = reader.found
    return tuple(
        IndexFile(
            filename=entry["filename"],
            url=urllib.parse.urljoin(base_url, entry["url"]),
            sha256=entry["sha256"],
            requires_python=entry["requires_python"],
            yanked=entry["yanked"],
            metadata_sha256=entry["metadata"] if _SHA256.fullmatch(entry["metadata"]) else "",
        )
        for entry in entries
        if _SHA256.fullmatch(entry["sha256"]) and re.fullmatch(r"[\w.+!-]+", entry["filename"])
    )


def _json_entry(entry: dict[str, Any]) -> dict[str, Any]:
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata"))
    yanked = entry.get("yanked", False)
    return {
        "filename": str(entry.get("filename", "")),
        "url": str(entry.get("url", "")),
        "sha256": str(entry.get("hashes", {}).get("sha256", "")),
        "requires_python": str(entry.get("requires-python") or ""),
        "yanked": None if yanked is False or yanked is None else (yanked if isinstance(yanked, str) else ""),
        "metadata": str(metadata.get("sha256", "")) if isinstance(metadata, dict) else "",
    }


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag != "a" or not values.get("href"):
            return
        url, fragment = urllib.parse.urldefrag(str(values["href"]))
        metadata = values.get("data-core-metadata") or values.get("data-dist-info-metadata") or ""
        self.found.append(
            {
                "filename": urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1]),
                "url": url,
                "sha256": fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "",
                "requires_python": values.get("data-requires-python") or "",
                "yanked": (values["data-yanked"] or "") if "data-yanked" in values else None,
                "metadata": metadata.removeprefix("sha256="),
            }
        )


def _tls(ca_bundle: str) -> ssl.SSLContext:
    """System trust (with SSL_CERT_FILE, SSL_CERT_DIR) plus the bundle pip is told to use."""
    context = ssl.create_default_context()
    if ca_bundle:
        try:
            context.load_verify_locations(cafile=ca_bundle)
        except OSError as error:
            raise PackageGatewayError(
                f"the CA bundle pip is set to cannot be read: {error.strerror}"
            ) from error
    return context


def _read_all(answer: IO[bytes]) -> bytes:
    return b"".join(iter(lambda: answer.read(_CHUNK_BYTES), b""))


def _cause(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(error).__name__
