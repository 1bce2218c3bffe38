"""What a task's compose file and MCP servers ask for that cannot be run, and what is run differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from orchestrator.packs import semantics
from orchestrator.packs.compose import COMPOSE_FILE
from orchestrator.packs.compose_service import Build
from orchestrator.packs.task import HarborTask
from orchestrator.packs.task_environment import McpServer

_MB: Final = 1 << 20


def composed(task: HarborTask) -> Iterator[str]:
    """A sentence for everything in compose files that cannot be run."""
    found, path = semantics.compose(task), f"{semantics.ENVIRONMENT_DIR}/{COMPOSE_FILE}"
    for problem in found.problems:
        yield f"{path}: {problem}"
    if not found.problems:
        if task.config.environment.docker_image is not None and (found.main.build or found.main.image):
            yield f"{path}: services.main: environment.docker_image names its image already"
        for service in (found.main, *found.services):
            if service.build is not None and not _has_dockerfile(task, service.build):
                missing = _dockerfile(service.build)
                yield f"{path}: services.{service.sidecar.name}.build: {missing} is missing"
    tests = f"{semantics.TESTS_DIR}/{COMPOSE_FILE}"
    if task.has(tests):
        yield f"{tests}: verifiers are single containers without network"


def _dockerfile(build: Build) -> str:
    folder = "" if build.folder == "." else f"{build.folder}/"
    return f"{semantics.ENVIRONMENT_DIR}/{folder}{build.dockerfile}"


def _has_dockerfile(task: HarborTask, build: Build) -> bool:
    return task.has(_dockerfile(build))


def mcp_servers(task: HarborTask) -> Iterator[str]:
    """A sentence for every MCP server that the agent could not use as declared."""
    config, seen = task.config, set()
    if config.verifier.environment is not None and config.verifier.environment.mcp_servers:
        yield "verifier.environment.mcp_servers: verifiers have no services"
    for server in config.environment.mcp_servers:
        where = f"environment.mcp_servers ({server.name})"
        if server.name in seen:
            yield f"{where}: the name is given twice"
        seen.add(server.name)
        if any("$" in value for value in server.headers.values()):
            yield f"{where}: headers must come from the host's environment, which is never read"
        if server.transport != "stdio" and (problem := _address(task, server)):
            yield f"{where}: {problem}"


def _address(task: HarborTask, server: McpServer) -> str | None:
    composed_services = semantics.compose(task)
    try:
        parts = urlsplit(str(server.url))
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"{server.url} is no address"
    if parts.scheme != "http" or parts.username is not None:
        return f"{server.url}: inside a pod only plain http is spoken"
    # A file that cannot be read says nothing of names; what is wrong with it is told by itself.
    if host not in composed_services.names and not composed_services.problems:
        return f"{host} is no service of the task, and nothing else can be reached"
    return None


def differences(task: HarborTask) -> Iterator[tuple[str, str]]:
    """(code, sentence) of every way in which a run differs from what the compose file alone would give."""
    found = semantics.compose(task)
    if found.defaulted:
        names = ", ".join(found.defaulted)
        yield "host-env", f"{semantics.ENVIRONMENT_DIR}/{COMPOSE_FILE}: the default is used for {names}"
    if not found.services:
        return
    names = ", ".join(found.names)
    yield "sidecars", f"{names}: without capabilities and without a way out, and gone before the grading"
    for service in found.services:
        one = service.sidecar
        yield (
            "sidecars",
            f"{one.name}: {one.memory_bytes // _MB} MB, {one.cpus_milli / 1000:g} CPUs, {one.pids} processes",
        )
