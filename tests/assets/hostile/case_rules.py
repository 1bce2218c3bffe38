"""What must hold of every case, as far as it was seen: the end it may have, and L1 to L9. Pure.

All nine are checked whatever a case names in `must_hold`. Speed (the second half of L3) is not judged here:
it is measured, and a test must not depend on a busy machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from orchestrator.certificates.verdict import Verdict
from orchestrator.ledger.states import SlotState
from scoring.vocabulary import Outcome, Reason
from tests.assets.hostile.case_house import Seen
from workers.sandbox.options import OWN_KERNEL

MIB: Final = 1 << 20
KEY: Final = b"sk-siege-77d1f0c2a9"
SECRETS: Final = {"hidden tests": b"canary-5b1f0c88", "gold answer": b"gold-9d1e77c2", "provider key": KEY}
DISK_SLACK_BYTES: Final = 64 * MIB
OWN_KERNEL_CROWD_SLACK_BYTES: Final = 256 * MIB
"""What docs/hardening.md says of eight writers at once under a runtime with a kernel of its own."""
CANARIES: Final = {"SOCK_STREAM", "SOCK_DGRAM", "neighbour"}
PARTS: Final = (
    "agent/command.json",
    "agent/stderr.txt",
    "agent/stdout.txt",
    "observations.json",
    "sandbox-report.json",
)


def _ends_as_expected(seen: Seen) -> list[str]:
    case, report = seen.case, seen.report
    if report is None:
        return ["it never ended"]
    end = report.decision
    # A try that was graded and got nothing is what the file calls `agent_fail`, however its command ended.
    graded = report.reward == "0" and "agent_fail" in (case.expected, *case.acceptable)
    if end.outcome is not Outcome.FAILED or not (graded or end.reason in case.reasons):
        allowed = [case.expected, *sorted(case.acceptable)]
        return [f"{end.outcome.value}: {end.reason.value} by {end.rule}, wanted {' or '.join(allowed)}"]
    if end.reason is Reason.TIMEOUT:
        observed = json.loads(seen.files.get("observations.json", b"{}")).get("observations", {})
        fired = (observed.get("agent_clock"), observed.get("agent_clock_value"))
        if seen.order is None or fired != ("wall", seen.order.caps.agent_wall_ms):
            return [f"the clock that fired is recorded as {fired}"]
    return []


def _nothing_left(seen: Seen) -> list[str]:
    return [f"left behind: {one}" for one in seen.left]


def _slack_of(seen: Seen) -> int:
    own_kernel = _report(seen).get("runtime") in OWN_KERNEL
    return OWN_KERNEL_CROWD_SLACK_BYTES if own_kernel and seen.case.needs.crowd else DISK_SLACK_BYTES


def _host_untouched(seen: Seen) -> list[str]:
    written = _report(seen).get("counters", {}).get("writtenBytes")
    cap = _report(seen).get("limits", {}).get("diskBytes")
    found = list(seen.host)
    if type(written) is not int or type(cap) is not int:
        found.append("what it wrote to the disk was not measured")
    elif written > cap + _slack_of(seen):
        found.append(f"it wrote {written} bytes with a cap of {cap}")
    return found


def _sibling_passes(seen: Seen) -> list[str]:
    if seen.sibling is None:
        return ["no sibling ran beside it"]
    end = seen.sibling.decision
    if end.outcome is Outcome.PASSED:
        return []
    return [f"the sibling {end.outcome.value}: {end.reason.value} of {seen.sibling.observations}"]


def _evidence_complete(seen: Seen) -> list[str]:
    found = [f"no {part} in the evidence" for part in PARTS if part not in seen.files]
    report = _report(seen)
    found += [f"the sandbox report says no {key}" for key in ("created", "events") if not report.get(key)]
    state = report.get("finalState", {})
    if state.get("Status") is None:
        found.append("the sandbox report has no final state")
    graded = seen.report is not None and seen.report.reward is not None
    if graded and "workspace/carried.tar" not in seen.files:
        found.append("graded, and no archive of what was graded")
    if seen.certificate is None:
        found.append(f"no certificate: {seen.warnings}")
    result = seen.verified
    if result is None or result.authentic is not Verdict.YES or result.complete is not Verdict.YES:
        found.append(f"the screening does not verify: {result and result.findings}")
    return found


def _no_reward(seen: Seen) -> list[str]:
    found = []
    if seen.report is not None and seen.report.reward not in (None, "0"):
        found.append(f"the verdict is {seen.report.reward}")
    result = (seen.certificate or {}).get("result", {})
    if result.get("outcome") != "failed" or result.get("reward") not in (None, "0"):
        found.append(f"certified is {result.get('outcome')} with reward {result.get('reward')}")
    return found


def _no_secret(seen: Seen) -> list[str]:
    outside = {path: data for path, data in seen.files.items() if not path.startswith("grader/")}
    found = [
        f"the {what} in {path}"
        for path, data in outside.items()
        for what, secret in SECRETS.items()
        if secret in data
    ]
    return found + [f"the provider's key in {path}" for path, data in seen.files.items() if KEY in data]


def _final(seen: Seen) -> list[str]:
    if seen.view is None:
        return ["the ledger knows nothing of it"]
    attempts, state = seen.view.attempts, seen.view.row["state"]
    found = [] if len(attempts) == 1 else [f"{len(attempts)} attempts of one try"]
    if state != SlotState.RECORDED:
        found.append(f"its try is {state}")
    if (seen.certificate or {}).get("result", {}).get("faultClass") != "agent":
        found.append("it is not certified as the agent's")
    return found


def _books_agree(seen: Seen) -> list[str]:
    report, usage = seen.report, (seen.certificate or {}).get("usage", {})
    if not seen.case.needs.relay:
        used = [report and report.spent_nusd, usage.get("requests")]
        return [] if used == [None, 0] and not seen.taken else [f"used without a relay: {used}"]
    order = seen.order
    if report is None or order is None or order.relay is None or report.spent_nusd is None:
        return ["nothing was metered"]
    found = []
    if report.spent_nusd > order.relay.cap_nusd:
        found.append(f"{report.spent_nusd} nano-USD spent of {order.relay.cap_nusd}")
    asked = [json.loads(one.body) for one in seen.taken]
    billed = (len(asked), sum(int(one["max_tokens"]) for one in asked))
    booked = (usage.get("requests"), usage.get("outputTokens"))
    if billed != booked:
        found.append(f"billed {billed}, booked {booked} (calls, output tokens)")
    return found


def _no_packet(seen: Seen) -> list[str]:
    found = [f"a connection to the canary from {one}" for one in seen.strangers]
    kinds = {one.split()[0] for one in seen.listening}
    found += [f"no {kind} canary was there to be found" for kind in sorted(CANARIES - kinds)]
    preflight = _report(seen).get("preflight") or {}
    names = preflight.get("interfaces")
    if preflight.get("kind") != "internal" and names != ["lo"]:
        found.append(f"its namespace had {names}")
    bare = [one for one in seen.taken if one.header("authorization") != [f"Bearer {KEY.decode()}"]]
    return found + ["a call reached the provider beside the relay"] * bool(bare)


CHECKS: Final[Mapping[str, Callable[[Seen], list[str]]]] = {
    "end": _ends_as_expected,
    "L1": _nothing_left,
    "L2": _host_untouched,
    "L3": _sibling_passes,
    "L4": _evidence_complete,
    "L5": _no_reward,
    "L6": _no_secret,
    "L7": _final,
    "L8": _books_agree,
    "L9": _no_packet,
}


def broken(seen: Seen) -> list[str]:
    """Every rule that does not hold, with what was seen instead."""
    if seen.case.problem is not None:
        return [f"not understood: {seen.case.problem}"]
    return [f"{name}: {problem}" for name, check in CHECKS.items() for problem in check(seen)]


def _report(seen: Seen) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(seen.files.get("sandbox-report.json", b"{}"))
    return found
