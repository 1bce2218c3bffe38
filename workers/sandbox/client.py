"""The worker's way to the Docker engine: typed errors, time limits on every call, nothing clever.

docker-py's `exec_run` and `exec_start` are not used: their client time-outs do not bound a running exec
(reference/sandbox.md section 0). `workers.sandbox.execute` reads the stream itself.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final

import docker
import docker.errors
import requests
import urllib3
from docker.transport import UnixHTTPAdapter

from workers.errors import ContainerGoneError, EngineCallError, ImageMissingError, PathRefusedError

CALL_TIMEOUT_S: Final = 120
PING_TIMEOUT_S: Final = 5
STREAM_DEADLINE_S: Final = 900
_LOCAL: Final = "http+docker://"
_CHUNK_BYTES: Final = 1 << 18
_STAT_HEADER: Final = "X-Docker-Container-Path-Stat"
DEFAULT_SOCKET: Final = "/var/run/docker.sock"


_LONG: Final = "file name too long"
_LOOP: Final = ("too many links", "too many levels of symbolic links")
_PATH_ERRORS: Final[Mapping[str, tuple[str, ...]]] = {
    "changes": (_LONG,),
    "get_archive": (_LONG, "not a directory", *_LOOP),
    "stat_archive": (_LONG, "not a directory", *_LOOP),
    "put_archive": (
        _LONG,
        "not a directory",
        "is a directory",
        "no such file or directory",
        "file exists",
        "invalid argument",
        *_LOOP,
    ),
    "commit": (_LONG, "file exists", "invalid argument", "directory not empty"),
}
"""System errors, by call, that what lies in a container can provoke; the engine ends its messages so."""


def _of_a_path(call: str, error: docker.errors.APIError) -> bool:
    said = str(error.explanation).strip().lower()
    return said.endswith(_PATH_ERRORS.get(call, ())) or (
        call.endswith("_archive") and said.startswith("evalsymlinksinscope: too many links")
    )


@contextlib.contextmanager
def translated(call: str) -> Iterator[None]:
    """Turn docker-py, requests and socket errors of one engine call into `EngineCallError`."""
    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise ImageMissingError(call, type(error).__name__, str(error.explanation), 404) from None
    except docker.errors.NotFound as error:
        if call == "create" and "image" in str(error.explanation).lower():
            raise ImageMissingError(call, type(error).__name__, str(error.explanation), 404) from None
        raise ContainerGoneError(call, type(error).__name__, str(error.explanation), 404) from None
    except docker.errors.APIError as error:
        if _of_a_path(call, error):
            raise PathRefusedError(
                call, type(error).__name__, str(error.explanation)[-500:], error.status_code
            ) from None
        raise EngineCallError(call, type(error).__name__, str(error.explanation), error.status_code) from None
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise EngineCallError(call, type(error).__name__, str(error)) from None
    except OSError as error:
        raise EngineCallError(call, type(error).__name__, str(error)) from None


def _chunks(call: str, response: requests.Response) -> Generator[bytes, None, None]:
    until = time.monotonic() + STREAM_DEADLINE_S
    with contextlib.closing(response), translated(call):
        for chunk in response.iter_content(_CHUNK_BYTES):
            if time.monotonic() > until:
                raise EngineCallError(call, "Deadline", f"no end after {STREAM_DEADLINE_S} s")
            yield chunk


class _OnePool(UnixHTTPAdapter):
    """Keeps one set of connections to the socket; docker-py makes one for every URL that is asked for."""

    def get_connection(self, url: Any, proxies: Any = None) -> Any:
        """The pool of the socket, whatever the URL."""
        return super().get_connection(_LOCAL, proxies)


class Engine:
    """One Docker engine behind a Unix socket, shared by all attempt threads of a worker process.

    `owner_labels` mark what belongs to the whole process and not to one attempt.
    """

    def __init__(self, host: str | None = None, pool: int = 64) -> None:
        named = host or os.environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"
        if not named.startswith("unix://"):
            raise EngineCallError("connect", "UnsupportedHost", f"{named}: workers need a local unix socket")
        self.socket_path: Final = named.removeprefix("unix://")
        with translated("connect"):
            self.api = docker.APIClient(
                base_url=named, version="auto", timeout=CALL_TIMEOUT_S, max_pool_size=pool, num_pools=4
            )
            self.api.trust_env = False  # proxies and netrc are no matter of a local socket
            self.api.mount(
                _LOCAL, _OnePool(f"http+{named}", CALL_TIMEOUT_S, pool_connections=1, max_pool_size=pool)
            )
        self.api_version: Final = str(self.api.api_version)
        self.owner_labels: Mapping[str, str] = {}
        self._image_configs: dict[str, Mapping[str, Any]] = {}

    def answers(self) -> bool:
        """Whether the engine answers now; one that is frozen counts as away."""
        try:
            with translated("ping"):
                url = f"{self.api.base_url}/v{self.api_version}/_ping"
                return bool(self.api.get(url, timeout=PING_TIMEOUT_S).ok)
        except EngineCallError:
            return False

    def stream(self, call: str, where: str, **params: str) -> Generator[bytes, None, None]:
        """Chunks of `GET where`; the engine's refusal is raised here, a broken stream while reading.

        docker-py switches the socket's time-out off for streams; here every read keeps it, and the whole
        ends at `STREAM_DEADLINE_S`.
        """
        with translated(call):
            response = self.api.get(
                f"{self.api.base_url}/v{self.api_version}{where}",
                params=params,
                stream=True,
                timeout=CALL_TIMEOUT_S,
            )
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                docker.errors.create_api_error_from_http_exception(error)
        return _chunks(call, response)

    def path_stat(self, container_id: str, path: str) -> Mapping[str, Any] | None:
        """`mode` (bits in the engine's own form) and `size` of a path in a container; None if absent.

        Links above the path are followed inside the container, the path itself is not.
        """
        with translated("stat_archive"):
            response = self.api.head(
                f"{self.api.base_url}/v{self.api_version}/containers/{container_id}/archive",
                params={"path": path},
                timeout=CALL_TIMEOUT_S,
            )
            if response.status_code == 404:
                return None
            try:
                response.raise_for_status()
            except requests.HTTPError as error:
                docker.errors.create_api_error_from_http_exception(error)
        found: Mapping[str, Any] = json.loads(base64.b64decode(response.headers[_STAT_HEADER]))
        return found

    def image_config(self, image_id: str) -> Mapping[str, Any]:
        """`Config` of an image by Id (immutable, so remembered); `ImageMissingError` if absent."""
        known = self._image_configs.get(image_id)
        if known is None:
            with translated("image"):
                try:
                    known = self.api.inspect_image(image_id).get("Config") or {}  # type: ignore[no-untyped-call]
                except docker.errors.NotFound as error:
                    raise ImageMissingError("image", "ImageNotFound", str(error.explanation), 404) from None
            self._image_configs[image_id] = known
        return known

    def find_image(self, reference: str) -> Mapping[str, Any]:
        """The engine's description of an image by name or Id; raises `ImageMissingError`."""
        with translated("image"):
            found: Mapping[str, Any] = self.api.inspect_image(reference)  # type: ignore[no-untyped-call]
            return found

    def commit(self, container_id: str, repository: str, tag: str | None, labels: Mapping[str, str]) -> str:
        """Snapshot a container's file system as an image; returns its Id."""
        with translated("commit"):
            answer = self.api.commit(container_id, repository, tag, conf={"Labels": dict(labels)})
        return str(answer["Id"])

    def info(self) -> Mapping[str, Any]:
        """The engine's own description, for the sandbox report."""
        with translated("info"):
            return dict(self.api.info())

    def remove_image(self, image_id: str) -> None:
        """Remove a snapshot; one that is gone already is fine."""
        with contextlib.suppress(ContainerGoneError, ImageMissingError), translated("remove_image"):
            self.api.remove_image(image_id, force=True)

    def close(self) -> None:
        """Give the connections back."""
        self.api.close()
