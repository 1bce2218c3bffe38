"""Every reason as a sentence for a person; the words themselves stay those of the closed vocabulary."""

from __future__ import annotations

from typing import Final

from scoring.vocabulary import Reason

REASON_TEXT: Final[dict[Reason, str]] = {
    Reason.ALL_CHECKS_PASSED: "the grader's number reached the pack's pass rule",
    Reason.WRONG_OUTPUT: "the grader's number is below the pack's pass rule",
    Reason.TIMEOUT: "the agent was still working when its wall-clock cap ended the try",
    Reason.DEADLINE_OVERRUN: "the whole attempt ran past its deadline, by the host's own clock",
    Reason.COST_CAP: "the agent reached the spend cap of the try",
    Reason.STEP_CAP: "the agent reached the step cap of the try",
    Reason.NETWORK_VIOLATION: "the agent tried to reach what the network policy forbids",
    Reason.OUT_OF_MEMORY: "the agent went over its own memory limit",
    Reason.DISK_LIMIT: "the agent left more data than its disk limit allows",
    Reason.PID_LIMIT: "the agent went over its own limit of processes",
    Reason.OUTPUT_LIMIT: "the agent printed more than its output cap",
    Reason.CRASH: "the agent, or its sandbox by its doing, came to an abnormal end without a pass",
    Reason.TOOL_ERROR: "a tool of the agent failed",
    Reason.NO_VERDICT: "the tests ran and left no usable verdict on a grading path that is known to work",
    Reason.TAMPERING: "the verdict's files contradict each other or are not the grader's",
    Reason.IMAGE_MISSING: "an image of the task was not in the engine",
    Reason.IMAGE_MISMATCH: "the container was not of the pinned image",
    Reason.SANDBOX_START: "the sandbox could not be started",
    Reason.SANDBOX_LOST: "the sandbox was lost through no doing of the agent",
    Reason.ENGINE_ERROR: "the Docker engine or our own code failed",
    Reason.RELAY_FAULT: "the metering relay failed",
    Reason.PROVIDER_OUTAGE: "the model provider was down",
    Reason.GRADER_FAULT: "the grader failed, and is not known to work on this task",
    Reason.SIMULATOR_FAULT: "the simulated customer failed",
    Reason.JUDGE_FAULT: "the judge failed",
    Reason.EVIDENCE_UNWRITABLE: "the evidence could not be stored",
    Reason.WORKER_LOST: "the process that ran the attempt is gone",
    Reason.UNVERIFIABLE: "the attempt's evidence does not verify",
    Reason.NEVER_RECORDED: "the attempt was never recorded",
    Reason.AGENT_NOT_INSTALLABLE: "the agent cannot be installed under the published conditions",
    Reason.AGENT_NOT_STARTABLE: "the agent cannot be started under the published conditions",
}

MARK: Final = {"passed": "✓", "failed": "✗"}


def in_words(outcome: str | None, reason: str | None) -> str:
    """`failed (timeout)`; the reason alone for an attempt that an operator stopped."""
    if outcome is None:
        return "no outcome" if reason is None else f"no outcome ({reason})"
    return f"{outcome} ({reason})"


def sentence(reason: str | None) -> str | None:
    """The sentence for a reason, None for a word outside the vocabulary."""
    return REASON_TEXT[Reason(reason)] if reason in set(Reason) else None
