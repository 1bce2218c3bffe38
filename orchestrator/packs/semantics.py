"""What a task's declarations mean to the runner: images, verifier mode, artifacts, environment, limits.

Pure functions over a loaded task, after reference/harbor.md section 1. Only single-step tasks are planned
here; multi-step tasks are refused before (`orchestrator.packs.refusals`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

from orchestrator.packs.compose import COMPOSE_FILE, Compose, compose_of
from orchestrator.packs.compose_service import Build
from orchestrator.packs.errors import PackError
from orchestrator.packs.task import HarborTask
from orchestrator.packs.task_config import ArtifactEntry
from orchestrator.packs.task_environment import Environment, NetworkMode, PhaseNetwork
from orchestrator.packs.tree import TreeEntry, tree_digest
from orchestrator.sidecars import Sidecar

VerifierMode = Literal["shared", "separate"]
ENVIRONMENT_DIR: Final = "environment"
TESTS_DIR: Final = "tests"
_TEMPLATE: Final = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


def milliseconds(seconds: float) -> int:
    """Seconds to whole milliseconds, rounded up, exactly as written in decimal."""
    return int((Decimal(repr(seconds)) * 1000).to_integral_value(ROUND_CEILING))


def cpus_milli(cpus: float) -> int:
    """CPUs in thousandths, rounded up."""
    return milliseconds(cpus)


def verifier_mode(task: HarborTask) -> VerifierMode:
    """`separate` when declared or when `[verifier.environment]` is there, else `shared`.

    A Dockerfile in tests/ alone does not make the verifier separate (as in Harbor 0.26): without the
    declaration the tests expect the agent's whole file system.
    """
    verifier = task.config.verifier
    if verifier.environment_mode is not None:
        return verifier.environment_mode
    return "shared" if verifier.environment is None else "separate"


def verifier_environment(task: HarborTask) -> Environment:
    """The environment section that holds for the verifier: its own, else the task's."""
    own = task.config.verifier.environment
    return task.config.environment if own is None else own


@dataclass(frozen=True)
class ImageContext:
    """Where an image comes from: a registry name (`docker_image`) or a Dockerfile with its folder.

    Exactly one of `docker_image` and `folder` is set. `files` are the context's entries (paths relative
    to the task directory, all inside `folder`) and `digest` is their tree digest; `dockerfile` is relative
    to `folder`. `has_tests` says that the tests are part of the image and must not be uploaded. `build_args`
    and `target` are those of a compose file.
    """

    docker_image: str | None
    folder: str | None
    directory: Path | None
    dockerfile: str | None
    files: tuple[TreeEntry, ...]
    digest: str | None
    build_timeout_ms: int
    has_tests: bool = False
    build_args: tuple[tuple[str, str], ...] = ()
    target: str = ""


def _named(image: str, environment: Environment, has_tests: bool) -> ImageContext:
    timeout = milliseconds(environment.build_timeout_sec)
    return ImageContext(image, None, None, None, (), None, timeout, has_tests)


def _built(task: HarborTask, folder: str, environment: Environment, has_tests: bool) -> ImageContext:
    files = task.context_files(folder)
    return ImageContext(
        docker_image=None,
        folder=folder,
        directory=task.directory / folder,
        dockerfile="Dockerfile",
        files=files,
        digest=tree_digest(files),
        build_timeout_ms=milliseconds(environment.build_timeout_sec),
        has_tests=has_tests,
    )


def compose(task: HarborTask) -> Compose:
    """What environment/docker-compose.yaml says; empty when there is none."""
    has_file = task.has(f"{ENVIRONMENT_DIR}/{COMPOSE_FILE}")
    return compose_of(task.directory, task.digest) if has_file else Compose()


def _composed(task: HarborTask, build: Build) -> ImageContext:
    folder = ENVIRONMENT_DIR if build.folder == "." else f"{ENVIRONMENT_DIR}/{build.folder}"
    context = _built(task, folder, task.config.environment, has_tests=False)
    return replace(context, dockerfile=build.dockerfile, build_args=build.args, target=build.target)


def sidecars(task: HarborTask) -> tuple[tuple[Sidecar, ImageContext], ...]:
    """The services beside the agent's container, in start order, each with where its image comes from.

    For tasks that were not refused only.
    """
    out = []
    for service in compose(task).services:
        if service.build is not None:
            context = _composed(task, service.build)
        else:
            context = _named(str(service.image), task.config.environment, has_tests=False)
        out.append((service.sidecar, context))
    return tuple(out)


def agent_context(task: HarborTask) -> ImageContext:
    """The image of the agent phase: `docker_image` if named, else what the compose file says of `main`,
    else environment/Dockerfile.

    `PackError` if there is none of them (such a task is refused before).
    """
    environment, main = task.config.environment, compose(task).main
    if environment.docker_image is not None:
        return _named(environment.docker_image, environment, has_tests=False)
    if main.build is not None:
        return _composed(task, main.build)
    if main.image is not None:
        return _named(main.image, environment, has_tests=False)
    if task.has(f"{ENVIRONMENT_DIR}/Dockerfile"):
        return _built(task, ENVIRONMENT_DIR, environment, has_tests=False)
    raise PackError(f"task {task.name}: neither environment/Dockerfile nor environment.docker_image")


def tests_in_image(task: HarborTask) -> bool:
    """Whether the grader's image brings the tests: a separate verifier with an image of its own."""
    if verifier_mode(task) == "shared":
        return False
    own = task.config.verifier.environment
    named = own is not None and own.docker_image is not None
    return named or task.has(f"{TESTS_DIR}/Dockerfile")


def grader_context(task: HarborTask) -> ImageContext:
    """The image of the grader.

    Shared verifier: the agent's image, tests uploaded. Separate verifier:
    `verifier.environment.docker_image`, else tests/Dockerfile (both bring their tests), else a fresh copy
    of the agent's image, tests uploaded.
    """
    if not tests_in_image(task):
        return agent_context(task)
    environment = verifier_environment(task)
    own = task.config.verifier.environment
    if own is not None and own.docker_image is not None:
        return _named(own.docker_image, own, has_tests=True)
    return _built(task, TESTS_DIR, environment, has_tests=True)


@dataclass(frozen=True)
class Artifact:
    """One thing carried from the agent's container into the grader's, at the same absolute path.

    `destination` is where it lies in the evidence (relative); `exclude` are tar exclude patterns.
    """

    source: str
    destination: str
    exclude: tuple[str, ...] = ()

    def as_data(self) -> dict[str, object]:
        """Plain data for `AttemptOrder.artifacts`."""
        return {"source": self.source, "destination": self.destination, "exclude": list(self.exclude)}


def artifact_problem(entry: ArtifactEntry) -> str | None:
    """Why an artifact cannot be carried over safely; None if it can.

    A source that covers /tests or /logs/verifier would let the agent's files stand in for the grader's.
    """
    if entry.of_other_service:
        return f"{entry.source} is collected from the service {entry.service!r}"
    if not entry.source.startswith("/"):
        return f"{entry.source} is not an absolute path"
    source = PurePosixPath("/" + entry.source.lstrip("/"))
    for guarded in (PurePosixPath("/tests"), PurePosixPath("/logs/verifier")):
        if source == guarded or guarded in source.parents or source in guarded.parents:
            return f"{entry.source} overlaps the grader's own {guarded}"
    return None


def artifacts(task: HarborTask) -> tuple[Artifact, ...]:
    """The declared artifacts in order; the worker carries /logs/artifacts as well, whatever is declared.

    Entries with an `artifact_problem` are left out here; such a task is refused before.
    """
    out: list[Artifact] = []
    for entry in task.config.artifacts:
        if artifact_problem(entry) is None:
            source = str(PurePosixPath("/" + entry.source.lstrip("/")))
            destination = str(PurePosixPath(entry.destination or source.lstrip("/")))
            out.append(Artifact(source, destination, entry.exclude))
    return tuple(dict.fromkeys(out))


def unresolved(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names whose value must come from the host: `${VAR}` without a default."""
    matches = ((name, _TEMPLATE.fullmatch(value)) for name, value in env.items())
    return tuple(name for name, match in matches if match is not None and match[2] is None)


def defaulted(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names whose value is the default of `${VAR:-default}`."""
    matches = ((name, _TEMPLATE.fullmatch(value)) for name, value in env.items())
    return tuple(name for name, match in matches if match is not None and match[2] is not None)


def resolve_env(env: Mapping[str, str]) -> dict[str, str]:
    """Values with `${VAR:-default}` replaced by the default; the host's environment is never read.

    Raises `PackError` for `${VAR}` without a default (such a task is refused before).
    """
    missing = unresolved(env)
    if missing:
        raise PackError(f"{', '.join(missing)} must come from the host's environment, which is never read")
    out: dict[str, str] = {}
    for name, value in env.items():
        match = _TEMPLATE.fullmatch(value)
        out[name] = value if match is None else match[2]
    return out


def agent_environment(task: HarborTask) -> dict[str, str]:
    """Environment variables of the agent's container: the compose file's, then task.toml's."""
    composed = dict(compose(task).main.sidecar.environment)
    return {**composed, **resolve_env(task.config.environment.env)}


def workdir(task: HarborTask) -> str | None:
    """Where the agent works: task.toml's word, else the compose file's, else the image's (None)."""
    return task.config.environment.workdir or compose(task).main.sidecar.workdir


def mcp_servers(task: HarborTask) -> tuple[dict[str, Any], ...]:
    """The MCP servers offered to the agent, as plain data: name, transport, and url with headers or argv."""
    out: list[dict[str, Any]] = []
    for server in task.config.environment.mcp_servers:
        common = {"name": server.name, "transport": server.transport}
        if server.transport == "stdio":
            out.append({**common, "command": server.command, "args": list(server.args)})
        else:
            out.append({**common, "url": server.url, "headers": dict(server.headers)})
    return tuple(out)


def oracle_environment(task: HarborTask) -> dict[str, str]:
    """Extra variables of the reference solution."""
    return {"DEBIAN_FRONTEND": "noninteractive", **resolve_env(task.config.solution.env)}


def grader_environment(task: HarborTask) -> dict[str, str]:
    """Environment variables of the grader: its environment section's, then `[verifier.env]`."""
    return {**resolve_env(verifier_environment(task).env), **resolve_env(task.config.verifier.env)}


def env_sections(task: HarborTask) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Every section with environment variables and its key."""
    config = task.config
    yield "environment.env", config.environment.env
    yield "verifier.env", config.verifier.env
    if config.verifier.environment is not None:
        yield "verifier.environment.env", config.verifier.environment.env
    yield "solution.env", config.solution.env


@dataclass(frozen=True)
class NetworkNeed:
    """The network that holds in one phase, and whether the task declares it or Harbor's default does."""

    phase: Literal["agent", "verifier"]
    mode: NetworkMode
    hosts: tuple[str, ...]
    declared: bool


def network_needs(task: HarborTask) -> tuple[NetworkNeed, NetworkNeed]:
    """Network of the agent phase and of the verifier phase: the phase's own key, else its environment's."""

    def phase(name: Literal["agent", "verifier"], own: PhaseNetwork, base: Environment) -> NetworkNeed:
        if own.network_mode is not None:
            return NetworkNeed(name, own.network_mode, own.allowed_hosts or (), True)
        return NetworkNeed(name, base.network_mode, base.allowed_hosts or (), base.network_declared)

    config = task.config
    return (
        phase("agent", config.agent, config.environment),
        phase("verifier", config.verifier, verifier_environment(task)),
    )


def user_of(user: str | int | None) -> str | None:
    """A user as the engine takes it; None means the image's own."""
    return None if user is None else str(user)
