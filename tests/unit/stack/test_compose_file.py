"""docker-compose.yml keeps the rules of docs/compose.md: every service, one by one, exceptions by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.stack.secret_files import FILES

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text()
FILE: dict[str, Any] = yaml.safe_load(TEXT)
PAGE = (ROOT / "docs" / "compose.md").read_text()
SERVICES: dict[str, dict[str, Any]] = FILE["services"]

ENDS = {"migrate", "operator"}
"""They run one command and end: no health to ask for, and nothing to start again."""
WITH_SOCKET = {"worker", "operator"}
WITH_KEYS = {"orchestrator", "operator"}
CAPABILITIES = {
    "worker": {"SYS_ADMIN", "SYS_PTRACE", "KILL", "SYS_NICE", "DAC_OVERRIDE"},
    "orchestrator": {"DAC_OVERRIDE"},
    "operator": {"DAC_OVERRIDE"},
}
NO_CPU_LIMIT = {"worker"}
"""It must look at its sandboxes before they go on; it has a larger share instead."""

every_service = pytest.mark.parametrize("name", sorted(SERVICES))


def test_the_services_are_those_of_the_page() -> None:
    """docs/compose.md has a row for each."""
    assert {one for one in SERVICES if f"| `{one}`" in PAGE} == set(SERVICES)


def test_every_setting_is_on_the_page_with_its_default() -> None:
    """Those that `assize compose init` writes are not for people."""
    written = {"ASSIZE_SECRETS", "ASSIZE_ENGINE_ROOT"}
    settings = dict(re.findall(r"\$\{(ASSIZE_\w+):-([^}]*)\}", TEXT))
    rows = dict(re.findall(r"^\| `(ASSIZE_\w+)` \| (\S+) \|", PAGE, re.MULTILINE))
    assert rows == {name: value for name, value in settings.items() if name not in written}


@every_service
def test_no_secret_is_in_an_environment_or_a_command(name: str) -> None:
    """Both are seen by whoever may look at a container: only names of files are there."""
    service = SERVICES[name]
    environment = service.get("environment", {})
    assert set(environment) <= {
        "ASSIZE_HOME",
        "ASSIZE_DATABASE_URL_FILE",
        "ASSIZE_BROKER_FILE",
        "ASSIZE_KEY_PASSPHRASE_FILE",
        "ASSIZE_ISSUER",
        "ASSIZE_SOCKET_FOLDER",
        "ASSIZE_TASK_EVENTS",
    }
    for variable, value in environment.items():
        if variable.endswith("_FILE"):
            assert value.startswith("/run/secrets/")
    words = [*service.get("command", []), *service.get("entrypoint", [])]
    assert not [word for word in words if re.search(r"password|://(?!127\.)", word)]
    assert "env_file" not in service


@every_service
def test_what_is_published_is_on_loopback(name: str) -> None:
    """A port without an address would be open to the world, past many a firewall."""
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")
    assert SERVICES[name].get("network_mode") is None


@every_service
def test_every_container_is_hardened(name: str) -> None:
    """Read-only root, no capability that is not named here, no new privileges, never privileged."""
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert set(service.get("cap_add", [])) == CAPABILITIES.get(name, set())
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "devices" not in service


@every_service
def test_every_container_is_bounded(name: str) -> None:
    """Memory, processes, cores and log lines."""
    service = SERVICES[name]
    assert service["mem_limit"] and service["pids_limit"]
    assert ("cpus" in service) != (name in NO_CPU_LIMIT)
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert all("size=" in one for one in service["tmpfs"])


@every_service
def test_what_stays_up_is_asked_for_its_health_and_started_again(name: str) -> None:
    service = SERVICES[name]
    assert ("healthcheck" in service) != (name in ENDS)
    assert service["restart"] == ("no" if name in ENDS else "unless-stopped")


@every_service
def test_images_are_ours_by_id_and_never_pulled(name: str) -> None:
    """The settings name them by Id; without settings Compose says what to do."""
    assert re.fullmatch(r"\$\{ASSIZE_\w*IMAGE:\?run make compose first\}", SERVICES[name]["image"])
    assert SERVICES[name]["pull_policy"] == "never" and "build" not in SERVICES[name]


@every_service
def test_keys_and_the_engine_are_where_they_must_be(name: str) -> None:
    """Keys and their passphrase for signers, the owner's URL not for the worker, the socket for two."""
    service = SERVICES[name]
    volumes = [str(one) for one in service.get("volumes", [])]
    secrets = set(service.get("secrets", []))
    assert any(one.startswith("keys:") for one in volumes) == (name in WITH_KEYS)
    assert ("key_passphrase" in secrets) == (name in WITH_KEYS)
    assert any("docker.sock" in one for one in volumes) == (name in WITH_SOCKET)
    if name in ("worker", "web-placeholder"):
        assert "worker_database_url" in secrets and "database_url" not in secrets


def test_databases_are_reached_from_inside_only() -> None:
    """The network of Redis and PostgreSQL leads nowhere; only the worker has a way out."""
    assert FILE["networks"]["backend"] == {"internal": True}
    assert {name for name, one in SERVICES.items() if "outside" in one["networks"]} == {"worker"}
    assert SERVICES["redis"]["networks"] == SERVICES["postgres"]["networks"] == ["backend"]


def test_flower_listens_and_has_nothing() -> None:
    """Not started unless asked for; its own user of the broker, no database, no home, no key, no engine."""
    flower = SERVICES["flower"]
    assert flower["profiles"] == ["flower"] and "environment" not in flower and "volumes" not in flower
    assert set(flower["secrets"]) == {"flower_broker_url", "flower_password"}
    holders = {name for name, one in SERVICES.items() if "flower_password" in one.get("secrets", [])}
    assert holders == {"flower"}
    assert SERVICES["worker"]["environment"]["ASSIZE_TASK_EVENTS"] == "${ASSIZE_TASK_EVENTS:-no}"


def test_starts_wait_for_what_they_need() -> None:
    """Conditions, not times."""
    for name in ("orchestrator", "worker", "web-placeholder"):
        assert SERVICES[name]["depends_on"] == {
            "redis": {"condition": "service_healthy"},
            "migrate": {"condition": "service_completed_successfully"},
        }


def test_the_secrets_are_those_that_are_drawn() -> None:
    """Each is a file of the folder that `assize compose init` fills."""
    assert set(FILE["secrets"]) == set(FILES)
    for name, one in FILE["secrets"].items():
        assert one == {"file": "${ASSIZE_SECRETS:-.compose/secrets}/" + name}
    used = {secret for one in SERVICES.values() for secret in one.get("secrets", [])}
    assert used == set(FILES)


def test_two_stacks_of_one_engine_have_two_homes() -> None:
    """The home's path marks its sandboxes: the project's name is in it wherever it is written."""
    homes = set(re.findall(r"/srv/assize[^\s\"':,\]]*", TEXT))
    assert homes == {"/srv/assize/${COMPOSE_PROJECT_NAME}", "/srv/assize/${COMPOSE_PROJECT_NAME}/keys"}
    assert SERVICES["worker"]["environment"]["ASSIZE_HOME"] == "/srv/assize/${COMPOSE_PROJECT_NAME}"
