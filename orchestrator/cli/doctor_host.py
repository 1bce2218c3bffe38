"""Checks of the machine: user, disk, Docker engine, base image, tools, attempt runner, clock."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from orchestrator import host_abilities
from orchestrator.cli.failures import expected, first_line
from orchestrator.cli.findings import Finding, broken, missing, ok, warn
from orchestrator.cli.output import size
from orchestrator.home import Home
from orchestrator.screenings.attempts import GROUP
from sandbox_images.base import BASE_IMAGE
from sandbox_images.debian import host_origin
from sandbox_images.engine import connect
from sandbox_images.errors import EngineUnreachableError, HostSetupError, ImageLockError
from sandbox_images.host import debian_like, is_root
from sandbox_images.lock import ImageLock
from sandbox_images.recipes import canonical_name

LEAST_DISK_BYTES: Final = 1_000_000_000
WANTED_DISK_BYTES: Final = 5_000_000_000
SKEW_S: Final = 5
_ENGINE_TIMEOUT_S: Final = 20
_REINSTALL: Final = "install Assize again, with its workers"
_SETUP: Final = "make setup, or assize images build coding-core"


def nearest_folder(path: Path) -> Path:
    """The path itself or the first folder above it that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def disk(check: str, folder: Path) -> Finding:
    """Free space on the file system of `folder`."""
    free = shutil.disk_usage(nearest_folder(folder)).free
    text = f"{size(free)} free at {folder}"
    if free < LEAST_DISK_BYTES:
        return missing(check, text, f"free at least {size(LEAST_DISK_BYTES)}")
    if free < WANTED_DISK_BYTES:
        return warn(check, text, f"{size(WANTED_DISK_BYTES)} leave room for images and evidence")
    return ok(check, text)


def engine() -> tuple[Any | None, list[Finding]]:
    """A client and the findings; no client when no engine answers."""
    try:
        client = connect(_ENGINE_TIMEOUT_S)
    except EngineUnreachableError as error:
        found = missing("docker engine", error.message, error.hint or "start the Docker engine")
        return None, [found]
    try:
        info = client.info()
        version = client.version()
    except Exception as error:  # noqa: BLE001 - whatever the SDK raises here means the same: no engine
        client.close()
        return None, [missing("docker engine", expected(error).message, "look at the log of the engine")]
    return client, list(_engine_findings(info, version))


def _engine_findings(info: Mapping[str, Any], version: Mapping[str, Any]) -> Iterator[Finding]:
    yield ok(
        "docker engine",
        f"{version.get('Version')} (API {version.get('ApiVersion')}), {info.get('OperatingSystem')}",
    )
    yield ok("docker cgroup", f"version {info.get('CgroupVersion', '1')}, driver {info.get('CgroupDriver')}")
    yield ok(
        "docker runtimes",
        f"{', '.join(sorted(info.get('Runtimes') or {}))}; default {info.get('DefaultRuntime')}",
    )
    root = Path(str(info.get("DockerRootDir") or "/nonexistent"))
    yield ok("docker storage", f"driver {info.get('Driver')}, in {root}")
    if root.is_dir():
        # A remote engine's folder is not on this machine and cannot be measured from here.
        yield disk("docker disk", root)
    limits = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu": "CpuCfsQuota"}
    absent = [name for name, key in limits.items() if info.get(key) is False]
    if absent:
        yield missing(
            "sandbox limits",
            f"the engine cannot limit {', '.join(absent)}",
            "enable the cgroup controllers of the kernel, then restart the host",
        )
    else:
        yield ok("sandbox limits", "memory, pids and cpu can be limited")
    yield _skew(info.get("SystemTime"))


def _skew(engine_time: object) -> Finding:
    try:
        # Nanoseconds are more digits than the parser takes.
        there = datetime.fromisoformat(str(engine_time)[:19]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return ok("engine clock", "the engine does not tell its time")
    skew = there - time.time()
    if abs(skew) > SKEW_S:
        return warn(
            "engine clock",
            f"{skew:+.0f} s from this host's clock",
            "set both clocks, for example with chrony: times of tries come from both",
        )
    return ok("engine clock", "agrees with this host's")


def user() -> Finding:
    """Whether this user may talk to the engine."""
    if is_root():
        return ok("user", "root")
    address = os.environ.get("DOCKER_HOST", "")
    if address and not address.startswith("unix://"):
        return ok("user", f"uid {os.geteuid()}, remote engine {address}")
    socket = Path(address.removeprefix("unix://") or "/var/run/docker.sock")
    if not socket.exists():
        return warn("user", f"uid {os.geteuid()}; {socket} does not exist", "see the docker engine's row")
    if not os.access(socket, os.R_OK | os.W_OK):
        return missing(
            "user",
            f"uid {os.geteuid()} may not use {socket}",
            "add the user to the docker group and log in again, or run as root",
        )
    return ok("user", f"uid {os.geteuid()} with access to {socket}")


def base_image(home: Home, client: Any | None) -> list[Finding]:
    """The base image of the bundled packs, and where needed what could build it."""
    try:
        locked = ImageLock(home.images_lock).get(canonical_name(BASE_IMAGE))
    except NotADirectoryError:
        return [missing("base image", f"{home.images_lock} cannot exist", "see the home's row")]
    except ImageLockError as error:
        return [missing("base image", error.message, error.hint or "move the image lock away")]
    if client is None:
        return [warn("base image", "unknown without an engine", "see the docker engine's row")]
    known = {str(image["Id"]) for image in client.images(all=True)}
    if locked is not None and locked.id in known:
        return [ok("base image", f"{BASE_IMAGE} {locked.id[:19]} ({locked.detail})")]
    what = f"{BASE_IMAGE} is not locked here yet" if locked is None else f"{locked.id[:19]} is gone"
    builder = _builder()
    if builder.blocks:
        return [missing("base image", what, _SETUP), builder]
    return [warn("base image", f"{what}; the first screening prepares it", _SETUP), builder]


def abilities(home: Home, client: Any) -> list[Finding]:
    """What this host can enforce on a sandbox; nothing of it stops a screening that does not ask for it."""
    try:
        locked = ImageLock(home.images_lock).get(canonical_name(BASE_IMAGE))
    except (NotADirectoryError, ImageLockError):
        locked = None
    known = {str(image["Id"]) for image in client.images(all=True)}
    image = locked.id if locked is not None and locked.id in known else None
    found = host_abilities.judge(host_abilities.observe(client, image))
    return [
        ok(one.name, one.detail) if one.holds or one.mend is None else warn(one.name, one.detail, one.mend)
        for one in found
    ]


def _builder() -> Finding:
    """What a base image is built with where none can be pulled."""
    try:
        distribution, _ = host_origin()
    except HostSetupError as error:
        return missing("mmdebstrap", error.message, error.hint or "load the base image into the engine")
    if found := shutil.which("mmdebstrap"):
        return ok("mmdebstrap", f"{found}, from the packages of {distribution.name}")
    if is_root() and debian_like():
        return ok("mmdebstrap", "not installed; installed from the distribution when it is needed")
    return missing(
        "mmdebstrap", "not installed, and this user cannot install it", "apt-get install mmdebstrap"
    )


def runner() -> Finding:
    """Whether the workers are installed."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if "docker" not in found:
        return missing("attempt runner", "no runner called docker is installed", _REINSTALL)
    try:
        found["docker"].load()
    except Exception as error:  # noqa: BLE001 - importing may fail in any way; each means it cannot run
        return broken("attempt runner", problem(error), _REINSTALL)
    return ok("attempt runner", ", ".join(sorted(found)))


def clock(last_event_ms: int | None) -> Finding:
    """Whether time goes forward: certificates carry it."""
    now_ms = time.time_ns() // 1_000_000
    now = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if last_event_ms is not None and last_event_ms > now_ms + SKEW_S * 1000:
        behind = (last_event_ms - now_ms) // 1000
        return warn(
            "clock",
            f"{now}, {behind} s before the newest event of the ledger",
            "set the clock: leases and certificates carry its times",
        )
    return ok("clock", now)


def problem(error: BaseException) -> str:
    """One line about an unexpected error of a check."""
    return f"{type(error).__name__}: {first_line(str(error))}"
