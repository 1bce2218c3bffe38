"""Build a task's image over the Docker SDK from our own tar, or reuse the one built from the same bytes.

`FROM <name>` is built against the locked Id, never against a tag. The digest in the label covers the
context, the Dockerfile, the Ids of all base images, the build arguments and the stage; an image that
carries it is the same image, so a second run builds nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker.errors
import requests.exceptions
import urllib3.exceptions

from .archive import engine_architecture
from .base import IMAGE_LABEL, BaseImage, ensure_base, locked_image
from .context import SENT_DOCKERFILE, BuildContext, read_context
from .dockerfile import Dockerfile, parse_dockerfile
from .errors import BuildFailedError, BuildTimeoutError, DockerfileError
from .gateway import BUILD_ARGUMENTS, Gateway, bridge_address, package_gateway
from .index import PackageIndex, read_pip_settings
from .store import ImageStore
from .verify import verify_contents

CONTEXT_LABEL = "assize.context"
FORMAT = 1
_OUTPUT_LINES = 15
# A streamed answer is read through urllib3 itself: its errors come unwrapped.
_BROKEN = (docker.errors.APIError, requests.exceptions.RequestException, urllib3.exceptions.HTTPError)


@dataclass(frozen=True)
class BuildRequest:
    """What to build. `dockerfile` is relative to `folder`; `timeout_s` bounds the build itself.

    `network`: auto (the engine's bridge if a RUN step fetches something, else none), none or bridge.
    """

    folder: Path
    dockerfile: str = "Dockerfile"
    build_args: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    timeout_s: int = 1800
    network: str = "auto"


@dataclass(frozen=True)
class BuiltImage:
    """An image and what it was made from.

    `context_digest` is the sha256 (hex) in the label; `verified_files` counts the files that were read
    back from the image and compared when it was built (0 when it was reused).
    """

    id: str
    name: str
    context_digest: str
    bases: tuple[BaseImage, ...]
    reused: bool
    verified_files: int

    @property
    def standins(self) -> tuple[BaseImage, ...]:
        """Bases that only stand in for the image the task names: a deviation of the pack, to be shown."""
        return tuple(base for base in self.bases if base.standin)


def build_image(store: ImageStore, request: BuildRequest) -> BuiltImage:
    """Resolve the bases, then reuse or build; the Id is recorded in the lock.

    Errors: BuildContextError, DockerfileError, ImageUnavailableError, BuildFailedError, BuildTimeoutError,
    ImageContentError, PackageGatewayError. All name the context folder.
    """
    context = read_context(request.folder, request.dockerfile)
    parsed = _parse(context, request)
    _check_platforms(store, parsed, request)
    bases = tuple(ensure_base(store, name) for name in parsed.base_names)
    ids = dict(zip(parsed.base_names, (base.id for base in bases), strict=True))
    digest = request_digest(context, ids, request)
    name = f"assize/task:{digest[:16]}"
    known = store.inspect(name)
    reused = known is not None and store.labels(known).get(CONTEXT_LABEL) == digest
    verified = 0
    if not reused:
        store.say(f"building the image of {_where(request)}")
        _build(store, request, context, parsed, ids, name, digest)
        known = store.inspect(name)
        if known is None or store.labels(known).get(CONTEXT_LABEL) != digest:
            raise BuildFailedError(f"{_where(request)}: the engine lists no image with our context digest")
        verified = verify_contents(store, str(known["Id"]), context, parsed)
    assert known is not None
    store.lock.record(name, locked_image(known, "build", digest, _where(request)))
    return BuiltImage(str(known["Id"]), name, digest, bases, reused, verified)


def request_digest(context: BuildContext, ids: Mapping[str, str], request: BuildRequest) -> str:
    """sha256 (hex) of everything that decides the image's content."""
    parts = [FORMAT, context.digest, sorted(ids.items()), sorted(request.build_args.items()), request.target]
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest()


def _parse(context: BuildContext, request: BuildRequest) -> Dockerfile:
    try:
        return parse_dockerfile(context.dockerfile_text(), request.build_args)
    except UnicodeDecodeError as error:
        raise DockerfileError(f"{_where(request)}: {request.dockerfile} is not UTF-8") from error
    except DockerfileError as error:
        raise DockerfileError(f"{_where(request)}: {request.dockerfile} {error.message}") from error


def _check_platforms(store: ImageStore, parsed: Dockerfile, request: BuildRequest) -> None:
    ours = f"linux/{engine_architecture(store)}" if parsed.platforms else ""
    for platform in parsed.platforms:
        if platform != ours:
            raise DockerfileError(f"{_where(request)}: needs platform {platform}, this engine has {ours}")


def _build(
    store: ImageStore,
    request: BuildRequest,
    context: BuildContext,
    parsed: Dockerfile,
    ids: Mapping[str, str],
    name: str,
    digest: str,
) -> None:
    online = request.network == "bridge" or (request.network == "auto" and parsed.needs_network)
    gateway_arguments = BUILD_ARGUMENTS if online and parsed.needs_python_packages else ()
    with contextlib.ExitStack() as stack:
        tar = stack.enter_context(tempfile.TemporaryFile())
        context.write_tar(tar, parsed.rewrite(ids, gateway_arguments))
        tar.seek(0)
        gateway = stack.enter_context(_gateway(store)) if gateway_arguments else None
        arguments = {**(gateway.build_arguments if gateway else {}), **request.build_args}
        events = store.client.build(
            fileobj=tar,
            custom_context=True,
            dockerfile=SENT_DOCKERFILE,
            tag=name,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=request.timeout_s,
            buildargs=arguments,
            target=request.target or None,
            network_mode="bridge" if online else "none",
            use_config_proxy=False,
            labels={**request.labels, CONTEXT_LABEL: digest, IMAGE_LABEL: name},
        )
        _follow(events, request, gateway)


@contextlib.contextmanager
def _gateway(store: ImageStore) -> Iterator[Gateway]:
    cache = store.cache / "packages"
    cache.mkdir(parents=True, exist_ok=True)
    with package_gateway(PackageIndex(read_pip_settings(), cache), bridge_address(store), cache) as gateway:
        yield gateway


def _follow(events: Iterator[Any], request: BuildRequest, gateway: Gateway | None) -> None:
    """Read the build's events to the end. The engine stops a build whose client hangs up."""
    deadline = time.monotonic() + request.timeout_s
    output: list[str] = []
    try:
        for event in events:
            output = [*output, *str(event.get("stream", "")).strip().splitlines()][-_OUTPUT_LINES:]
            if "error" in event:
                refused = [f"package gateway: {line}" for line in (gateway.refused if gateway else [])]
                told = " | ".join([*output, *refused, str(event["error"]).strip()])
                raise BuildFailedError(f"{_where(request)}: a build step failed: {told}")
            if time.monotonic() > deadline:
                raise BuildTimeoutError(
                    f"{_where(request)}: the build did not end within {request.timeout_s} s"
                )
    except (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise BuildTimeoutError(f"{_where(request)}: no output for {request.timeout_s} s") from error
    except _BROKEN as error:
        raise BuildFailedError(f"{_where(request)}: the engine broke the build off: {error}") from error
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()


def _where(request: BuildRequest) -> str:
    """The context in words: its last two folder names (task and part), no path of this machine."""
    return "/".join(request.folder.absolute().parts[-2:])
