"""Contradictions inside one statement that already has the right shape, and the comparability digest."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from orchestrator import canonical
from orchestrator.certificates.schema import (
    KEY_SUBJECT,
    NOTICE,
    OPENING,
    SCREENING_SUBJECT,
    SUMMARY,
    TRY,
    TRY_SUBJECT,
)
from orchestrator.verification.errors import Finding
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason

FAULT_CLASS: Final[dict[str, str | None]] = {
    Outcome.PASSED: None,
    Outcome.FAILED: "agent",
    Outcome.PLATFORM_FAULT: "platform",
    Outcome.NOT_EVALUABLE: None,
}


def comparability(opening: dict[str, Any]) -> str:
    """Digest over exactly the list of seed 004: equal digests may be compared.

    Tasks that are left out make another suite; the container runtime is part of the hardware.
    """
    conditions = opening["conditions"]
    tools = conditions["permittedTools"]
    return canonical.digest(
        {
            "suite": {"id": opening["pack"]["id"], "version": opening["pack"]["version"]},
            "timeouts": [
                [entry["taskId"], entry["caps"]["agentWallMs"]] for entry in opening["plan"] if entry["tries"]
            ],
            "stepLimit": conditions["stepLimit"],
            "networkPolicy": conditions["networkPolicy"]["digest"]["sha256"],
            "permittedTools": tools if tools is None else sorted(set(tools)),
            "hardware": [conditions["hardwareClass"], conditions["runtime"]],
            "repeats": conditions["repeats"],
            "provenance": opening["provenanceLabel"],
        }
    )


def _opening_rules(statement: dict[str, Any]) -> list[Finding]:
    opening, found = statement["predicate"], []
    names = [entry["taskId"].lower() for entry in opening["plan"]]
    if len(set(names)) != len(names):
        found.append(Finding("schema", "two planned tasks have the same name but for case"))
    if statement["subject"][0]["digest"] != opening["pack"]["digest"]:
        found.append(Finding("schema", "the subject is not the pack manifest"))
    if opening["conditions"]["comparability"]["sha256"] != comparability(opening):
        found.append(Finding("comparability", "the comparability digest is not that of the conditions"))
    if opening["time"]["issuedAt"] < opening["time"]["openedAt"]:
        found.append(Finding("time-order", "issued before the screening was opened"))
    return found


def _reward_rules(body: dict[str, Any]) -> list[Finding]:
    result, reward = body["result"], body["result"]["reward"]
    reached = reward is not None and Decimal(reward) >= Decimal(body["grader"]["passAtLeast"])
    found = []
    if result["outcome"] == "passed" and not reached:
        found.append(Finding("reward", "a pass without a reward that reaches the pack's bound"))
    if result["reason"] == "wrong_output" and (reward is None or reached):
        found.append(Finding("reward", "a wrong output with a reward that reaches the bound, or with none"))
    passed, total = result["checksPassed"], result["checksTotal"]
    if (passed is None) != (total is None) or (passed is not None and passed > total):
        found.append(Finding("result", "more checks passed than there are"))
    return found


def _usage_rules(usage: dict[str, Any]) -> list[Finding]:
    tokens = [usage[name] for name in ("inputTokens", "cachedInputTokens", "outputTokens")]
    money = [usage[name] for name in ("costNusd", "standardCostNusd", "paidToolCallsNusd")]
    requests, figures = usage["requests"], [*tokens, *money]
    if not usage["metered"]:
        if any(value is not None for value in (requests, usage["transcript"], *figures)):
            return [Finding("usage", "figures without metering: unknown is null")]
        return []
    if requests is None:
        return [Finding("usage", "metered, but the number of requests is unknown")]
    if requests and usage["transcript"] is None:
        return [Finding("usage", "requests without a transcript")]
    if None in figures:
        if requests and set(figures) == {None}:
            return []  # one call whose cost is not exactly known: then no sum is
        return [Finding("usage", "metered, but a figure is unknown")]
    if usage["cachedInputTokens"] > usage["inputTokens"]:
        return [Finding("usage", "more cached than input tokens")]
    if requests == 0 and any(figures):
        return [Finding("usage", "tokens or cost without a request")]
    if any(money) and usage["priceList"] is None:
        return [Finding("usage", "a cost without a price list")]
    return []


def _try_rules(statement: dict[str, Any]) -> list[Finding]:
    body = statement["predicate"]
    slot, result, clock, sandbox = body["try"], body["result"], body["time"], body["sandbox"]
    found = []
    if OUTCOME_OF[Reason(result["reason"])] != result["outcome"]:
        found.append(Finding("result", f"{result['reason']} is not a reason for {result['outcome']}"))
    if result["faultClass"] != FAULT_CLASS[result["outcome"]]:
        found.append(Finding("result", f"fault class {result['faultClass']} for {result['outcome']}"))
    found += _reward_rules(body)
    found += _usage_rules(body["usage"])
    if not clock["handedOffAt"] <= clock["finishedAt"] <= clock["issuedAt"]:
        found.append(Finding("time-order", "handed off, finished and issued are not in this order"))
    if slot["index"] > slot["of"]:
        found.append(Finding("schema", "the try's index is beyond the planned tries"))
    if (slot["attempt"] == 1) != (slot["replaces"] is None):
        found.append(Finding("replaces", "a second attempt names what it replaces, a first one nothing"))
    if body["agent"]["connection"] == "own-endpoint" and sandbox["level"] == "verified":
        found.append(Finding("schema", "an agent at its own endpoint cannot be verified"))
    return [*found, *_pass_rules(body)]


def _pass_rules(body: dict[str, Any]) -> list[Finding]:
    if body["result"]["outcome"] != "passed":
        return []
    found = []
    if not {"agent", "grader"} <= {image["role"] for image in body["sandbox"]["images"]}:
        found.append(Finding("schema", "a pass without the images of agent and grader"))
    if body["agent"]["connection"] == "relay" and not body["usage"]["metered"]:
        found.append(Finding("usage", "a pass of an agent that calls models without its metering"))
    return found


def _summary_rules(statement: dict[str, Any]) -> list[Finding]:
    body = statement["predicate"]
    found = []
    if statement["subject"][0]["digest"] != body["screening"]["openingDigest"]:
        found.append(Finding("schema", "the subject is not the opening"))
    if body["time"]["issuedAt"] < body["time"]["closedAt"]:
        found.append(Finding("time-order", "issued before the screening was closed"))
    for entry in body["certificates"]:
        if OUTCOME_OF[Reason(entry["reason"])] != entry["outcome"]:
            found.append(Finding("result", f"{entry['reason']} is not a reason for {entry['outcome']}"))
    return found


def _notice_rules(statement: dict[str, Any]) -> list[Finding]:
    """The subject is what the predicate says, and only a supersession names a successor."""
    body, subject = statement["predicate"], statement["subject"][0]
    name, digest = subject["name"], subject["digest"]
    screening, key = body["screening"], body["key"]
    present = (screening is not None, body["try"] is not None, key is not None)
    fits = {
        TRY_SUBJECT: (True, True, False),
        SCREENING_SUBJECT: (True, False, False),
        KEY_SUBJECT: (False, False, True),
    }
    found = []
    if present != fits[name]:
        found.append(Finding("schema", f"a notice about {name} names something else in its predicate"))
    if (name == KEY_SUBJECT) != (body["kind"] == "key-event"):
        found.append(Finding("schema", f"a {body['kind']} cannot be about {name}"))
    if name == SCREENING_SUBJECT and screening is not None and screening["openingDigest"] != digest:
        found.append(Finding("schema", "the subject is not the opening of the screening"))
    if key is not None and not digest["sha256"].startswith(key["keyid"]):
        found.append(Finding("schema", "the subject is not the key that is named"))
    if body["replacedBy"] is not None and (body["kind"] != "supersession" or body["replacedBy"] == digest):
        found.append(Finding("schema", "only a supersession names another statement in its place"))
    return found


_RULES: Final[dict[str, Callable[[dict[str, Any]], list[Finding]]]] = {
    OPENING: _opening_rules,
    TRY: _try_rules,
    SUMMARY: _summary_rules,
    NOTICE: _notice_rules,
}


def contradictions(statement: dict[str, Any], kind: str) -> list[Finding]:
    """Every contradiction inside a statement that already passed `shape`."""
    return _RULES[kind](statement)
