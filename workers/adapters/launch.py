"""From an agent revision and an order to what is put into the container and run there: pure.

The run contract (reference/agents.md section 4) is the same for every agent; limits are information
only, the worker enforces them from outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from orchestrator.agents.launching import Permission
from orchestrator.attempts import AttemptOrder
from workers.adapters import mcp
from workers.adapters.packed import TryContext, plan, template_of
from workers.sandbox.tars import Owner

INSTRUCTION: Final = "/assize/instruction.md"
OUT: Final = "/assize/out"
HOME: Final = "/assize/home"
MCP_CONFIG: Final = "/assize/mcp.json"
BUNDLE: Final = "/opt/agent"
RELAY_URL: Final = "http://127.0.0.1:8080"

QUIET: Final[Mapping[str, str]] = {
    "CI": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "DO_NOT_TRACK": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


@dataclass(frozen=True)
class Launch:
    """One command, or None for nothing to start inside.

    `solution` says that the task's reference solution is put at `/solution`; `driven` that the worker
    itself works the sandbox's shell for a model (`workers.adapters.shell`). With `permission` the command
    is talked to by the agent client protocol (`workers.adapters.acp`).
    """

    argv: tuple[str, ...] | None
    environment: Mapping[str, str] = field(default_factory=dict)
    solution: bool = False
    driven: bool = False
    permission: Permission | None = None


@dataclass(frozen=True)
class Way:
    """The way to the relay from inside: its address there and the lane's token."""

    url: str = RELAY_URL
    token: str = field(default="", repr=False)


def _models(order: AttemptOrder) -> tuple[str, str]:
    """The main model and the small one; without such roles the first that is pinned."""
    if order.relay is None:
        return "", ""
    by_role = {one.role: one.model for one in reversed(order.relay.models)}
    main = by_role.get("main", order.relay.models[0].model)
    return main, by_role.get("small", main)


def _model_environment(order: AttemptOrder, way: Way) -> dict[str, str]:
    """Base URLs and keys under the names that the vendors' SDKs and agents read.

    Without a declared model nothing answers at the address, and the key is empty.
    """
    environment = {
        "ASSIZE_RELAY_URL": way.url,
        "OPENAI_BASE_URL": f"{way.url}/v1",
        "OPENAI_API_BASE": f"{way.url}/v1",
        "ANTHROPIC_BASE_URL": way.url,
        "GOOGLE_GEMINI_BASE_URL": way.url,
    }
    if order.relay is None:
        return environment
    keys = ("ASSIZE_RELAY_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    main, small = _models(order)
    environment.update(dict.fromkeys(keys, way.token))
    environment.update(
        ASSIZE_MODEL=main,
        ASSIZE_MODEL_SMALL=small,
        ASSIZE_BUDGET_NUSD=str(order.relay.cap_nusd),
    )
    if order.relay.step_limit is not None:
        environment["ASSIZE_MAX_STEPS"] = str(order.relay.step_limit)
    return environment


def contract_environment(
    order: AttemptOrder, owner: Owner, workdir: str, deadline_s: int, way: Way | None = None
) -> dict[str, str]:
    """The variables of the run contract; `way` leads to the relay where the order has one."""
    environment = {
        **QUIET,
        **order.environment,
        "HOME": HOME,
        "ASSIZE_INSTRUCTION": INSTRUCTION,
        "ASSIZE_WORKSPACE": workdir,
        "ASSIZE_OUT": OUT,
        "ASSIZE_MCP_CONFIG": MCP_CONFIG,
        "ASSIZE_DEADLINE_S": str(deadline_s),
        "ASSIZE_BUDGET_NUSD": "0",
        **_model_environment(order, way or Way()),
    }
    if owner.uid == 0:
        environment["IS_SANDBOX"] = "1"
    return environment


def mcp_config(order: AttemptOrder) -> bytes:
    """The task's MCP servers in the form that agents read: `{"mcpServers": {name: {...}}}`.

    `type` is `stdio` (then `command` and `args` are run by the agent in its own container), `sse` or `http`
    (then `url` and `headers`; the host is a service of the task).
    """
    servers = {str(one["name"]): mcp.plain(one) for one in order.mcp_servers or ()}
    return json.dumps({"mcpServers": servers}, indent=2).encode() + b"\n"


def _oracle(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    return Launch(("bash", "/solution/solve.sh"), dict(order.solution_environment), solution=True)


def _nop(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    return Launch(None)


def _shell(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    return Launch(None, driven=True)


def _own_command(order: AttemptOrder) -> tuple[tuple[str, ...], dict[str, str]]:
    run: Mapping[str, Any] = order.agent["run"]
    environment = {str(name): str(text) for name, text in (run.get("env") or {}).items()}
    return tuple(str(part) for part in run["command"]), environment


def _exec(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    command, environment = _own_command(order)
    # The instruction is on standard input as well; argv stays free of quoting and length limits.
    argv = ("sh", "-c", f'exec "$0" "$@" < {INSTRUCTION}', *command)
    return Launch(argv, environment)


def _template(order: AttemptOrder, way: Way, workdir: str, *, attached: bool) -> Launch:
    main, small = _models(order)
    template = template_of(order.agent)
    # One that is talked to gets the servers with its session.
    servers = () if attached else order.mcp_servers
    values = {
        "model": main,
        "model_small": small,
        "url": way.url,
        "token": way.token,
        "bundle": BUNDLE,
        "home": HOME,
        "workspace": workdir,
        "out": OUT,
        "mcp_config": MCP_CONFIG,
        "mcp_servers": mcp.written(template.mcp.form, servers) if template.mcp else "",
        "instruction": order.instruction,
        "instruction_file": INSTRUCTION,
        "output_tokens": str(order.agent.get("output_tokens") or template.limits.output_tokens or ""),
    }
    context = TryContext(values, str(order.agent.get("wire") or ""))
    argv, environment = plan(template, context, attached=attached)
    return Launch(argv, environment)


def _packed(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    return _template(order, way, workdir, attached=False)


def _acp(order: AttemptOrder, way: Way, workdir: str) -> Launch:
    permission = order.agent["acp"]["permission"]
    if order.agent.get("launch"):
        return replace(_template(order, way, workdir, attached=True), permission=permission)
    argv, environment = _own_command(order)
    return Launch(argv, environment, permission=permission)


ADAPTERS: Final[Mapping[str, Callable[[AttemptOrder, Way, str], Launch]]] = {
    "oracle": _oracle,
    "nop": _nop,
    "exec": _exec,
    "shell": _shell,
    "http-chat": _shell,
    "packed": _packed,
    "acp": _acp,
}


def plan_launch(order: AttemptOrder, way: Way | None = None, workdir: str = "/") -> Launch:
    """The launch of the order's agent by `way`, in `workdir`.

    Raises `KeyError` for a kind that registration should have refused, `InstructionTooLongError` for an
    instruction that the agent cannot be given.
    """
    return ADAPTERS[str(order.agent["kind"])](order, way or Way(), workdir)
