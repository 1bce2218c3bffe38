"""One service of a compose file: the keys that are honoured, by a table; every other is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from orchestrator.packs.compose_keys import HARMLESS, MAIN_KEYS, REFUSED
from orchestrator.packs.compose_values import (
    ValueProblemError,
    bytes_of,
    count_of,
    cpus_milli_of,
    mapping_of,
    milliseconds_of,
    text_of,
    variables_of,
    words_of,
)
from orchestrator.sidecars import Condition, Health, Sidecar

_HOST_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_IDLE: Final = (("sleep", "infinity"), ("tail", "-f", "/dev/null"))
_SHELLS: Final = (("sh", "-c"), ("/bin/sh", "-c"), ("bash", "-c"), ("/bin/bash", "-c"))


@dataclass(frozen=True)
class Build:
    """Where an image is built: `folder` and `dockerfile` relative to environment/ and to the folder."""

    folder: str = "."
    dockerfile: str = "Dockerfile"
    args: tuple[tuple[str, str], ...] = ()
    target: str = ""


@dataclass(frozen=True)
class Service:
    """A service as it is declared; exactly one of `image` and `build` is set for a usable sidecar."""

    sidecar: Sidecar
    image: str | None = None
    build: Build | None = None


@dataclass
class _Draft:
    values: dict[str, Any] = field(default_factory=dict)
    image: str | None = None
    build: Build | None = None


def read_service(name: str, raw: Any, problems: list[str]) -> Service:
    """The service; every problem is added as a sentence that begins with the key's path."""
    where, draft = f"services.{name}", _Draft()
    if not isinstance(raw, dict):
        problems.append(f"{where} must be a mapping")
        raw = {}
    for key, value in raw.items():
        problem = _take(key, value, draft, main=name == "main")
        if problem:
            problems.append(f"{where}.{key}: {problem}")
    service = Service(replace(Sidecar(name), **draft.values), draft.image, draft.build)
    if name != "main" and service.image is None and service.build is None:
        problems.append(f"{where}: neither image nor build is there")
    # With both, compose builds the image and gives it the name; the name plays no part here.
    return replace(service, image=None) if service.build is not None else service


def _take(key: str, value: Any, draft: _Draft, *, main: bool) -> str | None:
    if key.startswith("x-") or key in HARMLESS:
        return None
    if key == "privileged" and value is False:
        return None
    if key == "restart" and value in ("no", False):
        return None
    if main and key not in MAIN_KEYS:
        return REFUSED.get(key, "of the agent's own container only build and start are declared here")
    reader = _READERS.get(key)
    if reader is None or value is None:
        return None if reader is not None else REFUSED.get(key, "is not supported")
    try:
        reader(draft, value, main)
    except ValueProblemError as error:
        return str(error)
    return None


def _idle(words: tuple[str, ...]) -> bool:
    return words in _IDLE or (words[:2] in _SHELLS and tuple(" ".join(words[2:]).split()) in _IDLE)


def _command(draft: _Draft, value: Any, main: bool) -> None:
    words = words_of(value)
    if main and not _idle(words):
        raise ValueProblemError("the agent's container does nothing but wait (`sleep infinity`)")
    if not main:
        draft.values["command"] = words


def _entrypoint(draft: _Draft, value: Any, _main: bool) -> None:
    draft.values["entrypoint"] = words_of(value)


def _environment(draft: _Draft, value: Any, _main: bool) -> None:
    draft.values["environment"] = tuple(sorted(variables_of(value).items()))


def _workdir(draft: _Draft, value: Any, _main: bool) -> None:
    path = text_of(value)
    if not path.startswith("/"):
        raise ValueProblemError(f"{path!r} is not an absolute path")
    draft.values["workdir"] = path


def _user(draft: _Draft, value: Any, _main: bool) -> None:
    draft.values["user"] = text_of(value)


def _hostname(draft: _Draft, value: Any, _main: bool) -> None:
    name = text_of(value)
    if not _HOST_NAME.fullmatch(name):
        raise ValueProblemError(f"{name!r} is no host name")
    draft.values["hostname"] = name


def _image(draft: _Draft, value: Any, _main: bool) -> None:
    draft.image = text_of(value)


def inside(path: str) -> str:
    """A folder or file relative to environment/, in normal form; refused when it leaves it."""
    parts = [part for part in PurePosixPath(path).parts if part != "."]
    if path.startswith("/") or ".." in parts or "://" in path or path.endswith(".git"):
        raise ValueProblemError(f"{path!r} is not below environment/")
    return "/".join(parts) or "."


def _build(draft: _Draft, value: Any, _main: bool) -> None:
    given = {"context": value} if isinstance(value, str) else dict(mapping_of(value))
    known = {"context", "dockerfile", "args", "target"}
    if unknown := sorted(key for key in given if key not in known and not key.startswith("x-")):
        raise ValueProblemError(f"{', '.join(unknown)} is not supported")
    draft.build = Build(
        inside(text_of(given.get("context") or ".")),
        inside(text_of(given.get("dockerfile") or "Dockerfile")),
        tuple(sorted(variables_of(given.get("args")).items())),
        text_of(given.get("target") or ""),
    )


def _after(draft: _Draft, value: Any, _main: bool) -> None:
    if isinstance(value, list):
        draft.values["after"] = tuple((text_of(name), Condition.STARTED) for name in value)
        return
    found = []
    for name, terms in mapping_of(value).items():
        given = dict(mapping_of(terms or {}))
        condition = given.pop("condition", Condition.STARTED)
        if given.pop("required", True) is not True or given.pop("restart", False) or given:
            raise ValueProblemError(f"{name}: only a condition can be given")
        if condition not in tuple(Condition):
            raise ValueProblemError(f"{name}: the condition {condition!r} is not supported")
        found.append((name, Condition(condition)))
    draft.values["after"] = tuple(found)


def _health(draft: _Draft, value: Any, _main: bool) -> None:
    given = dict(mapping_of(value))
    test, off = given.pop("test", None), given.pop("disable", False)
    if off is True or test in ("NONE", ["NONE"]):
        draft.values["health"] = Health(())
        return
    if unknown := sorted(given.keys() - {"interval", "timeout", "retries", "start_period", "start_interval"}):
        raise ValueProblemError(f"{', '.join(unknown)} is not supported")
    if test is None:
        raise ValueProblemError("it has no test")
    times = {
        f"{key}_ms": milliseconds_of(given[key])
        for key in ("interval", "timeout", "start_period")
        if key in given
    }
    if "start_interval" in given:
        milliseconds_of(given["start_interval"])  # of no effect: the first probes come at short intervals
    retries = count_of(given.get("retries", 3), 0, 1000)
    draft.values["health"] = Health(probe_of(test), retries=retries, **times)


def probe_of(test: Any) -> tuple[str, ...]:
    """The command of a readiness probe, from the forms of compose files and images."""
    if isinstance(test, str):
        return ("/bin/sh", "-c", test)
    words = words_of(test) if isinstance(test, list) else ()
    if words[:1] == ("CMD",) and len(words) > 1:
        return words[1:]
    if words[:1] == ("CMD-SHELL",) and len(words) == 2:
        return ("/bin/sh", "-c", words[1])
    raise ValueProblemError(f"{test!r} is no probe; write a text, or a list that starts with CMD")


def _limits(draft: _Draft, value: Any, _main: bool) -> None:
    resources = mapping_of(value).get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if set(value) != {"resources"} or set(resources or ()) != {"limits"} or not isinstance(limits, dict):
        raise ValueProblemError(REFUSED["deploy"])
    if set(limits) - set(_LIMITS):
        raise ValueProblemError(REFUSED["deploy"])
    for key, content in limits.items():
        draft.values.update(_LIMITS[key](content))


_LIMITS: Final[Mapping[str, Callable[[Any], dict[str, int]]]] = {
    "memory": lambda value: {"memory_bytes": bytes_of(value)},
    "cpus": lambda value: {"cpus_milli": cpus_milli_of(value)},
    "pids": lambda value: {"pids": count_of(value, 1, 4096)},
}


def _limit(key: str) -> Callable[[_Draft, Any, bool], None]:
    def take(draft: _Draft, value: Any, _main: bool) -> None:
        draft.values.update(_LIMITS[key](value))

    return take


_READERS: Final[Mapping[str, Callable[[_Draft, Any, bool], None]]] = {
    "image": _image,
    "build": _build,
    "command": _command,
    "entrypoint": _entrypoint,
    "environment": _environment,
    "working_dir": _workdir,
    "user": _user,
    "hostname": _hostname,
    "depends_on": _after,
    "healthcheck": _health,
    "deploy": _limits,
    "mem_limit": _limit("memory"),
    "cpus": _limit("cpus"),
    "pids_limit": _limit("pids"),
}
"""Everything that a sidecar may declare and that is run as declared."""
