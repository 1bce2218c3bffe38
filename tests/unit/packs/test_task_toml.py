"""task.toml: every key, every default, legacy keys, and one clear sentence for bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.packs.errors import PackError
from orchestrator.packs.refusals import refusals
from orchestrator.packs.task import load_task
from orchestrator.packs.task_config import parse_task_config
from orchestrator.packs.task_environment import NetworkMode, check_host, parse_size_mb

ASSETS = Path(__file__).parents[2] / "assets" / "packs" / "task_toml"


def _header(path: Path, word: str) -> str:
    first = path.read_text("utf-8").splitlines()[0]
    assert first.startswith(f"# {word}: ")
    return first.removeprefix(f"# {word}: ")


@pytest.mark.parametrize("path", sorted(ASSETS.glob("bad-*.toml")), ids=lambda path: path.stem)
def test_bad_input_names_task_key_and_value(path: Path) -> None:
    """Bad values are refused with one sentence that names the task and what the asset's header expects."""
    with pytest.raises(PackError) as caught:
        parse_task_config(path.read_text("utf-8"), "demo-task")
    assert isinstance(caught.value, UsageError)
    assert caught.value.message.startswith("task demo-task: task.toml")
    assert _header(path, "expect") in caught.value.message


def test_values_of_env_and_headers_are_never_repeated() -> None:
    """An error message must not leak what may be a secret."""
    for name in ("bad-env-number", "bad-mcp-literal-credential"):
        with pytest.raises(PackError) as caught:
            parse_task_config((ASSETS / f"{name}.toml").read_text("utf-8"), "demo")
        assert "5551234" not in caught.value.message
        assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("path", sorted(ASSETS.glob("refused-*.toml")), ids=lambda path: path.stem)
def test_what_cannot_run_faithfully_is_refused_by_name(path: Path, make_task: Callable[..., Path]) -> None:
    """The exact list of refusal codes stands in each asset's header."""
    task = load_task(make_task(path.read_text("utf-8")))
    found = refusals(task)
    assert [str(item.code) for item in found] == _header(path, "refusals").split(",")
    assert all(len(item.message) > 10 for item in found)


def test_defaults_are_those_of_the_table() -> None:
    """reference/harbor.md section 1: an empty task.toml."""
    config = parse_task_config("", "demo")
    assert config.schema_version == "1.4"
    assert config.artifacts == () and config.steps is None and config.task is None
    assert config.multi_step_reward_strategy is None
    assert (config.agent.timeout_sec, config.agent.user, config.agent.network_mode) == (None, None, None)
    verifier = config.verifier
    assert (verifier.timeout_sec, verifier.env, verifier.user) == (600.0, {}, None)
    assert (verifier.environment_mode, verifier.environment, verifier.collect) == (None, None, ())
    environment = config.environment
    assert environment.build_timeout_sec == 600.0
    assert (environment.os, environment.network_mode) == ("linux", NetworkMode.PUBLIC)
    assert not environment.network_declared
    undeclared = ("docker_image", "cpus", "memory_mb", "storage_mb", "gpus", "gpu_types", "tpu", "skills_dir")
    assert all(getattr(environment, key) is None for key in (*undeclared, "healthcheck", "workdir"))
    assert (environment.mcp_servers, environment.env, config.solution.env) == ((), {}, {})


def test_healthcheck_collect_and_step_defaults() -> None:
    """The nested tables have the reference's defaults too."""
    config = parse_task_config(
        '[environment.healthcheck]\ncommand="x"\n[[verifier.collect]]\ncommand="y"\n[[steps]]\nname="s"\n',
        "demo",
    )
    check = config.environment.healthcheck
    assert check is not None
    assert (check.interval_sec, check.timeout_sec, check.start_period_sec) == (5.0, 30.0, 0.0)
    assert (check.start_interval_sec, check.retries) == (5.0, 3)
    hook = config.verifier.collect[0]
    assert (hook.service, hook.timeout_sec, hook.user) == ("main", 60.0, None)
    assert config.steps is not None
    assert (config.steps[0].min_reward, config.steps[0].healthcheck, config.steps[0].artifacts) == (
        None,
        None,
        (),
    )


def test_every_key_is_known() -> None:
    """A file with every key of schema 1.4 has no unknown key, and its values arrive."""
    config = parse_task_config((ASSETS / "good-every-key.toml").read_text("utf-8"), "demo")
    assert config.unknown_keys == ()
    assert config.agent.timeout_sec == 90.5 and config.agent.user == 1000
    assert config.environment.allowed_hosts == (
        "example.org",
        "*.example.org",
        "192.0.2.1",
        "192.0.2.0/24",
        "2001:db8::1",
    )
    assert config.artifacts[0].source == "/app/a"
    assert config.artifacts[1].destination == "b" and not config.artifacts[1].of_other_service
    assert config.steps is not None and config.steps[1].min_reward == {"reward": 1.0, "style": 0.5}


def test_unknown_keys_are_ignored_but_listed() -> None:
    """Harbor ignores them; we list them with their place. Free tables are not searched."""
    config = parse_task_config((ASSETS / "good-unknown-keys.toml").read_text("utf-8"), "demo")
    assert config.unknown_keys == (
        "artifacts[0].shade",
        "colour",
        "environment.disk_type",
        "environment.healthcheck.loud",
        "steps[0].verifier.environment.memory_gb",
        "steps[0].wait",
    )
    assert (config.schema_version, config.environment.memory_mb, config.environment.storage_mb) == (
        "1.0",
        1536,
        512,
    )


def test_a_file_cannot_forge_the_list_of_unknown_keys() -> None:
    """`unknown_keys` is ours; as a key of the file it is itself unknown."""
    assert parse_task_config("unknown_keys = ['x']\n", "demo").unknown_keys == ("unknown_keys",)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_schema_versions_and_the_legacy_key(version: str) -> None:
    """1.0 to 1.4 load under either key; `schema_version` wins over `version`."""
    assert parse_task_config(f'version = "{version}"\n', "demo").schema_version == version
    both = f'version = "9"\nschema_version = "{version}"\n'
    assert parse_task_config(both, "demo").schema_version == version


def test_network_mode_supersedes_allow_internet() -> None:
    """The legacy key counts only where nothing newer is declared."""
    for text, mode, declared in (
        ("allow_internet = false\n", NetworkMode.NO_NETWORK, True),
        ("allow_internet = true\n", NetworkMode.PUBLIC, True),
        ('allow_internet = true\nnetwork_mode = "no-network"\n', NetworkMode.NO_NETWORK, True),
        ("cpus = 1\n", NetworkMode.PUBLIC, False),
    ):
        environment = parse_task_config("[environment]\n" + text, "demo").environment
        assert (environment.network_mode, environment.network_declared) == (mode, declared)


@pytest.mark.parametrize(
    ("text", "size"), [("2G", 2048), (" 512m ", 512), ("1.5g", 1536), ("2048K", 2), ("1023K", 0)]
)
def test_legacy_sizes(text: str, size: int) -> None:
    """Whole MB, rounded down as Harbor rounds them."""
    assert parse_size_mb(text) == size


@pytest.mark.parametrize(
    "host", ["", "*", "a*.org", "*.192.0.2.1", "192.0.2.1/24", "a_b.org", "x/y", "fe80::1%eth0"]
)
def test_bad_hosts(host: str) -> None:
    """Only names, `*.names`, addresses and exact CIDR ranges."""
    with pytest.raises(ValueError, match="not a host name"):
        check_host(host)
