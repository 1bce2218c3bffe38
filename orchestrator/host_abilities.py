"""What this host and its engine can enforce: asked when a worker starts, kept with every try's evidence.

`observe` asks and changes nothing (one container is created and removed again, never started, to learn
whether the engine takes a disk quota). `judge` is pure: what was seen -> abilities, each with what it means
and how to mend it. `assize doctor` shows the same list.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import docker.errors
import requests

from orchestrator.errors import HostError

LOOP_TOOLS: Final = ("mkfs.ext4", "debugfs", "losetup")
SBIN: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
_LOOP_CONTROL: Final = Path("/dev/loop-control")
_METACOPY: Final = Path("/sys/module/overlay/parameters/metacopy")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_QUOTA: Final = "64m"
_VERSION_S: Final = 10
_KEPT: Final = 200
_DATE: Final = re.compile(r"(?<!\d)20\d{6}(?!\d)")
_GVISOR_LEAST: Final = 20230501
"""The first release whose default platform is systrap; older ones are refused by nothing, but told."""


@dataclass(frozen=True)
class Seen:
    """What the host answered; `quota` is the engine's refusal, empty where it took one, None if not asked."""

    info: Mapping[str, Any]
    versions: Mapping[str, str] = field(default_factory=dict)
    quota: str | None = None
    loop_missing: tuple[str, ...] = ()
    loop_control: bool = False
    layers_readable: bool = False
    cgroups_readable: bool = False


@dataclass(frozen=True)
class Ability:
    """One thing that can (or cannot) be enforced here; `mend` says how it could be."""

    name: str
    holds: bool
    detail: str
    mend: str | None = None


def observe(api: Any, image_id: str | None = None) -> Seen:
    """Ask the engine behind a docker `APIClient`, and this host; raises what the client raises.

    Without an image nobody can tell whether a disk quota would be taken.
    """
    info = api.info()
    root = Path(str(info.get("DockerRootDir") or "/nonexistent"))
    return Seen(
        info=info,
        versions={name: _version(one) for name, one in (info.get("Runtimes") or {}).items()},
        quota=None if image_id is None else _quota_refusal(api, image_id),
        loop_missing=tuple(tool for tool in LOOP_TOOLS if shutil.which(tool, path=SBIN) is None),
        loop_control=os.access(_LOOP_CONTROL, os.R_OK | os.W_OK) and os.geteuid() == 0,
        layers_readable=os.access(root / "overlay2", os.R_OK | os.X_OK) and _metacopy_off(),
        cgroups_readable=os.access(_CGROUPS, os.R_OK | os.X_OK),
    )


def _metacopy_off() -> bool:
    try:
        return _METACOPY.read_text().strip() == "N"
    except OSError:
        return False


def _quota_refusal(api: Any, image_id: str) -> str:
    body = {
        "Image": image_id,
        "Entrypoint": ["true"],
        "Labels": {"assize.role": "probe"},
        "HostConfig": {"NetworkMode": "none", "StorageOpt": {"size": _QUOTA}},
    }
    try:
        made = api.create_container_from_config(body)
    except docker.errors.APIError as error:
        return str(error.explanation)[:_KEPT]
    api.remove_container(made["Id"], force=True)
    return ""


def _version(runtime: Mapping[str, Any]) -> str:
    """The first line of a runtime's own answer; empty where its program cannot be asked from here."""
    program = shutil.which(str(runtime.get("path") or ""), path=f"{os.environ.get('PATH', '')}:{SBIN}")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0].strip()[:_KEPT] if done.returncode == 0 else ""


def judge(seen: Seen) -> list[Ability]:
    """Every ability in the order of the operator guide (docs/hardening.md)."""
    return [
        _cgroups(seen),
        _userns(seen),
        _seccomp(seen),
        _quota(seen),
        _strict(seen),
        _loop(seen),
        *(_runtime(seen, name) for name in sorted(seen.info.get("Runtimes") or {}) if "." not in name),
    ]


def _cgroups(seen: Seen) -> Ability:
    version, driver = seen.info.get("CgroupVersion") or "1", seen.info.get("CgroupDriver")
    text = f"version {version}, driver {driver}"
    if seen.cgroups_readable:
        return Ability("cgroup counters", True, f"{text}; limits and counters are read on this host")
    return Ability(
        "cgroup counters",
        False,
        f"{text}; not readable here, so who ran out of memory is told by the engine only",
        "run the worker on the engine's own host, with /sys/fs/cgroup mounted",
    )


def _remapped(seen: Seen) -> list[str]:
    options = [str(one) for one in seen.info.get("SecurityOptions") or ()]
    return [one for one in options if one.startswith(("name=userns", "name=rootless"))]


def _userns(seen: Seen) -> Ability:
    if found := _remapped(seen):
        return Ability("user namespaces", True, f"{', '.join(found)}: root in a sandbox is nobody outside")
    return Ability(
        "user namespaces",
        False,
        "the engine does not remap users: root in a sandbox has the host's uid 0, without capabilities",
        'set "userns-remap": "default" in the engine\'s daemon.json (docs/hardening.md says what it changes)',
    )


def _seccomp(seen: Seen) -> Ability:
    options = [str(one) for one in seen.info.get("SecurityOptions") or ()]
    found = [one for one in options if one.startswith("name=seccomp") and "unconfined" not in one]
    if found:
        return Ability("seccomp", True, "; ".join(options))
    return Ability(
        "seccomp",
        False,
        "the engine applies no seccomp profile to containers",
        "use a kernel and an engine with seccomp, and no profile `unconfined` in daemon.json",
    )


def _quota(seen: Seen) -> Ability:
    if seen.quota is None:
        return Ability(
            "disk quota", False, "unknown: there is no image yet to ask the engine with", "make setup"
        )
    if not seen.quota:
        return Ability("disk quota", True, "the engine takes a size for a container's own layer")
    return Ability(
        "disk quota",
        False,
        f"refused by the engine ({seen.quota}); a writable root is measured while it runs instead",
        "put the engine's folder on xfs mounted with pquota, or screen with --disk strict or --disk loop",
    )


def _of_roots_only(what: str) -> Ability:
    """Tried on an engine of 20.10: volumes come to be root's of the container; other users cannot write."""
    return Ability(
        what,
        False,
        "this engine remaps users and gives sized places to root: no agent of another user could write",
        "screen with --disk writable on this host, or use an engine without userns-remap for sized disks",
    )


def _strict(seen: Seen) -> Ability:
    if _remapped(seen):
        return _of_roots_only("strict disk")
    if seen.layers_readable:
        return Ability(
            "strict disk", True, "read-only root with sized places; the engine's folders are readable"
        )
    return Ability(
        "strict disk",
        False,
        "the engine's own folders cannot be read here, which collecting from sized places needs",
        "run the worker as root on the engine's host, with the overlay2 storage driver",
    )


def _loop(seen: Seen) -> Ability:
    if _remapped(seen):
        return _of_roots_only("loop disk")
    lacking = list(seen.loop_missing)
    if not seen.loop_control:
        lacking.append("access to /dev/loop-control as root")
    if not seen.layers_readable:
        lacking.append("the engine's own folders")
    if not lacking:
        return Ability("loop disk", True, "a file system of its own for every try")
    mend = "apt-get install e2fsprogs mount, load the kernel's loop module, run the worker as root"
    return Ability("loop disk", False, f"without {', '.join(lacking)}", mend)


def _runtime(seen: Seen, name: str) -> Ability:
    given = (seen.info.get("Runtimes") or {})[name]
    version = seen.versions.get(name) or "its version is not told"
    arguments = [str(one) for one in given.get("runtimeArgs") or ()]
    text = " ".join([f"{given.get('path')}: {version}", *arguments])
    what = f"runtime {name}"
    if "--ignore-cgroups" in arguments or "--ignore-cgroups=true" in arguments:
        return Ability(what, False, f"{text}: no limit would hold", "register it without --ignore-cgroups")
    if _old_gvisor(version):
        mend = f"install gVisor of {_GVISOR_LEAST} or later; docs/hardening.md says why"
        return Ability(what, False, f"{text}: older than what is advised", mend)
    return Ability(what, True, text)


def _old_gvisor(version: str) -> bool:
    """Its releases are dates; a version that shows none is not called old."""
    found = _DATE.search(version) if version.startswith("runsc") else None
    return found is not None and int(found[0]) < _GVISOR_LEAST


def as_data(abilities: list[Ability]) -> dict[str, dict[str, Any]]:
    """Plain data for the evidence."""
    return {one.name: {"holds": one.holds, "detail": one.detail} for one in abilities}


def require_conditions(api: Any, runtime: str, disk: str) -> None:
    """Refuse what this host cannot give before anything is planned; nothing is replaced by something else.

    Raises `HostError`.
    """
    try:
        seen = observe(api)
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise HostError(f"the engine does not answer: {error}", hint="run `assize doctor`") from None
    known = seen.info.get("Runtimes") or {}
    if runtime not in known:
        names = ", ".join(sorted(known)) or "none"
        raise HostError(
            f"this engine has no runtime {runtime}; it has {names}",
            hint="register it in the engine's daemon.json, or choose one that is there",
        )
    found = {"strict": _strict, "loop": _loop}.get(disk)
    ability = None if found is None else found(seen)
    if ability is not None and not ability.holds:
        raise HostError(f"no {ability.name} here: {ability.detail}", hint=ability.mend)
