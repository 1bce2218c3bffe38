"""Verified certificates to the scorer's input: the only place where a `VerifiedTry` is made.

Verification happens in here, on the bytes of the bundle: there is no way from an unverified certificate
to a score. What a certificate does not say is not made up: a try without any certificate gives nothing,
and the plan shows that it was promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.certificates.bundle import SCREENING_LIMIT_BYTES, ScreeningFiles, decode_screening
from orchestrator.certificates.notices import NoticeSource
from orchestrator.certificates.screening import Slot, check_screening, last_attempts, slot_of
from orchestrator.certificates.trust import TrustRoot
from orchestrator.certificates.verdict import ScreeningResult, TryResult, Verdict, part_verdict
from orchestrator.certificates.verify import DEFAULT_POLICY, Policy, read_source
from orchestrator.evidence.store import EvidenceStore
from orchestrator.verification.errors import Part, VerificationError
from scoring.facts import Conditions, ModelUse, Population, PriceSheet, Provenance, TaskTags
from scoring.numbers import exact
from scoring.tries import CertificateState, Plan, SandboxLevel, VerifiedTry
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason


@dataclass(frozen=True)
class Handover:
    """The scorer's input and the verification that it rests on.

    `result.exit_code` tells whether the screening as a whole holds; who scores one that does not must
    show it.
    """

    plan: Plan
    tries: tuple[VerifiedTry, ...]
    result: ScreeningResult


def from_bundle(
    source: bytes | Path,
    trust: TrustRoot,
    *,
    pack_is_current: bool,
    tags: Mapping[str, TaskTags] | None = None,
    population: Population | None = None,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    published: NoticeSource | None = None,
) -> Handover:
    """Verify a screening bundle and hand its tries over; see `from_files`."""
    files = decode_screening(read_source(source, SCREENING_LIMIT_BYTES))
    return from_files(
        files,
        trust,
        pack_is_current=pack_is_current,
        tags=tags,
        population=population,
        store=store,
        policy=policy,
        published=published,
    )


def from_files(
    files: ScreeningFiles,
    trust: TrustRoot,
    *,
    pack_is_current: bool,
    tags: Mapping[str, TaskTags] | None = None,
    population: Population | None = None,
    store: EvidenceStore | None = None,
    policy: Policy = DEFAULT_POLICY,
    published: NoticeSource | None = None,
) -> Handover:
    """Verify the files of a screening (also one that is still open) and hand its tries over.

    Each planned slot gives at most one try: its last sound certificate as `valid`; else a certificate of
    this slot that does not hold, or one that the signed summary lists and whose file is broken, as
    `invalid`; else nothing. What no certificate states comes from the caller or stays None: whether the
    pack is current, its manifest's `tags` by task, and the `population` that the tasks are. A pass that a
    notice withdraws (in the bundle or `published`) is `invalid`; a failure is a failure under any notice.
    Raises `VerificationError` when the opening does not hold.
    """
    result = check_screening(files, trust, store=store, policy=policy, published=published)
    opening = result.opening
    broken = [f for f in result.findings if f.where == "opening"]
    if opening is None or part_verdict(broken, Part.AUTHENTIC) is not Verdict.YES:
        first, *more = [f for f in broken if f.rule.exit_code]
        raise VerificationError(first.code, f"the opening does not hold: {first.detail}", more=tuple(more))
    plan = plan_of(opening, pack_is_current=pack_is_current, tags=tags, population=population)
    chosen: dict[Slot, VerifiedTry] = {
        slot: _withdrawn(one, plan) or _from_certificate(one)
        for slot, one in last_attempts(result.tries).items()
    }
    for one in result.tries:
        body = one.predicate
        if body is None or one.digest is None or one.sound or not _is_ours(body, result, plan):
            continue
        chosen.setdefault(slot_of(body), _from_broken(body, one.digest, plan))
    for entry in _broken_entries(result):
        slot = (entry["taskId"], entry["index"])
        if entry["index"] <= plan.planned.get(entry["taskId"], 0):
            chosen.setdefault(slot, _from_summary(entry, plan))
    order = {task: place for place, task in enumerate(plan.pack_tasks)}
    slots = sorted(chosen, key=lambda slot: (order[slot[0]], slot[1]))
    return Handover(plan, tuple(chosen[slot] for slot in slots), result)


def plan_of(
    opening: dict[str, Any],
    *,
    pack_is_current: bool,
    tags: Mapping[str, TaskTags] | None = None,
    population: Population | None = None,
) -> Plan:
    """The opening's promise in the scorer's words."""
    tasks = opening["plan"]
    return Plan(
        screening_id=opening["screening"]["id"],
        agent_id=opening["agent"]["id"],
        agent_digest=opening["agent"]["digest"]["sha256"],
        pack_id=opening["pack"]["id"],
        pack_version=opening["pack"]["version"],
        pack_digest=opening["pack"]["digest"]["sha256"],
        pack_tasks=tuple(entry["taskId"] for entry in tasks),
        planned={entry["taskId"]: entry["tries"] for entry in tasks},
        declared_tries=opening["pack"]["declaredTries"],
        judge=opening["judge"],
        pack_is_current=pack_is_current,
        withheld_tasks=frozenset(entry["taskId"] for entry in tasks if entry["answerKeyWithheld"]),
        agent_version=opening["agent"]["version"],
        models=_models(opening["agent"]),
        conditions=_conditions(opening),
        tags=None if tags is None else dict(tags),
        population=population,
    )


def _conditions(opening: dict[str, Any]) -> Conditions:
    stated, tools = opening["conditions"], opening["conditions"]["permittedTools"]
    planned = [entry for entry in opening["plan"] if entry["tries"]]
    return Conditions(
        suite_version=f"{opening['pack']['id']}@{opening['pack']['version']}",
        timeouts_ms=tuple(sorted((entry["taskId"], entry["caps"]["agentWallMs"]) for entry in planned)),
        step_limit=stated["stepLimit"],
        network_policy=stated["networkPolicy"]["digest"]["sha256"],
        permitted_tools=None if tools is None else frozenset(tools),
        hardware_class=stated["hardwareClass"],
        runtime=stated["runtime"],
        repeats=stated["repeats"],
        provenance=Provenance(opening["provenanceLabel"]),
    )


def _models(agent: dict[str, Any]) -> tuple[ModelUse, ...]:
    return tuple(ModelUse(one["role"], one["id"], one["snapshot"]) for one in agent["models"])


def _price_sheet(usage: dict[str, Any]) -> PriceSheet | None:
    sheet = usage["priceList"]
    return None if sheet is None else PriceSheet(sheet["id"], sheet["date"], sheet["digest"]["sha256"])


def _unix_s(text: str) -> int:
    """Seconds of a whole-second UTC text, whose form the verifier has checked."""
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())


def _is_ours(predicate: dict[str, Any], result: ScreeningResult, plan: Plan) -> bool:
    task, index = slot_of(predicate)
    return (
        predicate["screening"]["openingDigest"]["sha256"] == result.opening_digest
        and predicate["screening"]["id"] == plan.screening_id
        and index <= plan.planned.get(task, 0)
        and OUTCOME_OF[Reason(predicate["result"]["reason"])] == predicate["result"]["outcome"]
    )


def _broken_entries(result: ScreeningResult) -> list[dict[str, Any]]:
    """Entries of the summary whose file is there but cannot be read as a certificate.

    Files are numbered in the order of the summary, so a file that lost its content still names its entry.
    """
    if result.summary is None:
        return []
    entries = result.summary["certificates"]
    numbers = [one.number for one in result.tries if one.predicate is None]
    return [entries[number - 1] for number in numbers if 0 < number <= len(entries)]


def _from_certificate(one: TryResult) -> VerifiedTry:
    """From a certificate that holds: everything that it states."""
    body = one.predicate or {}
    task, index = slot_of(body)
    usage, result, time = body["usage"], body["result"], body["time"]
    return VerifiedTry.attest(
        screening_id=body["screening"]["id"],
        agent_id=body["agent"]["id"],
        agent_digest=body["agent"]["digest"]["sha256"],
        pack_digest=body["pack"]["digest"]["sha256"],
        task_id=task,
        index=index,
        attempt=body["try"]["attempt"],
        outcome=Outcome(result["outcome"]),
        reason=Reason(result["reason"]),
        certificate=CertificateState.VALID,
        certificate_digest=one.digest,
        level=SandboxLevel(body["sandbox"]["level"]),
        public=body["visibility"] == "public",
        cost_nusd=usage["costNusd"],
        standard_cost_nusd=usage["standardCostNusd"],
        wall_ms=time["wallMs"],
        provenance=Provenance(body["provenanceLabel"]),
        pack_version=body["pack"]["version"],
        agent_version=body["agent"]["version"],
        models=_models(body["agent"]),
        runner_version=body["sandbox"]["runner"]["version"],
        handed_off_unix_s=_unix_s(time["handedOffAt"]),
        finished_unix_s=_unix_s(time["finishedAt"]),
        metered=usage["metered"],
        requests=usage["requests"],
        input_tokens=usage["inputTokens"],
        cached_input_tokens=usage["cachedInputTokens"],
        output_tokens=usage["outputTokens"],
        paid_tool_calls_nusd=usage["paidToolCallsNusd"],
        price_sheet=_price_sheet(usage),
        reward=None if result["reward"] is None else exact(result["reward"]),
        checks_passed=result["checksPassed"],
        checks_total=result["checksTotal"],
    )


def _withdrawn(one: TryResult, plan: Plan) -> VerifiedTry | None:
    """A pass whose claim its issuer withdrew by a notice; None for anything else."""
    body = one.predicate or {}
    if not one.voided or body["result"]["outcome"] != Outcome.PASSED:
        return None
    return _from_broken(body, one.digest or "", plan)


def _from_broken(body: dict[str, Any], digest: str, plan: Plan) -> VerifiedTry:
    """From a certificate of this slot that does not hold."""
    task, index = slot_of(body)
    return _invalid(
        plan,
        task_id=task,
        index=index,
        attempt=body["try"]["attempt"],
        outcome=body["result"]["outcome"],
        reason=body["result"]["reason"],
        digest=digest,
        level=body["sandbox"]["level"],
        public=body["visibility"] == "public",
        wall_ms=body["time"]["wallMs"],
    )


def _from_summary(entry: dict[str, Any], plan: Plan) -> VerifiedTry:
    """From what the signed summary says of a certificate whose file is broken."""
    return _invalid(
        plan,
        task_id=entry["taskId"],
        index=entry["index"],
        attempt=entry["attempt"],
        outcome=entry["outcome"],
        reason=entry["reason"],
        digest=entry["digest"]["sha256"],
        level=entry["level"],
        public=True,
        wall_ms=entry["wallMs"],
    )


def _invalid(
    plan: Plan,
    *,
    task_id: str,
    index: int,
    attempt: int,
    outcome: str,
    reason: str,
    digest: str,
    level: str,
    public: bool,
    wall_ms: int,
) -> VerifiedTry:
    """A try whose certificate does not hold: who and what are the opening's, and no figure is taken."""
    return VerifiedTry.attest(
        screening_id=plan.screening_id,
        agent_id=plan.agent_id,
        agent_digest=plan.agent_digest,
        pack_digest=plan.pack_digest,
        task_id=task_id,
        index=index,
        attempt=attempt,
        outcome=Outcome(outcome),
        reason=Reason(reason),
        certificate=CertificateState.INVALID,
        certificate_digest=digest,
        level=SandboxLevel(level),
        public=public,
        cost_nusd=None,
        wall_ms=wall_ms,
        provenance=plan.provenance,
        pack_version=plan.pack_version,
        agent_version=plan.agent_version,
        models=plan.models,
    )
