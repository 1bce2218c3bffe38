"""The one classifier: total over everything a verified try can be, in the precedence of S3-12 .. S3-22."""

from __future__ import annotations

from itertools import product

import pytest
from scoring_builders import Spec, attest, plan_of

from scoring.classify import (
    COULD_NOT_BE_COUNTED,
    COUNTED,
    FINISHED,
    PASSES,
    TryClass,
    View,
    classify,
    kind_of,
    reads_as_simulated,
)
from scoring.tries import CertificateState, SandboxLevel, VerifiedTry
from scoring.vocabulary import Reason

PLAN = plan_of({"t1": 3})
V, M, I = CertificateState.VALID, CertificateState.MISSING, CertificateState.INVALID  # noqa: E741

UNFINISHED_REASONS = {"timeout", "deadline_overrun", "cost_cap", "step_cap", "network_violation"}
FAILURE_REASONS = {
    "wrong_output",
    "out_of_memory",
    "disk_limit",
    "pid_limit",
    "output_limit",
    "crash",
    "tool_error",
    "tampering",
}
PLATFORM_REASONS = {
    "image_missing",
    "image_mismatch",
    "sandbox_start",
    "sandbox_lost",
    "engine_error",
    "relay_fault",
    "provider_outage",
    "grader_fault",
    "simulator_fault",
    "judge_fault",
    "evidence_unwritable",
    "worker_lost",
    "unverifiable",
    "never_recorded",
}
NOT_EVALUABLE_REASONS = {"agent_not_installable", "agent_not_startable"}


def make(spec: Spec) -> VerifiedTry:
    return attest(PLAN, ("t1", 1), spec)


def test_every_reason_is_in_exactly_one_group() -> None:
    """A reason that is added to the vocabulary must be placed here by hand."""
    groups = [
        UNFINISHED_REASONS,
        FAILURE_REASONS,
        PLATFORM_REASONS,
        NOT_EVALUABLE_REASONS,
        {"no_verdict"},
        {"all_checks_passed"},
    ]
    assert sum(map(len, groups)) == len(Reason)
    assert set().union(*groups) == {reason.value for reason in Reason}


@pytest.mark.parametrize("reason", Reason)
def test_class_of_every_reason_when_verified_and_public(reason: Reason) -> None:
    """S3-13 .. S3-19 by reason, everything else being in order."""
    expected = (
        TryClass.UNFINISHED
        if reason.value in UNFINISHED_REASONS
        else TryClass.FINISHED_FAILURE
        if reason.value in FAILURE_REASONS
        else TryClass.PLATFORM_FAULT
        if reason.value in PLATFORM_REASONS
        else TryClass.NOT_EVALUABLE
        if reason.value in NOT_EVALUABLE_REASONS
        else TryClass.NO_VERDICT
        if reason.value == "no_verdict"
        else TryClass.PASS
    )
    assert classify(make(Spec(reason)), View.PUBLIC) is expected


@pytest.mark.parametrize(
    ("public", "view", "certificate", "expected"),
    [
        (True, View.PUBLIC, V, TryClass.PASS),  # S3-19
        (True, View.PUBLIC, M, TryClass.LEFT_OUT_CERTIFICATE),  # S3-20
        (True, View.PUBLIC, I, TryClass.LEFT_OUT_CERTIFICATE),  # S3-20
        (True, View.OWNER, V, TryClass.PASS),
        (True, View.OWNER, M, TryClass.LEFT_OUT_CERTIFICATE),
        (True, View.OWNER, I, TryClass.LEFT_OUT_CERTIFICATE),
        (False, View.OWNER, V, TryClass.PASS),
        (False, View.OWNER, M, TryClass.PASS_WITHOUT_CERTIFICATE),  # S3-11
        (False, View.OWNER, I, TryClass.LEFT_OUT_CERTIFICATE),  # S3-21
        (False, View.PUBLIC, V, TryClass.HIDDEN),  # S3-12
        (False, View.PUBLIC, M, TryClass.HIDDEN),
        (False, View.PUBLIC, I, TryClass.HIDDEN),
    ],
)
def test_what_a_certificate_makes_of_a_verified_pass(
    public: bool, view: View, certificate: CertificateState, expected: TryClass
) -> None:
    """S3-12, S3-19 .. S3-21: all twelve combinations."""
    assert classify(make(Spec(certificate=certificate, public=public)), view) is expected


EVERYTHING = [
    (Spec(reason, level, certificate, public), view)
    for reason, level, certificate, public, view in product(
        Reason, SandboxLevel, CertificateState, (True, False), View
    )
]


def test_total_and_the_precedence_holds_over_every_combination() -> None:
    """Over all reasons, levels, certificates, publicities and views each rule wins over those after it."""
    for spec, view in EVERYTHING:
        got = classify(make(spec), view)
        reason, verified = spec.reason.value, spec.level is SandboxLevel.VERIFIED
        if view is View.PUBLIC and not spec.public:
            assert got is TryClass.HIDDEN
        elif reason in UNFINISHED_REASONS:
            assert got is TryClass.UNFINISHED
        elif reason in PLATFORM_REASONS:
            assert got is TryClass.PLATFORM_FAULT
        elif reason in NOT_EVALUABLE_REASONS:
            assert got is TryClass.NOT_EVALUABLE
        elif not verified:
            assert got is TryClass.NOT_VERIFIED
        elif reason == "no_verdict":
            assert got is TryClass.NO_VERDICT
        elif reason != "all_checks_passed":
            assert got is TryClass.FINISHED_FAILURE
        else:
            assert got in PASSES | {TryClass.LEFT_OUT_CERTIFICATE}


def test_only_a_verified_pass_is_ever_a_pass() -> None:
    """S3-22 and "sandbox-verified, for a pass": no simulated, unverified, failed or faulty try passes."""
    passing = [spec for spec, view in EVERYTHING if classify(make(spec), view) in PASSES]
    assert passing
    for spec in passing:
        assert spec.reason is Reason.ALL_CHECKS_PASSED
        assert spec.level is SandboxLevel.VERIFIED
        assert spec.certificate is V or (spec.certificate is M and not spec.public)


def test_a_failure_needs_no_certificate_and_no_level() -> None:
    """S3-13, S3-17: the certificate never decides over a failure; the level not over an unfinished try."""
    for reason in Reason:
        if reason is Reason.ALL_CHECKS_PASSED:
            continue
        by_certificate = {classify(make(Spec(reason, certificate=c)), View.PUBLIC) for c in CertificateState}
        assert len(by_certificate) == 1
        if reason.value in UNFINISHED_REASONS:
            by_level = {classify(make(Spec(reason, level=level)), View.PUBLIC) for level in SandboxLevel}
            assert by_level == by_certificate


def test_the_sets_of_classes_partition_what_can_be_seen() -> None:
    """Counted, could not be counted and left out do not overlap and leave only the hidden class."""
    parts = [COUNTED, COULD_NOT_BE_COUNTED, {TryClass.LEFT_OUT_CERTIFICATE}, {TryClass.HIDDEN}]
    assert sum(map(len, parts)) == len(TryClass)
    assert set().union(*parts) == set(TryClass)
    assert PASSES < FINISHED < COUNTED
    assert FINISHED | {TryClass.UNFINISHED} == COUNTED


@pytest.mark.parametrize(
    ("spec", "kind", "simulated"),
    [
        (Spec(Reason.COST_CAP), "cost_cap", False),
        (Spec(Reason.TIMEOUT, level=SandboxLevel.SIMULATED), "timeout", True),
        (Spec(Reason.IMAGE_MISSING, level=SandboxLevel.UNVERIFIED), "image_missing", False),
        (Spec(Reason.AGENT_NOT_STARTABLE), "agent_not_startable", False),
        (Spec(level=SandboxLevel.UNVERIFIED), "unverified", True),
        (Spec(level=SandboxLevel.SIMULATED), "simulated", True),
        (Spec(Reason.WRONG_OUTPUT, level=SandboxLevel.SIMULATED), "simulated", True),
        (Spec(Reason.WRONG_OUTPUT), "wrong_output", False),
    ],
)
def test_kind_and_simulated_mark(spec: Spec, kind: str, simulated: bool) -> None:
    """UI-11: counts are split by reason, or by level where the level decided; lost tries read as nothing."""
    try_ = make(spec)
    class_ = classify(try_, View.PUBLIC)
    assert kind_of(try_, class_) == kind
    assert reads_as_simulated(try_, class_) is simulated
