"""The reader of case files and the judge of what was seen: each must be able to say no."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from scoring.vocabulary import OUTCOME_OF, Outcome, Reason

Part = Callable[[str], ModuleType]
ASSETS = Path(__file__).parents[2] / "assets" / "hostile"
BAD = sorted((ASSETS / "bad").glob("*.json"))
PROBLEMS = {
    "case-unknown-key": "unknown key timeout_s",
    "case-unknown-outcome": "unknown outcome partly",
    "case-unknown-expected": "unknown expected 'passed'",
    "case-flag-as-outcome": "unknown expected 'policy_flag'",
    "case-unknown-invariant": "unknown invariant L10",
    "case-unknown-need": "unknown need 'profile=root'",
    "case-unknown-helper": "unknown need 'helper spend()'",
    "case-helper-without-relay": "a helper needs the relay",
    "case-unknown-language": "unknown lang 'perl'",
    "case-unknown-group": "unknown group 'other'",
    "case-without-code": "code is empty",
    "case-code-is-text": "code is no list of words",
    "case-without-invariants": "without must_hold",
}


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_what_is_not_understood_is_never_passed_over(path: Path, hostile_part: Part) -> None:
    """A bad file is refused; a bad case is kept, with a problem, and fails when it is judged."""
    case_format = hostile_part("case_format")
    if path.stem.startswith("file-"):
        with pytest.raises(case_format.CaseFileError):
            case_format.read_cases(path)
        return
    (case,) = case_format.read_cases(path)
    assert case.problem == PROBLEMS[path.stem]
    seen = hostile_part("case_house").Seen(case)
    assert hostile_part("case_rules").broken(seen) == [f"not understood: {case.problem}"]


def test_every_bad_case_is_named() -> None:
    """No file of the folder is left out of the table above."""
    assert {path.stem for path in BAD if path.stem.startswith("case-")} == set(PROBLEMS)


def test_every_reason_of_the_agents_has_a_word(hostile_part: Part) -> None:
    """A failure that no word of the format covers could never be expected; two are not in the format."""
    words = hostile_part("case_format").WORDS
    covered = frozenset[Reason]().union(*words.values())
    assert {reason for reason in Reason if OUTCOME_OF[reason] is Outcome.FAILED} - covered == {
        Reason.STEP_CAP,
    }
    assert all(OUTCOME_OF[reason] is Outcome.FAILED for reason in covered)


def test_needs_are_read_whole(hostile_part: Part) -> None:
    """Every need that the shared file uses, alone and together."""
    case_format = hostile_part("case_format")
    text = json.loads((ASSETS / "agents.json").read_text("utf-8"))
    needs = {
        "relay; helper open_stream() supplied by the suite": (True, ("open_stream",), "strict"),
        "relay; helper call(); profile=writable": (True, ("call",), "writable"),
        "relay": (True, (), "strict"),
    }
    for said, (relay, helpers, profile) in needs.items():
        found = case_format._needs(said)
        assert (found.relay, found.helpers, found.profile) == (relay, helpers, profile)
    assert case_format._needs("runtime=runsc").runtime == "runsc"
    assert case_format._needs("pack with LLM judge").judge
    assert case_format._needs("profile=writable; crowd").crowd
    assert len(case_format.read_cases(ASSETS / "agents.json")) == len(text["agents"])


def test_a_solution_is_told_from_an_agent(hostile_part: Part) -> None:
    """Python of the grading group that names no place of the sandbox is what is graded, not what is run."""
    case_format, house = hostile_part("case_format"), hostile_part("case_house")
    cases = {case.id: case for case in case_format.read_cases(ASSETS / "agents.json")}
    assert {name for name, case in cases.items() if case.is_solution} == {
        "own-kill-the-judge",
        "own-answer-for-all",
    }
    assert house.text_of(cases["own-kill-the-judge"]).startswith("cat > /workspace/solution.py <<")
    assert house.text_of(cases["own-token-guess"]).index("def call") < house.text_of(
        cases["own-token-guess"]
    ).index("f'{n:064x}'")


REPORT = {
    "counters": {"writtenBytes": 100},
    "limits": {"diskBytes": 32 << 20},
    "created": {"image": "x"},
    "events": ["kill", "die"],
    "finalState": {"Status": "exited"},
    "preflight": {"interfaces": ["lo"]},
}


def held(parts: Part, **changes: Any) -> Any:
    """Something seen in which everything holds, with `changes`."""
    (case,) = (
        one for one in parts("case_format").read_cases(ASSETS / "agents.json") if one.id == "own-folder"
    )
    yes = parts("case_rules").Verdict.YES
    decision = SimpleNamespace(outcome=Outcome.FAILED, reason=Reason.WRONG_OUTPUT, rule="verdict-fail")
    report = SimpleNamespace(decision=decision, reward="0", spent_nusd=None)
    passed = SimpleNamespace(outcome=Outcome.PASSED, reason=Reason.ALL_CHECKS_PASSED)
    files = dict.fromkeys((*parts("case_rules").PARTS, "workspace/carried.tar"), b"")
    result = {"outcome": "failed", "reward": "0", "faultClass": "agent"}
    seen = parts("case_house").Seen(
        case,
        order=SimpleNamespace(relay=None),
        report=report,
        sibling=SimpleNamespace(decision=passed),
        files={**files, "sandbox-report.json": json.dumps(REPORT).encode()},
        view=SimpleNamespace(attempts=(1,), row={"state": "recorded"}),
        certificate={"result": result, "usage": {"requests": 0}},
        verified=SimpleNamespace(authentic=yes, complete=yes, findings=()),
        listening=["SOCK_STREAM x", "SOCK_DGRAM x", "neighbour x"],
    )
    return replace(seen, **changes)


def with_report(**changes: Any) -> dict[str, bytes]:
    """The files of a try whose sandbox report says something else."""
    names = ("agent/command.json", "agent/stderr.txt", "agent/stdout.txt", "observations.json")
    files = dict.fromkeys((*names, "workspace/carried.tar"), b"")
    return {**files, "sandbox-report.json": json.dumps({**REPORT, **changes}).encode()}


def ended(outcome: Outcome, reason: Reason, reward: str | None) -> Any:
    """A report with this end."""
    decision = SimpleNamespace(outcome=outcome, reason=reason, rule="some-rule")
    return SimpleNamespace(decision=decision, reward=reward, spent_nusd=None, observations={})


def test_nothing_is_wrong_where_everything_holds(hostile_part: Part) -> None:
    """Without this the next test would prove nothing."""
    assert hostile_part("case_rules").broken(held(hostile_part)) == []


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("end", {"report": ended(Outcome.PASSED, Reason.ALL_CHECKS_PASSED, "1")}),
        ("end", {"report": ended(Outcome.PLATFORM_FAULT, Reason.ENGINE_ERROR, None)}),
        ("end", {"report": ended(Outcome.FAILED, Reason.TIMEOUT, None)}),
        ("end", {"report": ended(Outcome.FAILED, Reason.STEP_CAP, None)}),
        ("end", {"report": None}),
        ("L1", {"left": ["volume x"]}),
        ("L2", {"host": ["a file of the host has changed"]}),
        ("L2", {"files": with_report(counters={"writtenBytes": 200 << 20})}),
        ("L2", {"files": with_report(counters={})}),
        ("L3", {"sibling": None}),
        ("L3", {"sibling": ended(Outcome.FAILED, Reason.TIMEOUT, None)}),
        ("L4", {"certificate": None}),
        ("L4", {"verified": None}),
        ("L4", {"files": with_report(events=[])}),
        ("L4", {"files": with_report(created={})}),
        ("L4", {"files": {"sandbox-report.json": json.dumps(REPORT).encode()}}),
        ("L5", {"report": ended(Outcome.FAILED, Reason.WRONG_OUTPUT, "1")}),
        ("L5", {"certificate": {"result": {"outcome": "passed", "reward": "1"}}}),
        ("L6", {"files": {**with_report(), "agent/stdout.txt": b"see canary-5b1f0c88"}}),
        ("L6", {"files": {**with_report(), "workspace/carried.tar": b"gold-9d1e77c2"}}),
        ("L6", {"files": {**with_report(), "grader/stdout.txt": b"sk-siege-77d1f0c2a9"}}),
        ("L7", {"view": None}),
        ("L7", {"view": SimpleNamespace(attempts=(1, 2), row={"state": "recorded"})}),
        ("L7", {"view": SimpleNamespace(attempts=(1,), row={"state": "queued"})}),
        ("L8", {"taken": [SimpleNamespace(body=b"{}", header=lambda name: [])]}),
        ("L9", {"strangers": ["('10.0.0.1', 9)"]}),
        ("L9", {"listening": []}),
        ("L9", {"listening": ["SOCK_STREAM ('127.0.0.1', 9)", "SOCK_DGRAM ('172.17.0.1', 53)"]}),
        ("L9", {"files": with_report(preflight={"interfaces": ["eth0", "lo"]})}),
        ("L9", {"files": with_report(preflight=None)}),
    ],
)
def test_every_rule_can_say_no(rule: str, changes: dict[str, Any], hostile_part: Part) -> None:
    """A rule that could not would hold of everything."""
    found = hostile_part("case_rules").broken(held(hostile_part, **changes))
    assert rule in {line.split(":")[0] for line in found}, found


@pytest.mark.parametrize(
    ("runtime", "crowd", "past_mib", "holds"),
    [
        ("runc", False, 64, True),
        ("runc", True, 64, True),
        ("runc", True, 65, False),
        ("runsc", False, 65, False),
        ("runsc", True, 256, True),
        ("runsc", True, 257, False),
    ],
)
def test_a_crowd_has_more_room_only_under_a_kernel_of_its_own(
    hostile_part: Part, runtime: str, crowd: bool, past_mib: int, holds: bool
) -> None:
    """L2 as docs/hardening.md states it: 64 MiB of slack for all else."""
    seen = held_with(hostile_part, crowd, counters={"writtenBytes": (32 + past_mib) << 20}, runtime=runtime)
    assert (hostile_part("case_rules").broken(seen) == []) is holds


def held_with(parts: Part, crowd: bool, **changes: Any) -> Any:
    """Something in which everything holds, but the report says something else; of a crowd or not."""
    seen = held(parts, files=with_report(**changes))
    return replace(seen, case=replace(seen.case, needs=replace(seen.case.needs, crowd=crowd)))
