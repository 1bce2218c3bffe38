"""The conditions of a screening, which runs may be compared, and when a command means the same one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator import canonical

Positive = Annotated[int, Field(ge=1, le=canonical.MAX_INTEGER)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,127}$")]


class CapOverrides(BaseModel):
    """Limits that replace the pack's own for every task; None keeps the pack's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent_wall_ms: Positive | None = None
    grade_wall_ms: Positive | None = None
    memory_bytes: Positive | None = None
    cpus_milli: Positive | None = None
    pids: Positive | None = None
    output_bytes: Positive | None = None
    artifact_bytes: Positive | None = None


class ScreeningConditions(BaseModel):
    """Everything that may change a result besides pack and agent (S4-28); published with the result.

    `tasks` is the sorted subset that is run, None for the whole pack. `permitted_tools` is a set, kept
    sorted; None where the agent's tools are its own business. `cost_cap_nusd` caps the screening and
    `try_cap_nusd` one try, in nano-USD. How many tries run at once is no condition.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tries: Annotated[int, Field(ge=1, le=100)] = 3
    tasks: tuple[str, ...] | None = None
    caps: CapOverrides = CapOverrides()
    step_limit: Positive | None = None
    network: Literal["none"] = "none"
    permitted_tools: tuple[str, ...] | None = None
    runtime: Word = "runc"
    agent_user: Word | None = None
    hardware_class: Word
    provenance: Word = "independently-evaluated"
    cost_cap_nusd: Positive | None = None
    try_cap_nusd: Annotated[int, Field(ge=0, le=canonical.MAX_INTEGER)] = 0

    @field_validator("tasks", "permitted_tools", mode="before")
    @classmethod
    def _as_sorted_set(cls, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return tuple(sorted(set(value)))

    def as_data(self) -> dict[str, Any]:
        """Plain canonical data, for the opening statement and the ledger."""
        return self.model_dump(mode="json")


def comparability(conditions: ScreeningConditions, pack_digest: str) -> str:
    """Digest over the fields of S4-33: two screenings may be compared exactly when it is equal.

    The fields are suite version, timeout, step limit, network policy, permitted tools, hardware class,
    repeats and provenance. A subset of tasks is another suite, and the container runtime is part of the
    hardware class: results under runsc and runc are not comparable (reference/sandbox.md).
    """
    caps = conditions.caps.model_dump(mode="json")
    timeout = {name: caps.pop(name) for name in ("agent_wall_ms", "grade_wall_ms")}
    tasks, tools = conditions.tasks, conditions.permitted_tools
    return canonical.digest(
        {
            "suite": {"pack": pack_digest, "tasks": None if tasks is None else list(tasks)},
            "timeout": timeout,
            "stepLimit": conditions.step_limit,
            "networkPolicy": conditions.network,
            "permittedTools": None if tools is None else list(tools),
            "hardwareClass": {
                "class": conditions.hardware_class,
                "runtime": conditions.runtime,
                "limits": caps,
            },
            "repeats": conditions.tries,
            "provenance": conditions.provenance,
        }
    )


def screening_identity(
    conditions: ScreeningConditions, *, pack_digest: str, agent_digest: str, requester: str, funder: str
) -> str:
    """What makes a command "the same command": SHA-256 of pack, agent, conditions, requester, funder."""
    return canonical.digest(
        {
            "pack": pack_digest,
            "agent": agent_digest,
            "conditions": conditions.as_data(),
            "requester": requester,
            "funder": funder,
        }
    )
