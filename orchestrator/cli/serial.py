"""Rows of the ledger as plain data: what `--json` prints and what the texts are made from.

Ids are whole, times integer Unix milliseconds UTC, durations integer milliseconds, money strings of
integer nano-USD, and what is missing is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.ledger.queries import AttemptView, Status
from orchestrator.ledger.states import SlotState
from scoring.vocabulary import Outcome


def screening_data(row: Mapping[str, Any], status: Status) -> dict[str, Any]:
    """One screening in a list."""
    slots, outcomes = status.slots, status.outcomes
    return {
        "screening": row["id"],
        "agent": f"{row['agent_id']}@{row['agent_version']}",
        "pack": f"{row['pack_id']}@{row['pack_version']}",
        "state": row["state"],
        "visibility": visibility_of(row),
        "planned": status.total,
        "recorded": slots[SlotState.RECORDED],
        "passed": outcomes[Outcome.PASSED],
        "failed": outcomes[Outcome.FAILED],
        "uncountable": slots[SlotState.UNCOUNTABLE],
        "cancelled": slots[SlotState.CANCELLED],
        "open": status.open,
        "running": slots[SlotState.RUNNING],
        "reruns": status.reruns,
        "interruptions": status.interruptions,
        "spend_nusd": str(status.used_nusd),
        "platform_spend_nusd": str(status.platform_nusd),
        "cap_nusd": None if status.cap_nusd is None else str(status.cap_nusd),
        "created_ms": row["created_ms"],
        "closed_ms": row["closed_ms"],
    }


def visibility_of(row: Mapping[str, Any]) -> str:
    """`public` or `private`, as the screening was planned."""
    return str(row["conditions"].get("visibility", "public"))


def screening_details(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a list leaves out."""
    return {
        "agent_digest": row["agent_digest"],
        "pack_digest": row["pack_digest"],
        "requested_by": row["requester"],
        "funded_by": row["funder"],
        "conditions": row["conditions"],
        "comparability": row["comparability"],
        "stop_reason": row["stop_reason"],
        "started_ms": row["started_ms"],
        "rerun_limit": row["rerun_limit"],
    }


def try_data(row: Mapping[str, Any]) -> dict[str, Any]:
    """One try in a list, from a row of `listed_tries`."""
    renamed = {"id": "try", "task_id": "task"}
    return {renamed.get(name, name): value for name, value in row.items()}


def _model_calls(observations: Mapping[str, Any]) -> dict[str, int | None] | None:
    """What the relay saw of an attempt; None where there was no relay, or it was lost."""
    if observations.get("relay_calls") is None:
        return None
    return {"taken": observations["relay_calls"], "first_ms": observations.get("relay_first_call_ms")}


def attempt_data(view: AttemptView, bundle: str | None) -> dict[str, Any]:
    """One attempt; `bundle` is the path of its try bundle."""
    row = view.row
    details: Mapping[str, Any] = row["details"] or {}
    observations: Mapping[str, Any] = details.get("observations") or {}
    return {
        "attempt": row["id"],
        "number": row["number"],
        "token": row["token"],
        "state": row["state"],
        "outcome": row["outcome"],
        "reason": row["reason"],
        "phase": row["phase"],
        "rule": row["rule"],
        "decided_by": {name: observations.get(name) for name in details.get("evidence") or ()},
        "suspect": row["suspect"],
        "reward": row["reward"],
        "gradings": list(details.get("gradings") or ()),
        "checks_passed": row["checks_passed"],
        "checks_total": row["checks_total"],
        "wall_ms": row["wall_ms"],
        "phases": list(details.get("phases") or ()),
        "claimed_ms": row["claimed_ms"],
        "ended_ms": row["ended_ms"],
        "runtime": row["runtime"],
        "spend": [{"payer": payer, "nusd": str(nusd)} for payer, nusd in view.spend],
        "model_calls": _model_calls(observations),
        "manifest": view.manifest_digest,
        "certificate": view.certificate_digest,
        "bundle": bundle,
    }
