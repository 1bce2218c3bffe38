"""Compose files of tasks: every key is honoured as it is written or refused by name; MCP servers likewise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.packs import semantics
from orchestrator.packs.compose import Compose, read_compose
from orchestrator.packs.compose_keys import HARMLESS, REFUSED
from orchestrator.packs.compose_service import _READERS, Build
from orchestrator.packs.refusals import deviations, refusals
from orchestrator.packs.task import load_task
from orchestrator.sidecars import MAX_SIDECARS, Condition, Health, Sidecar

MakeTask = Callable[..., Path]

COOKBOOK = """
# This file is merged on top of Harbor's base docker-compose config.
services:
  main:
    depends_on:
      api-server:
        condition: service_healthy

  api-server:
    build:
      context: ./api-server
    expose:
      - "5000"
    healthcheck:
      test: ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost',5000),timeout=2)"]
      interval: 2s
      timeout: 5s
      retries: 15
      start_period: 5s
"""
"""The shape of the public recipe `multi-container`."""


def service(lines: str, name: str = "db", image: str = "image: a:1\n") -> Compose:
    """A file with one sidecar that has these lines."""
    body = "".join(f"    {line}\n" for line in (image + lines).splitlines())
    return read_compose(f"services:\n  {name}:\n{body}")


def problems(lines: str, image: str = "image: a:1\n") -> tuple[str, ...]:
    return service(lines, image=image).problems


def sidecar(lines: str) -> Sidecar:
    found = service(lines)
    assert found.problems == ()
    return found.services[0].sidecar


def test_the_public_shape() -> None:
    """A service that is built and awaited, and a main that waits for it."""
    found = read_compose(COOKBOOK)
    assert found.problems == () and found.names == ("api-server",)
    (one,) = found.services
    assert (one.build, one.image) == (Build("api-server"), None)
    assert one.sidecar.health is not None and one.sidecar.health.argv[:2] == ("python3", "-c")
    health = one.sidecar.health
    assert (health.interval_ms, health.timeout_ms, health.start_period_ms, health.retries) == (
        2000,
        5000,
        5000,
        15,
    )
    assert health.bound_ms == 5000 + 15 * 7000
    assert found.main.sidecar.after == (("api-server", Condition.HEALTHY),)


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        ("command: serve --port 80 'a b'", "command", ("serve", "--port", "80", "a b")),
        ('command: ["serve", 80]', "command", ("serve", "80")),
        ("entrypoint: /run.sh", "entrypoint", ("/run.sh",)),
        ("environment: {B: 2, A: x}", "environment", (("A", "x"), ("B", "2"))),
        ("environment:\n  - A=x=y\n  - B=", "environment", (("A", "x=y"), ("B", ""))),
        (
            "environment: {A: '$$x', B: '${NO:-d}', C: '${NO-}'}",
            "environment",
            (("A", "$x"), ("B", "d"), ("C", "")),
        ),
        ("working_dir: /srv", "workdir", "/srv"),
        ("user: 1000", "user", "1000"),
        ("hostname: front", "hostname", "front"),
        ("depends_on: []", "after", ()),
        ("healthcheck: {test: curl x}", "health", Health(("/bin/sh", "-c", "curl x"))),
        ("healthcheck: {test: [CMD-SHELL, curl x]}", "health", Health(("/bin/sh", "-c", "curl x"))),
        ("healthcheck: {test: [CMD, a], interval: 1m30s}", "health", Health(("a",), interval_ms=90_000)),
        ("healthcheck: {test: [CMD, a], timeout: 500ms}", "health", Health(("a",), timeout_ms=500)),
        ("healthcheck: {test: [NONE]}", "health", Health(())),
        ("healthcheck: {disable: true}", "health", Health(())),
        ("mem_limit: 1.5g", "memory_bytes", 1536 << 20),
        ("cpus: 0.5", "cpus_milli", 500),
        ("pids_limit: 64", "pids", 64),
        ("deploy: {resources: {limits: {memory: 64M, cpus: '2'}}}", "memory_bytes", 64 << 20),
        ("deploy: {resources: {limits: {memory: 64M, cpus: '2'}}}", "cpus_milli", 2000),
        ("deploy: {resources: {limits: {pids: 9}}}", "pids", 9),
        (
            "privileged: false\nrestart: 'no'\ninit: true\ncap_drop: [ALL]\nx-note: [1]\ncommand:",
            "command",
            None,
        ),
    ],
)
def test_what_is_honoured(lines: str, field: str, value: object) -> None:
    """As compose means it."""
    assert getattr(sidecar(lines), field) == value


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_every_refused_key_has_its_sentence(key: str) -> None:
    """The sentence names file position and reason."""
    assert problems(f"{key}: [x]\n") == (f"services.db.{key}: {REFUSED[key]}",) or key == "deploy"
    assert key not in HARMLESS and (key not in _READERS or key == "deploy")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("gpus: all", "gpus: is not supported"),
        ("deploy: {replicas: 2}", "deploy: only deploy.resources.limits"),
        ("deploy: {resources: {reservations: {cpus: '1'}}}", "deploy: only deploy.resources.limits"),
        ("deploy: {resources: {limits: {devices: 1}}}", "deploy: only deploy.resources.limits"),
        ("environment: [A]", "A must come from the host's environment"),
        ("environment: {A: }", "A must come from the host's environment"),
        ("environment: {A: true}", "true and false must be in quotes"),
        ("environment: {A: 1.5}", "write it in quotes"),
        ("working_dir: srv", "is not an absolute path"),
        ("hostname: A_b", "is no host name"),
        ('command: "a \'b"', "cannot be split"),
        ("command: {a: b}", "is not a text"),
        ("healthcheck: {interval: 1s}", "it has no test"),
        ("healthcheck: {test: [curl]}", "is no probe"),
        ("healthcheck: {test: [CMD]}", "is no probe"),
        ("healthcheck: {test: a, interval: soon}", "is not a duration"),
        ("healthcheck: {test: a, interval: 2h}", "longer than an hour"),
        ("healthcheck: {test: a, retries: -1}", "is not a whole number"),
        ("healthcheck: {test: a, shell: b}", "shell is not supported"),
        ("mem_limit: 1", "is not a size of at least 6m"),
        ("cpus: 0", "is not a number of CPUs"),
        ("pids_limit: -1", "is not a whole number"),
        ("depends_on: {nobody: {condition: service_started}}", "there is no such service"),
        ("depends_on: [db]", "it waits for itself"),
        ("depends_on: [main]", "the agent's container is started last"),
        ("depends_on: {db: {condition: service_completed_successfully}}", "is not supported"),
        ("depends_on: {db: {condition: service_started, restart: true}}", "only a condition"),
    ],
)
def test_what_is_refused(lines: str, said: str) -> None:
    """One sentence with service and key for everything that would not be what was written."""
    found = problems(lines)
    assert found and found[0].startswith("services.db") and said in found[0], found


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ("build: ..", "is not below environment/"),
        ("build: /srv", "is not below environment/"),
        ("build: https://host/repo.git", "is not below environment/"),
        ("build: {context: ., dockerfile: ../x}", "is not below environment/"),
        ("build: {context: ., args: [A]}", "A must come from the host's environment"),
        ("build: {context: ., network: host}", "network is not supported"),
        ("build: {context: ., secrets: [a], cache_from: [b]}", "cache_from, secrets is not supported"),
        ("", "neither image nor build is there"),
    ],
)
def test_builds(build: str, said: str) -> None:
    """A build sees its folder below environment/ and nothing else."""
    found = problems("", image=build + "\n")
    assert any(said in one for one in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("services: [a]\n", "it has no mapping `services`"),
        ("a: 1\n", "it has no mapping `services`"),
        ("services: {db: 1}\n", "services.db must be a mapping"),
        ("services: {db: {image: a}}\nvolumes: {v: }\n", "volumes: shared volumes are not mounted"),
        ("services: {db: {image: a}}\nnetworks: {net: {driver: x}}\n", "networks: the pod has one"),
        ("services: {db: {image: a}}\nsecrets: {s: {file: x}}\n", "secrets: sandboxes hold no secrets"),
        ("services: {DB: {image: a}}\n", "cannot be a host name"),
        ("services: {localhost: {image: a}}\n", "cannot be a host name"),
        ("services: {db: {image: '${IMAGE}'}}\n", "IMAGE must come from the host's environment"),
        ("services: {db: {image: '${IMAGE:?no}'}}\n", "a form that is not read"),
        ("services: {db: {image: 'a$'}}\n", "a lone $"),
        ("services: {main: {volumes: ['.:/x']}, db: {image: a}}\n", "services.main.volumes: neither folders"),
        ("services: {main: {user: root}}\n", "services.main.user: of the agent's own container"),
        ("services: {main: {command: serve}}\n", "does nothing but wait"),
        (
            "services:\n  a: {image: a, depends_on: [b]}\n  b: {image: b, depends_on: [a]}\n",
            "waits for itself",
        ),
        (
            "services:\n  a: {image: a, depends_on: {b: {condition: service_healthy}}}\n"
            "  b: {image: b, healthcheck: {disable: true}}\n",
            "its healthcheck is switched off",
        ),
        ("services:\n" + "".join(f"  s{at}: {{image: a}}\n" for at in range(9)), f"at most {MAX_SIDECARS}"),
        ("services:\n  db: {image: a}\n  db: {image: b}\n", "line 3: the key 'db' is repeated"),
    ],
)
def test_whole_files_that_are_refused(text: str, said: str) -> None:
    """The file is never half taken: with a problem it has no services."""
    found = read_compose(text)
    assert found.services == () and any(said in one for one in found.problems), found.problems


@pytest.mark.parametrize(
    "command", ["sleep infinity", '["sh", "-c", "sleep infinity"]', '["tail", "-f", "/dev/null"]']
)
def test_main_may_wait(command: str) -> None:
    """Harbor's own command, in the forms in which tasks repeat it."""
    found = read_compose(
        f"version: '3'\nname: x\nservices:\n  main:\n    command: {command}\n    environment: {{A: b}}\n"
    )
    assert found.problems == () and found.main.sidecar.environment == (("A", "b"),)


@given(st.permutations(range(6)), st.data())
def test_services_start_after_what_they_wait_for(order: list[int], data: st.DataObject) -> None:
    """Property: whatever acyclic waiting, in whatever order it is written."""
    after = {at: data.draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set() for at in range(6)}
    lines = "".join(
        f"  s{at}: {{image: a, depends_on: [{', '.join(f's{one}' for one in sorted(after[at]))}]}}\n"
        for at in order
    )
    names = read_compose("services:\n" + lines).names
    assert sorted(names) == [f"s{at}" for at in range(6)]
    assert all(names.index(f"s{one}") < names.index(f"s{at}") for at in after for one in after[at])


SERVICES = """
services:
  main:
    environment: {SHARED: compose, ONLY: compose}
    working_dir: /work
  db:
    build: {context: db, dockerfile: Other, args: {A: 1}, target: last}
  cache:
    image: cache:1
    depends_on: [db]
"""
TOML = '[environment]\nnetwork_mode = "no-network"\n[environment.env]\nSHARED = "toml"\n'


def composed(
    make_task: MakeTask, text: str = SERVICES, toml: str = TOML, other: str | None = "FROM x\n"
) -> Path:
    files = {"environment/docker-compose.yaml": text, "environment/db/Other": other}
    return make_task(toml, files=files)


def test_a_task_with_services(make_task: MakeTask) -> None:
    """Images, order, and what of `main` the file and task.toml say together."""
    task = load_task(composed(make_task))
    assert refusals(task) == []
    (db, first), (cache, second) = semantics.sidecars(task)
    assert (db.name, first.folder, first.dockerfile) == ("db", "environment/db", "Other")
    assert (first.build_args, first.target) == ((("A", "1"),), "last")
    assert (cache.name, second.docker_image) == ("cache", "cache:1")
    assert semantics.agent_environment(task) == {"SHARED": "toml", "ONLY": "compose"}
    assert semantics.workdir(task) == "/work"
    assert semantics.agent_context(task).folder == "environment"
    assert [item.code for item in deviations(task)] == ["sidecars", "sidecars", "sidecars"]


def test_main_may_be_built_elsewhere(make_task: MakeTask) -> None:
    """The compose file's word for main's image holds where task.toml names none, and never beside it."""
    built = "services: {main: {build: {context: ., dockerfile: db/Other}}}\n"
    task = load_task(composed(make_task, built))
    assert refusals(task) == [] and semantics.agent_context(task).dockerfile == "db/Other"
    files = {"environment/docker-compose.yaml": built, "environment/db/Other": "FROM x\n"}
    image = '[environment]\nnetwork_mode = "no-network"\ndocker_image = "a:1"\n'
    twice = load_task(make_task(image, name="twice", files=files))
    assert "names its image already" in refusals(twice)[0].message
    files = {"environment/docker-compose.yaml": "services: {main: {image: m:1}}\n"}
    named = load_task(make_task(TOML, name="named", files={**files, "environment/Dockerfile": None}))
    assert refusals(named) == [] and semantics.agent_context(named).docker_image == "m:1"


def test_a_missing_dockerfile_is_named(make_task: MakeTask) -> None:
    """Before anything is built."""
    task = load_task(composed(make_task, other=None))
    assert [one.message for one in refusals(task)] == [
        "environment/docker-compose.yaml: services.db.build: environment/db/Other is missing"
    ]


MCP = '[[environment.mcp_servers]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('transport = "streamable-http"\nurl = "http://db:8000/mcp"\n', None),
        ('transport = "sse"\nurl = "http://db/sse"\nheaders = { X = "1" }\n', None),
        ('transport = "stdio"\ncommand = "serve"\n', None),
        ('url = "http://elsewhere:1/"\n', "elsewhere is no service of the task"),
        ('url = "http://localhost:1/"\n', "localhost is no service of the task"),
        ('url = "https://db/"\n', "only plain http"),
        ('url = "http://user:word@db/"\n', "only plain http"),
        ('url = "http://db:port/"\n', "is no address"),
        ('url = "http://db/"\nheaders = { Authorization = "${KEY}" }\n', "headers must come from the host"),
        ('url = "http://db/"\n' + MCP + 'url = "http://db/"\n', "the name is given twice"),
    ],
)
def test_mcp_servers(make_task: MakeTask, lines: str, said: str | None) -> None:
    """One that a service of the task can be is offered; any other is refused by name."""
    found = refusals(load_task(composed(make_task, toml=TOML + MCP + lines)))
    messages = [one.message for one in found]
    if said is None:
        assert messages == []
    else:
        assert (
            len(messages) == 1
            and said in messages[0]
            and messages[0].startswith("environment.mcp_servers (a)")
        )


def test_what_the_agent_is_told_of_mcp_servers(make_task: MakeTask) -> None:
    """Plain data, by transport."""
    lines = (
        MCP
        + 'transport = "http"\nurl = "http://db:8000/mcp"\nheaders = { X = "1" }\n'
        + '[[environment.mcp_servers]]\nname = "b"\ntransport = "stdio"\ncommand = "serve"\nargs = ["--x"]\n'
    )
    assert semantics.mcp_servers(load_task(composed(make_task, toml=TOML + lines))) == (
        {"name": "a", "transport": "streamable-http", "url": "http://db:8000/mcp", "headers": {"X": "1"}},
        {"name": "b", "transport": "stdio", "command": "serve", "args": ["--x"]},
    )
