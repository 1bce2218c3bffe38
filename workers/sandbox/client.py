"""The worker's way to the Docker engine: typed errors, time limits on every call, nothing clever.

docker-py's `exec_run` and `exec_start` are not used: their client time-outs do not bound a running exec
(reference/sandbox.md section 0). `workers.sandbox.execute` reads the stream itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import docker
import docker.errors
import requests
import urllib3

from workers.errors import ContainerGoneError, EngineCallError, ImageMissingError

CALL_TIMEOUT_S: Final = 120
DEFAULT_SOCKET: Final = "/var/run/docker.sock"


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
        raise EngineCallError(call, type(error).__name__, str(error.explanation), error.status_code) from None
    except (docker.errors.DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise EngineCallError(call, type(error).__name__, str(error)) from None
    except OSError as error:
        raise EngineCallError(call, type(error).__name__, str(error)) from None


class Engine:
    """One Docker engine behind a Unix socket, shared by all attempt threads of a worker process."""

    def __init__(self, host: str | None = None, pool: int = 64) -> None:
        named = host or os.environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"
        if not named.startswith("unix://"):
            raise EngineCallError("connect", "UnsupportedHost", f"{named}: workers need a local unix socket")
        self.socket_path: Final = named.removeprefix("unix://")
        with translated("connect"):
            self.api = docker.APIClient(
                base_url=named, version="auto", timeout=CALL_TIMEOUT_S, max_pool_size=pool, num_pools=4
            )
        self.api_version: Final = str(self.api.api_version)
        self._image_configs: dict[str, Mapping[str, Any]] = {}

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
