"""The closed vocabularies of how a try ends (DESIGN sections 1 and 7).

These words are used unchanged in code, tables, certificates, the CLI and docs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """What became of an attempt."""

    PASSED = "passed"
    FAILED = "failed"
    PLATFORM_FAULT = "platform_fault"
    NOT_EVALUABLE = "not_evaluable"


class Phase(StrEnum):
    """Where in its life an attempt was when the deciding fact was observed."""

    PREPARE = "prepare"
    AGENT = "agent"
    GRADE = "grade"
    RECORD = "record"


class Reason(StrEnum):
    """Why; every reason belongs to exactly one outcome (see `OUTCOME_OF`)."""

    ALL_CHECKS_PASSED = "all_checks_passed"

    WRONG_OUTPUT = "wrong_output"
    TIMEOUT = "timeout"
    DEADLINE_OVERRUN = "deadline_overrun"
    COST_CAP = "cost_cap"
    STEP_CAP = "step_cap"
    NETWORK_VIOLATION = "network_violation"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_LIMIT = "disk_limit"
    PID_LIMIT = "pid_limit"
    OUTPUT_LIMIT = "output_limit"
    CRASH = "crash"
    TOOL_ERROR = "tool_error"
    NO_VERDICT = "no_verdict"
    TAMPERING = "tampering"

    IMAGE_MISSING = "image_missing"
    IMAGE_MISMATCH = "image_mismatch"
    SANDBOX_START = "sandbox_start"
    SANDBOX_LOST = "sandbox_lost"
    ENGINE_ERROR = "engine_error"
    RELAY_FAULT = "relay_fault"
    PROVIDER_OUTAGE = "provider_outage"
    GRADER_FAULT = "grader_fault"
    SIMULATOR_FAULT = "simulator_fault"
    JUDGE_FAULT = "judge_fault"
    EVIDENCE_UNWRITABLE = "evidence_unwritable"
    WORKER_LOST = "worker_lost"
    UNVERIFIABLE = "unverifiable"
    NEVER_RECORDED = "never_recorded"

    AGENT_NOT_INSTALLABLE = "agent_not_installable"
    AGENT_NOT_STARTABLE = "agent_not_startable"


_FAILED: Final = (
    Reason.WRONG_OUTPUT,
    Reason.TIMEOUT,
    Reason.DEADLINE_OVERRUN,
    Reason.COST_CAP,
    Reason.STEP_CAP,
    Reason.NETWORK_VIOLATION,
    Reason.OUT_OF_MEMORY,
    Reason.DISK_LIMIT,
    Reason.PID_LIMIT,
    Reason.OUTPUT_LIMIT,
    Reason.CRASH,
    Reason.TOOL_ERROR,
    Reason.NO_VERDICT,
    Reason.TAMPERING,
)
_NOT_EVALUABLE: Final = (Reason.AGENT_NOT_INSTALLABLE, Reason.AGENT_NOT_STARTABLE)

OUTCOME_OF: Final[dict[Reason, Outcome]] = {
    reason: (
        Outcome.PASSED
        if reason is Reason.ALL_CHECKS_PASSED
        else Outcome.FAILED
        if reason in _FAILED
        else Outcome.NOT_EVALUABLE
        if reason in _NOT_EVALUABLE
        else Outcome.PLATFORM_FAULT
    )
    for reason in Reason
}
"""The outcome that each reason belongs to; total over `Reason`."""

UNFINISHED: Final[frozenset[Reason]] = frozenset(
    {
        Reason.TIMEOUT,
        Reason.DEADLINE_OVERRUN,
        Reason.COST_CAP,
        Reason.STEP_CAP,
        Reason.NETWORK_VIOLATION,
    }
)
"""Failures of tries that did not finish (seed 003, S3-13): counted as failures and shown by kind."""
