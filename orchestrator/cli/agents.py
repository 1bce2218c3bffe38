"""`assize agents`: the registered revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from orchestrator.agents import registry
from orchestrator.agents.errors import AgentError
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.cli import agents_pack, completion
from orchestrator.cli.listing import Column, listing_options, show_list, style_of
from orchestrator.cli.output import DASH, call_of, dash, emit, facts, home_of, json_option

LIST_SCHEMA: Final = "assize.agents-list/1"
SHOW_SCHEMA: Final = "assize.agents-show/1"
ADD_SCHEMA: Final = "assize.agents-add/1"
_DIGITS: Final = 12


def _models(models: list[dict[str, str]]) -> str:
    return ", ".join(f"{one['role']}={one['id']}" for one in models) or "none"


COLUMNS: Final = (
    Column("name"),
    Column("version"),
    Column("kind"),
    Column("digest", lambda digest: str(digest)[:_DIGITS]),
    Column("origin"),
    Column("models", _models, default=False),
    Column("description"),
)


@click.group(
    "agents",
    short_help="Agent revisions: list, show, add, pack, self-test.",
    epilog="Next: assize agents list.",
)
def command() -> None:
    """Agent revisions: what is screened, pinned by digest.

    \b
    Examples:
      assize agents list
      assize agents add ./my-agent.toml
    """


@command.command(
    "list", short_help="Every agent that can be screened.", epilog="Next: assize agents show AGENT."
)
@listing_options(COLUMNS)
@click.pass_context
def list_(context: click.Context, style: str) -> None:
    """Built-in agents, then the registered ones by name and version.

    \b
    Examples:
      assize agents list
      assize agents list --columns name,version,digest -o csv
    """
    rows = [_data(agent) for agent in registry.list_agents(home_of(context))]
    show_list(
        style_of(context, style), rows, schema=LIST_SCHEMA, key="agents", empty="No agents are registered."
    )


@command.command("show", epilog="Next: assize screen PACK --agent AGENT.")
@click.argument("agent", shell_complete=completion.agents)
@json_option
@click.pass_context
def show(context: click.Context, agent: str, as_json: bool) -> None:
    """One AGENT: a name, name@version, or the beginning of its digest.

    \b
    Examples:
      assize agents show oracle
      assize agents show my-agent@2 --json
    """
    _show(registry.show(home_of(context), agent), SHOW_SCHEMA, call_of(context), as_json=as_json)


@command.command("add", epilog="Next: assize screen PACK --agent AGENT.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def add(context: click.Context, file: Path, as_json: bool) -> None:
    """Register the agent revision in FILE (TOML, or the folder of a packed agent) with its bundle.

    A registered revision never changes.

    \b
    Examples:
      assize agents add ./my-agent.toml
      assize agents add ./packed-mini --json
    """
    if not file.exists():
        raise AgentError(f"there is no file {file}", hint="give the path of an agent's .toml file")
    home = home_of(context)
    _show(registry.add(home, file), ADD_SCHEMA, call_of(context), as_json=as_json)


command.add_command(agents_pack.pack)
command.add_command(agents_pack.self_test)


def _data(agent: RegisteredAgent) -> dict[str, Any]:
    revision = agent.revision
    return {
        "name": revision.name,
        "version": revision.version,
        "kind": revision.kind,
        "digest": agent.digest,
        "origin": "built-in" if agent.builtin else "registered",
        "models": [model.model_dump() for model in revision.models],
        "description": revision.description or None,
    }


def _details(agent: RegisteredAgent) -> dict[str, Any]:
    revision = agent.revision
    run, launch = revision.run, revision.launch
    return {
        **_data(agent),
        "command": list(launch.argv) if launch else None if run is None else list(run.command),
        "environment": dict(launch.env) if launch else None if run is None else dict(run.env),
        "launch": None if launch is None else launch.model_dump(mode="json"),
        "acp": None if revision.acp is None else revision.acp.model_dump(),
        "endpoint": None if revision.endpoint is None else revision.endpoint.model_dump(),
        "wants_root": None if run is None else run.wants_root,
        "bundle_digest": revision.bundle_digest,
        "bundle": None if agent.bundle_dir is None else str(agent.bundle_dir),
    }


def _show(agent: RegisteredAgent, schema: str, call: str, *, as_json: bool) -> None:
    agent.verify_bundle()
    data = _details(agent)
    if as_json:
        emit(schema, data)
        return
    environment = data["environment"]
    rows = [
        ("agent", f"{data['name']}@{data['version']} ({data['origin']})"),
        ("kind", data["kind"]),
        ("digest", data["digest"]),
        ("models", _models(data["models"])),
        ("command", DASH if data["command"] is None else " ".join(data["command"])),
        ("endpoint", DASH if data["endpoint"] is None else data["endpoint"]["url"]),
        ("permission", DASH if data["acp"] is None else data["acp"]["permission"]),
        ("environment", ", ".join(f"{name}={text}" for name, text in (environment or {}).items()) or DASH),
        ("runs as root", DASH if data["wants_root"] is None else ("yes" if data["wants_root"] else "no")),
        ("bundle", dash(data["bundle"])),
        ("bundle digest", dash(data["bundle_digest"])),
        ("description", dash(data["description"])),
    ]
    for line in facts(rows):
        click.echo(line)
    click.echo(f"next: {call} screen coding-core --agent {data['name']}@{data['version']}")
