"""Adapters of the golden groups of `pack-score/1`, and of pass^k, which it shares (s3-*, s0-passk)."""

from __future__ import annotations

from typing import Any

from scoring_builders import Screening, Spec, plan_of

from scoring import rubric
from scoring.classify import View
from scoring.numbers import exact
from scoring.pack_card import PackScoreCard
from scoring.passk import pass_hat_k
from scoring.tries import CertificateState, SandboxLevel
from scoring.vocabulary import Reason

REASON_OF_STATE = {
    "timeout": Reason.TIMEOUT,
    "cost_cap": Reason.COST_CAP,
    "network_violation": Reason.NETWORK_VIOLATION,
    "sandbox_deadline": Reason.DEADLINE_OVERRUN,
    "sandbox_start_failed": Reason.SANDBOX_START,
    "sandbox_crash": Reason.SANDBOX_LOST,
    "never_recorded": Reason.NEVER_RECORDED,
}
REASON_OF_VERDICT = {"pass": Reason.ALL_CHECKS_PASSED, "fail": Reason.WRONG_OUTPUT}


def spec_of(vector_try: dict[str, Any]) -> Spec:
    """A vector's try in our vocabulary; a finished try whose verdict is neither word has no verdict."""
    finished = vector_try["state"] == "finished"
    usd = vector_try.get("usd")
    nano = None if usd is None else exact(usd) * 10**9
    assert nano is None or nano.denominator == 1
    level = SandboxLevel.VERIFIED if vector_try.get("verified", True) else SandboxLevel.UNVERIFIED
    return Spec(
        reason=(
            REASON_OF_VERDICT.get(vector_try.get("verdict") or "", Reason.NO_VERDICT)
            if finished
            else REASON_OF_STATE[vector_try["state"]]
        ),
        level=SandboxLevel.SIMULATED if vector_try.get("simulated") else level,
        certificate=CertificateState(vector_try.get("cert", "valid")),
        public=vector_try["public"],
        cost_nusd=None if nano is None else nano.numerator,
    )


def screening_of(given: dict[str, Any]) -> Screening:
    """The vectors have no opening statement: exactly the tries that the view may see were promised in it.

    Private tries of a public view sit behind those slots and are dropped before slots are looked at.
    """
    public_only = given["view"] == "public"
    slots: dict[tuple[str, int], Spec] = {}
    planned = dict.fromkeys(given["pack_tasks"], 0)
    for task in given["pack_tasks"]:
        specs = [spec_of(item) for item in given["tries"] if item["task"] == task]
        specs.sort(key=lambda spec: not spec.public)
        slots |= {(task, index): spec for index, spec in enumerate(specs, 1)}
        planned[task] = sum(spec.public or not public_only for spec in specs)
    withheld = frozenset(given["withheld_answer_keys"])
    plan = plan_of(planned, declared_tries=given["declared_tries"], withheld_tasks=withheld)
    return Screening(plan, slots)


def seen(card: PackScoreCard) -> dict[str, object]:
    return {
        "counts": {
            "unfinished": card.counts.unfinished,
            "could_not_be_counted": card.counts.could_not_be_counted,
            "left_out_certificate": card.counts.left_out_certificate,
            "passes_without_certificate": card.counts.passes_without_certificate,
        },
        "tries_recorded": card.counts.recorded,
        "status": card.status.value,
        "pack_score": card.pack_score,
        "pass3": card.pass3,
        "usd_per_task": card.usd_per_task,
        "tasks_scored": card.tasks_scored,
        "tasks_in_pack": card.tasks_in_pack,
        "tries_min": card.tries_min,
        "tries_max": card.tries_max,
        "partial_screen": card.labels.partial_screen,
        "short_screen": card.labels.short_screen,
        "floor_score": card.floor,
    }


def card(given: dict[str, Any]) -> dict[str, object]:
    """S3-1 .. S3-40 and the floor."""
    return seen(screening_of(given).card(View(given["view"])))


def pass_k(given: dict[str, Any]) -> dict[str, object]:
    """S0-27, S0-28: C(c,k)/C(n,k) at the public levels."""
    return {f"pass^{k}": pass_hat_k(given["c"], given["n"], k) for k in (1, 3, 5)}


def judged(given: dict[str, Any]) -> dict[str, object]:
    """S3-43: mean coverage of at least 3/4, partly = 1/2."""
    claims = [rubric.Claim(word) for word in given["claims"]]
    return {"coverage": rubric.coverage(claims), "pass": rubric.passes(claims)}


ADAPTERS = {"s3-card": card, "s0-passk": pass_k, "s3-rubric": judged}
