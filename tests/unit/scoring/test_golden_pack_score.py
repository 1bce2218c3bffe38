"""The golden vectors of the Pack Score card, pass^k and the intervals (groups s3-*, s0-passk, st-*)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from scoring_builders import Screening, Spec, golden, plan_of, same

from scoring import rubric
from scoring.classify import View
from scoring.intervals import clustered_mean, clustered_t, effective_wilson, jeffreys, wilson_counts
from scoring.noise import minimum_detectable_difference
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


@pytest.mark.parametrize("vector", golden("s3-card"))
def test_card_vectors(vector: dict[str, Any]) -> None:
    """S3-1 .. S3-40 and the floor: every expected value of the vector, nothing skipped."""
    card = screening_of(vector["input"]).card(View(vector["input"]["view"]))
    have = seen(card)
    assert set(vector["expected"]) <= set(have)
    wrong = {k: (have[k], v) for k, v in vector["expected"].items() if not same(have[k], v)}
    assert not wrong


@pytest.mark.parametrize("vector", golden("s0-passk"))
def test_pass_k_vectors(vector: dict[str, Any]) -> None:
    """S0-27, S0-28: C(c,k)/C(n,k), the estimator that pass^3 shares."""
    given = vector["input"]
    for name, expected in vector["expected"].items():
        assert same(pass_hat_k(given["c"], given["n"], int(name.removeprefix("pass^"))), expected)


@pytest.mark.parametrize("vector", golden("s3-rubric"))
def test_rubric_vectors(vector: dict[str, Any]) -> None:
    """S3-43: mean coverage of at least 3/4, partly = 1/2."""
    claims = [rubric.Claim(word) for word in vector["input"]["claims"]]
    assert same(rubric.coverage(claims), vector["expected"]["coverage"])
    assert rubric.passes(claims) is vector["expected"]["pass"]


@pytest.mark.parametrize("vector", golden("st-binomial-interval"))
def test_binomial_interval_vectors(vector: dict[str, Any]) -> None:
    """ST-1: plain Wilson and Jeffreys."""
    given, want = vector["input"], vector["expected"]
    level = exact(str(given["level"]))
    for name, method in (("wilson", wilson_counts), ("jeffreys", jeffreys)):
        got = method(given["successes"], given["n"], level)
        assert [got.low, got.high] == pytest.approx(want[name], abs=want["tol"])


@pytest.mark.parametrize("vector", golden("st-cluster-t"))
def test_clustered_t_vectors(vector: dict[str, Any]) -> None:
    """ST-2: mean, standard error and t interval over tasks."""
    means = [exact(text) for text in vector["input"]["task_means"]]
    want, got, interval = vector["expected"], clustered_mean(means), clustered_t(means)
    assert float(got.mean) == pytest.approx(want["mean"], abs=want["tol"])
    assert got.standard_error == pytest.approx(want["se"], abs=want["tol"])
    assert got.degrees == want["df"]
    assert [interval.low, interval.high] == pytest.approx(want["ci"], abs=want["tol"])


@pytest.mark.parametrize("vector", golden("st-wilson-effective-n"))
def test_card_interval_vectors(vector: dict[str, Any]) -> None:
    """ST-3: the interval of the card."""
    means = [exact(text) for text in vector["input"]["task_means"]]
    want, got = vector["expected"], effective_wilson(means, len(means) * vector["input"]["tries"])
    assert float(got.mean) == pytest.approx(want["mean"], abs=want["tol"])
    assert float(got.n_effective) == pytest.approx(want["n_effective"], abs=want["tol"])
    assert got.n_adjusted == pytest.approx(want["n_t_adjusted"], abs=want["tol"])
    assert [got.interval.low, got.interval.high] == pytest.approx(want["ci"], abs=want["tol"])


@pytest.mark.parametrize("vector", golden("st-mdd"))
def test_detectable_difference_vectors(vector: dict[str, Any]) -> None:
    """ST-5: the minimum detectable difference."""
    given, want = vector["input"], vector["expected"]
    each = exact(given["sigma2_each"])
    got = minimum_detectable_difference(
        given["tasks"],
        Fraction(given["tries"]),
        omega2=exact(given["omega2"]),
        sigma2_a=each,
        sigma2_b=each,
        alpha=exact(str(given["alpha"])),
        power=exact(str(given["power"])),
    )
    assert got == pytest.approx(want["mdd"], abs=want["tol"])
