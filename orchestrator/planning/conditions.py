"""The conditions of a screening, and when a command means the same one."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator import canonical
from orchestrator.attempts import DiskTerms

Positive = Annotated[int, Field(ge=1, le=canonical.MAX_INTEGER)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
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


DISK_MODES: Final = ("writable", "strict", "loop")


class DiskCondition(BaseModel):
    """Where the agent may write (`orchestrator.attempts.DiskTerms`), the limits in bytes and files."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    mode: Literal["writable", "strict", "loop"] = "writable"
    bytes: Positive = DiskTerms.bytes
    files: Positive = DiskTerms.files


class ScreeningConditions(BaseModel):
    """Everything that may change a result besides pack and agent (S4-28); published with the result.

    `tasks` is the sorted subset that is run, None for the whole pack. `permitted_tools` is a set, kept
    sorted; None where the agent's tools are its own business. `cost_cap_nusd` caps the screening and
    `try_cap_nusd` one try, in nano-USD; for an agent that calls models a try cap of 0 allows nothing.
    `output_tokens` is the output maximum per model call that an agent is told; None for one that cannot be.
    `provider_tools` are the kinds of tools that a provider may run for the agent. `prices_digest` names the
    price sheet, `rehearsal_digest` the script of a rehearsal, whose tries never count as passes. `disk` is
    part of the hardware that a try is offered. `visibility` is fixed here, before the first try: a private
    screening has evidence and never a certificate. How many tries run at once is no condition.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tries: Annotated[int, Field(ge=1, le=100)] = 3
    tasks: tuple[str, ...] | None = None
    caps: CapOverrides = CapOverrides()
    step_limit: Positive | None = None
    network: Literal["none", "relay-only"] = "none"
    permitted_tools: tuple[str, ...] | None = None
    runtime: Word = "runc"
    agent_user: Word | None = None
    hardware_class: Word
    provenance: Word = "independently-evaluated"
    cost_cap_nusd: Positive | None = None
    try_cap_nusd: Annotated[int, Field(ge=0, le=canonical.MAX_INTEGER)] = 0
    output_tokens: Positive | None = None
    provider_tools: tuple[str, ...] = ()
    prices_digest: Digest | None = None
    rehearsal_digest: Digest | None = None
    disk: DiskCondition = DiskCondition()
    visibility: Literal["public", "private"] = "public"

    @field_validator("tasks", "permitted_tools", "provider_tools", mode="before")
    @classmethod
    def _as_sorted_set(cls, value: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        return tuple(sorted(set(value)))

    def as_data(self) -> dict[str, Any]:
        """Plain canonical data, for the opening statement and the ledger."""
        data = self.model_dump(mode="json")
        if self.output_tokens is None:
            del data["output_tokens"]  # as before there was one: equal conditions keep their identity
        if self.disk == DiskCondition():
            del data["disk"]
        if self.visibility == "public":
            del data["visibility"]  # likewise
        return data

    @property
    def published_hardware(self) -> str:
        """The hardware class with the disk in it, where that is not the usual one.

        Figures of two disks are not compared (S4-28), as those of two container runtimes are not.
        """
        disk = self.disk
        if disk == DiskCondition():
            return self.hardware_class
        return f"{self.hardware_class}-disk-{disk.mode}-{disk.bytes}-{disk.files}"


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
