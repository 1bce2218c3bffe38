"""From an agent revision and an order to what is put into the container and run there: pure.

The run contract (reference/agents.md section 4) is the same for every agent; limits are information
only, the worker enforces them from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from orchestrator.attempts import AttemptOrder
from workers.sandbox.tars import Owner

INSTRUCTION: Final = "/assize/instruction.md"
OUT: Final = "/assize/out"
HOME: Final = "/assize/home"
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
    itself works the sandbox's shell for a model (`workers.adapters.shell`).
    """

    argv: tuple[str, ...] | None
    environment: Mapping[str, str] = field(default_factory=dict)
    solution: bool = False
    driven: bool = False


@dataclass(frozen=True)
class Way:
    """The way to the relay from inside: its address there and the lane's token."""

    url: str = RELAY_URL
    token: str = field(default="", repr=False)


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
    models = {one.role: one.model for one in reversed(order.relay.models)}
    main = order.relay.models[0].model
    environment.update(dict.fromkeys(keys, way.token))
    environment.update(
        ASSIZE_MODEL=models.get("main", main),
        ASSIZE_MODEL_SMALL=models.get("small", models.get("main", main)),
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
        "ASSIZE_DEADLINE_S": str(deadline_s),
        "ASSIZE_BUDGET_NUSD": "0",
        **_model_environment(order, way or Way()),
    }
    if owner.uid == 0:
        environment["IS_SANDBOX"] = "1"
    return environment


def _oracle(order: AttemptOrder) -> Launch:
    return Launch(("bash", "/solution/solve.sh"), dict(order.solution_environment), solution=True)


def _nop(order: AttemptOrder) -> Launch:
    return Launch(None)


def _shell(order: AttemptOrder) -> Launch:
    return Launch(None, driven=True)


def _exec(order: AttemptOrder) -> Launch:
    run: Mapping[str, Any] = order.agent["run"]
    command = [str(part) for part in run["command"]]
    # The instruction is on standard input as well; argv stays free of quoting and length limits.
    argv = ("sh", "-c", f'exec "$0" "$@" < {INSTRUCTION}', *command)
    return Launch(argv, {str(k): str(v) for k, v in (run.get("env") or {}).items()})


ADAPTERS: Final[Mapping[str, Callable[[AttemptOrder], Launch]]] = {
    "oracle": _oracle,
    "nop": _nop,
    "exec": _exec,
    "shell": _shell,
}


def plan_launch(order: AttemptOrder) -> Launch:
    """The launch of the order's agent; raises `KeyError` for a kind that registration should have refused."""
    return ADAPTERS[str(order.agent["kind"])](order)
