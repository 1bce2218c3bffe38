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
    """One command; `solution` says that the task's reference solution is put at `/solution`."""

    argv: tuple[str, ...] | None
    environment: Mapping[str, str] = field(default_factory=dict)
    solution: bool = False


def contract_environment(order: AttemptOrder, owner: Owner, workdir: str, deadline_s: int) -> dict[str, str]:
    """The variables of the run contract.

    Without a declared model nothing answers at the relay's address.
    """
    environment = {
        **QUIET,
        **order.environment,
        "HOME": HOME,
        "ASSIZE_INSTRUCTION": INSTRUCTION,
        "ASSIZE_WORKSPACE": workdir,
        "ASSIZE_OUT": OUT,
        "ASSIZE_DEADLINE_S": str(deadline_s),
        "ASSIZE_BUDGET_NUSD": "0",
        "ASSIZE_RELAY_URL": RELAY_URL,
        "OPENAI_BASE_URL": f"{RELAY_URL}/v1",
        "OPENAI_API_BASE": f"{RELAY_URL}/v1",
        "ANTHROPIC_BASE_URL": RELAY_URL,
        "GOOGLE_GEMINI_BASE_URL": RELAY_URL,
    }
    if owner.uid == 0:
        environment["IS_SANDBOX"] = "1"
    return environment


def _oracle(order: AttemptOrder) -> Launch:
    return Launch(("bash", "/solution/solve.sh"), dict(order.solution_environment), solution=True)


def _nop(order: AttemptOrder) -> Launch:
    return Launch(None)


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
}


def plan_launch(order: AttemptOrder) -> Launch:
    """The launch of the order's agent; raises `KeyError` for a kind that registration should have refused."""
    return ADAPTERS[str(order.agent["kind"])](order)
