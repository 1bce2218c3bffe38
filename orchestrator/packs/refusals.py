"""What a task asks for that cannot be run faithfully now (refused by name), and what is run differently.

A refusal stops the task before dispatch; nothing is ever downgraded quietly (reference/harbor.md section
11, rows 15 and 16). A deviation is run, and stated with the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.packs import semantics, service_refusals
from orchestrator.packs.task import HarborTask
from orchestrator.packs.task_environment import Environment, NetworkMode


class RefusalCode(StrEnum):
    """Why a task is refused."""

    COMPOSE = "compose"
    MCP_SERVERS = "mcp-servers"
    ACCELERATOR = "accelerator"
    WINDOWS = "windows"
    SKILLS = "skills"
    STEPS = "steps"
    HEALTHCHECK = "healthcheck"
    NETWORK = "network"
    HOST_ENV = "host-env"
    COLLECT = "collect"
    ARTIFACT = "artifact"
    SIMULATED_USER = "simulated-user"
    TRAJECTORY = "trajectory"
    NO_ENVIRONMENT = "no-environment"
    NO_TESTS = "no-tests"
    LINK = "link"


@dataclass(frozen=True)
class Refusal:
    """One reason, with a sentence that names the key or the file."""

    code: RefusalCode
    message: str


@dataclass(frozen=True)
class Deviation:
    """One way in which a run differs from what the task states or from Harbor's default."""

    code: str
    message: str


NO_WAIVERS: Mapping[str, str] = {}


def _environment(key: str, environment: Environment) -> Iterator[Refusal]:
    if environment.os != "linux":
        yield Refusal(RefusalCode.WINDOWS, f"{key}.os = '{environment.os}': only Linux containers are run")
    named = environment.gpu_types and environment.gpus is None
    if environment.gpus or environment.tpu is not None or named:
        asked = "tpu" if environment.tpu is not None else f"gpus = {environment.gpus}"
        yield Refusal(RefusalCode.ACCELERATOR, f"{key}: {asked}: sandboxes have no accelerator")
    if environment.skills_dir is not None:
        yield Refusal(RefusalCode.SKILLS, f"{key}.skills_dir = '{environment.skills_dir}': not supported yet")
    if environment.healthcheck is not None:
        yield Refusal(RefusalCode.HEALTHCHECK, f"{key}.healthcheck: readiness probes are not run yet")


def _files(task: HarborTask) -> Iterator[Refusal]:
    for problem in service_refusals.composed(task):
        yield Refusal(RefusalCode.COMPOSE, problem)
    for entry in task.entries:
        first, *rest = entry.path.split("/")
        in_step = first == "steps" and len(rest) == 2
        if (rest[-1:] if in_step else [entry.path]) == ["trajectory.json"]:
            yield Refusal(RefusalCode.TRAJECTORY, f"{entry.path}: agents cannot be seeded with a history")
        if entry.kind == "link":
            target = (task.directory / entry.path).parent.joinpath(entry.target or "").resolve()
            if not target.is_relative_to((task.directory / first).resolve()):
                yield Refusal(RefusalCode.LINK, f"{entry.path}: the link to {entry.target} leaves {first}/")


def _images(task: HarborTask) -> Iterator[Refusal]:
    composed = semantics.compose(task)
    has_image = task.config.environment.docker_image or composed.main.build or composed.main.image
    if not (has_image or composed.problems or task.has("environment/Dockerfile")):
        yield Refusal(
            RefusalCode.NO_ENVIRONMENT, "neither environment/Dockerfile nor environment.docker_image is there"
        )
    if semantics.tests_in_image(task):
        return
    if not task.has("tests/test.sh"):
        yield Refusal(RefusalCode.NO_TESTS, "tests/test.sh is missing")
    elif "tests/test.sh" in task.ignored:
        yield Refusal(RefusalCode.NO_TESTS, "tests/test.sh is excluded by .harborignore")


def _network(task: HarborTask) -> Iterator[str]:
    for need in semantics.network_needs(task):
        if need.declared and need.mode is not NetworkMode.NO_NETWORK:
            hosts = f" ({', '.join(need.hosts)})" if need.hosts else ""
            yield f"the {need.phase} phase declares network_mode = '{need.mode}'{hosts}"


def _keys(task: HarborTask) -> Iterator[Refusal]:
    config = task.config
    yield from _environment("environment", config.environment)
    if config.verifier.environment is not None:
        yield from _environment("verifier.environment", config.verifier.environment)
    for sentence in service_refusals.mcp_servers(task):
        yield Refusal(RefusalCode.MCP_SERVERS, sentence)
    if config.steps:
        names = ", ".join(step.name for step in config.steps)
        yield Refusal(RefusalCode.STEPS, f"steps ({names}): multi-step tasks are not run yet")
    for key, env in semantics.env_sections(task):
        if missing := semantics.unresolved(env):
            yield Refusal(
                RefusalCode.HOST_ENV,
                f"{key}: {', '.join(missing)} must come from the host's environment, which is never read",
            )
    if config.verifier.collect:
        yield Refusal(RefusalCode.COLLECT, "verifier.collect: collect hooks are not run yet")
    for entry in config.artifacts:
        if problem := semantics.artifact_problem(entry):
            yield Refusal(RefusalCode.ARTIFACT, f"artifacts: {problem}")
    for key in config.unknown_keys:
        if key.split(".")[-1] == "user_agent":
            yield Refusal(RefusalCode.SIMULATED_USER, f"{key}: simulated users are not part of this version")


def refusals(task: HarborTask, waivers: Mapping[str, str] = NO_WAIVERS) -> list[Refusal]:
    """Everything that stops `task` from being run faithfully, in a fixed order; empty when it can run.

    `waivers` maps a deviation code to the pack's reason; only `network` can be waived. Whether an image
    can be had, and whether the host is big enough, is decided elsewhere.
    """
    out = [*_keys(task)]
    if "network" not in waivers:
        out += [
            Refusal(RefusalCode.NETWORK, f"{need}, but sandboxes have no network") for need in _network(task)
        ]
    # A multi-step task keeps its tests and Dockerfiles elsewhere; saying that they are missing would mislead.
    if not task.config.steps:
        out += _images(task)
    out += _files(task)
    return out


def deviations(task: HarborTask, waivers: Mapping[str, str] = NO_WAIVERS) -> list[Deviation]:
    """How a run differs from the task's words or Harbor's defaults, limits apart (see `Pack.deviations`)."""
    out: list[Deviation] = []
    if "network" in waivers:
        out += [
            Deviation("network", f"{need}; run without network: {waivers['network']}")
            for need in _network(task)
        ]
    if any(not need.declared for need in semantics.network_needs(task)):
        out.append(Deviation("network", "undeclared, run without network"))
    verifier = task.config.verifier.environment
    if verifier is not None and verifier.storage_mb is not None:
        said = f"verifier.environment.storage_mb = {verifier.storage_mb}"
        out.append(Deviation("storage", f"{said} is not enforced: a verifier has the largest disk"))
    for key, env in semantics.env_sections(task):
        if names := semantics.defaulted(env):
            out.append(Deviation("host-env", f"{key}: the default is used for {', '.join(names)}"))
    return [*out, *(Deviation(name, text) for name, text in service_refusals.differences(task))]
