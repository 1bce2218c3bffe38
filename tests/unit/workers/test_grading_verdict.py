"""Verdict files: only a finite number within the pack's range ever passes, and nothing ever raises."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.certificates.shapes import DECIMAL
from orchestrator.observations import VerdictProblem
from workers.grading.verdict import MAX_REWARD_BYTES, PassRule, Verdict, read_verdict

RULE = PassRule("reward", Decimal(1))
P = VerdictProblem


def of_text(data: bytes | str, rule: PassRule = RULE) -> Verdict:
    raw = data.encode() if isinstance(data, str) else data
    return read_verdict({"reward.txt": raw}, False, rule)


def of_json(data: bytes | str, rule: PassRule = RULE) -> Verdict:
    raw = data.encode() if isinstance(data, str) else data
    return read_verdict({"reward.json": raw}, False, rule)


@pytest.mark.parametrize(
    ("written", "reward", "passes"),
    [
        ("1", "1", True),
        ("1\n", "1", True),
        ("  0  ", "0", False),
        ("0.5", "0.5", False),
        ("1.0", "1.0", True),
        ("1.", "1", True),
        (".5", "0.5", False),
        ("+1", "1", True),
        ("1e0", "1", True),
        ("100e-2", "1.00", True),
        ("1E-3", "0.001", False),
        ("-0", "0", False),
        ("-0.0", "0", False),
        ("0e5", "0", False),
        ("001", "1", True),
        ("0.30000000000000004", "0.30000000000000004", False),
        ("0.9999999999999999999", "0.999999999999999999", False),
        ("0.00000000000000000001", "0.000000000000000000", False),
        ("1.0000000000000000000", "1.000000000000000000", True),
    ],
)
def test_numbers(written: str, reward: str, passes: bool) -> None:
    """The text in the record reaches the bound exactly when the number does, and fits the certificate."""
    verdicts = [of_text(written)]
    if written in JSON_OK:
        verdicts.append(of_json(f'{{"reward": {written}}}'))
    for verdict in verdicts:
        assert (verdict.reward, verdict.passes, verdict.problem) == (reward, passes, None)
        assert re.fullmatch(DECIMAL, reward)


JSON_OK = {"1", "0.5", "1.0", "1e0", "100e-2", "1E-3", "-0", "-0.0", "0e5", "0.9999999999999999999"}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", P.EMPTY),
        (" \n\t", P.EMPTY),
        ("NaN", P.UNPARSABLE),
        ("nan", P.UNPARSABLE),
        ("sNaN", P.UNPARSABLE),
        ("inf", P.UNPARSABLE),
        ("-Infinity", P.UNPARSABLE),
        ("1e999", P.UNPARSABLE),
        ("1e-999", P.UNPARSABLE),
        ("1e99999999999999999999", P.UNPARSABLE),
        ("9" * 5_000, P.UNPARSABLE),
        ("1" + "0" * 41, P.UNPARSABLE),
        ("1 1", P.UNPARSABLE),
        ("1\n0", P.UNPARSABLE),
        ("1_0", P.UNPARSABLE),
        ("0_1", P.UNPARSABLE),
        ("\u0661", P.UNPARSABLE),
        ("\uff11", P.UNPARSABLE),
        ("\ufeff1", P.UNPARSABLE),
        ("0x1", P.UNPARSABLE),
        ("1,0", P.UNPARSABLE),
        ("true", P.UNPARSABLE),
        ("passed", P.UNPARSABLE),
        ("{}", P.UNPARSABLE),
        ("--1", P.UNPARSABLE),
        (".", P.UNPARSABLE),
        ("1e", P.UNPARSABLE),
        ("1\0", P.UNPARSABLE),
        ("2", P.OUT_OF_RANGE),
        ("1.0000000000000000001", P.OUT_OF_RANGE),
        ("-1", P.OUT_OF_RANGE),
        ("-0.000000000000000000001", P.OUT_OF_RANGE),
        ("1e30", P.OUT_OF_RANGE),
    ],
)
def test_text_that_is_no_verdict(written: str, problem: VerdictProblem) -> None:
    """Each has a name; none is a pass, and none a fail."""
    assert of_text(written) == Verdict(None, None, problem)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"", P.EMPTY),
        (b" ", P.EMPTY),
        (b"1", P.UNPARSABLE),
        (b"[1]", P.UNPARSABLE),
        (b"null", P.UNPARSABLE),
        (b"true", P.UNPARSABLE),
        (b"{}", P.UNPARSABLE),
        (b'{"reward": "1"}', P.UNPARSABLE),
        (b'{"reward": true}', P.UNPARSABLE),
        (b'{"reward": null}', P.UNPARSABLE),
        (b'{"reward": [1]}', P.UNPARSABLE),
        (b'{"reward": {"value": 1}}', P.UNPARSABLE),
        (b'{"reward": 1, "note": "fine"}', P.UNPARSABLE),
        (b'{"reward": 1, "more": {"a": 1}}', P.UNPARSABLE),
        (b'{"reward": 1, "ok": true}', P.UNPARSABLE),
        (b'{"reward": 0, "reward": 1}', P.UNPARSABLE),
        (b'{"reward": 1, "reward": 1}', P.UNPARSABLE),
        (b'{"reward": 1, "a": 0, "a": 1}', P.UNPARSABLE),
        (b'{"reward": {"a": 1, "a": 2}}', P.UNPARSABLE),
        (b'{"a": 1, "b": 1}', P.UNPARSABLE),
        (b'{"reward": NaN}', P.UNPARSABLE),
        (b'{"reward": Infinity}', P.UNPARSABLE),
        (b'{"reward": -Infinity}', P.UNPARSABLE),
        (b'{"reward": 1e999}', P.UNPARSABLE),
        (b'{"reward": 1e999999999999999999999}', P.UNPARSABLE),
        (b'{"reward": 1, "other": 1e999}', P.UNPARSABLE),
        (b'{"reward": ' + b"9" * 5_000 + b"}", P.UNPARSABLE),
        (b'{"reward": 01}', P.UNPARSABLE),
        (b'{"reward": +1}', P.UNPARSABLE),
        (b'{"reward": 1}}', P.UNPARSABLE),
        (b'{"reward": 1} {"reward": 0}', P.UNPARSABLE),
        (b"{'reward': 1}", P.UNPARSABLE),
        (b'{"reward": 1', P.UNPARSABLE),
        (b'\xef\xbb\xbf{"reward": 1}', P.UNPARSABLE),
        (b'{"reward": 1, "\xff": 1}', P.UNPARSABLE),
        ('{"reward": 1}'.encode("utf-16"), P.UNPARSABLE),
        (b"[" * 60_000, P.UNPARSABLE),
        (b'{"a":' * 12_000, P.UNPARSABLE),
        (b'{"reward": 1}' + b" " * MAX_REWARD_BYTES, P.UNPARSABLE),
        (b'{"reward": 1.5}', P.OUT_OF_RANGE),
        (b'{"reward": -1}', P.OUT_OF_RANGE),
    ],
)
def test_json_that_is_no_verdict(written: bytes, problem: VerdictProblem) -> None:
    """Strings, booleans, nested and repeated members, other encodings, depth, size."""
    assert of_json(written) == Verdict(None, None, problem)


@pytest.mark.parametrize(
    ("written", "passes"),
    [
        ('{"reward": 1, "accuracy": 0.2}', True),
        ('{"accuracy": 1}', True),
        ('{"accuracy": 0}', False),
        ('{"Reward": 1}', True),
        ('{"reward": 0, "Reward": 1}', False),
        ('{"\\u0072eward": 1, "other": 0}', True),
    ],
)
def test_which_member_counts(written: str, passes: bool) -> None:
    """The pack's key; a single number under any name stands for it."""
    assert of_json(written).passes is passes


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, P.MISSING),
        ({"reward.TXT": b"1"}, P.MISSING),
        ({"sub/reward.txt": b"1"}, P.MISSING),
        ({"reward.txt": b"1", "reward.json": b'{"reward": 0}'}, P.CONTRADICTORY),
        ({"reward.txt": b"0", "reward.json": b'{"reward": 1}'}, P.CONTRADICTORY),
        ({"reward.txt": b"x", "reward.json": b'{"reward": 1}'}, P.UNPARSABLE),
        ({"reward.txt": b"", "reward.json": b'{"reward": 1}'}, P.EMPTY),
        ({"reward.txt": b"1", "reward.json": b""}, P.EMPTY),
        ({"reward.txt": b"1", "reward.json": b'{"reward": 1.0}'}, None),
    ],
)
def test_two_files(files: dict[str, bytes], problem: VerdictProblem | None) -> None:
    """Both must say the same; one that says nothing spoils the other."""
    verdict = read_verdict(files, False, RULE)
    assert verdict.problem is problem and (verdict.passes is True) is (problem is None)


def test_a_foreign_file_is_no_verdict() -> None:
    """A link or pipe in the place of a reward was not written by the tests."""
    assert read_verdict({"reward.txt": b"1"}, True, RULE).problem is P.FOREIGN_FILE


@pytest.mark.parametrize(
    ("written", "reward", "passes"),
    [
        ("123456789012345.1234567890123456789", "123456789012345.123456789012345678", True),
        ("999999999999999999", "999999999999999999", True),
        ("49.9999999999999999999", "49.999999999999999999", False),
        ("50", "50", True),
    ],
)
def test_packs_with_large_rewards(written: str, reward: str, passes: bool) -> None:
    """More digits than the default decimal context holds must neither raise nor be rounded up."""
    rule = PassRule("reward", Decimal(50), most=Decimal(10**18))
    verdict = of_text(written, rule)
    assert (verdict.reward, verdict.passes) == (reward, passes)
    assert re.fullmatch(DECIMAL, reward)


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        (b'{"passed": 3, "total": 5}', (3, 5)),
        (b'{"passed": 0, "total": 0}', (0, 0)),
        (b'{"passed": 6, "total": 5}', (None, None)),
        (b'{"passed": -1, "total": 5}', (None, None)),
        (b'{"passed": true, "total": 5}', (None, None)),
        (b'{"passed": 1.0, "total": 5}', (None, None)),
        (b'{"passed": "1", "total": 5}', (None, None)),
        (b'{"passed": 1, "total": 1e9}', (None, None)),
        (b'{"passed": 1, "total": 1000001}', (None, None)),
        (b'{"passed": 1, "total": ' + b"9" * 5_000 + b"}", (None, None)),
        (b'{"passed": 1}', (None, None)),
        (b"[1, 2]", (None, None)),
        (b'"passed"', (None, None)),
        (b"null", (None, None)),
        (b"[" * 60_000, (None, None)),
        (b"\xff", (None, None)),
        (b"", (None, None)),
    ],
)
def test_counts_are_evidence_only(data: bytes, counts: tuple[int | None, int | None]) -> None:
    """Whatever they say, and however broken they are, the verdict does not change."""
    for reward in (b"1", b"0"):
        verdict = read_verdict({"reward.txt": reward, "checks.json": data}, False, RULE)
        assert (verdict.checks_passed, verdict.checks_total) == counts
        assert verdict.passes is (reward == b"1")


def check(verdict: Verdict, rule: PassRule) -> None:
    assert (verdict.passes is None) is (verdict.problem is not None) is (verdict.reward is None)
    if verdict.reward is not None:
        assert re.fullmatch(DECIMAL, verdict.reward)
        assert rule.least <= Decimal(verdict.reward) <= rule.most
        assert verdict.passes is (Decimal(verdict.reward) >= rule.at_least)


rules = st.sampled_from(
    [
        RULE,
        PassRule("reward", Decimal("0.5")),
        PassRule("score", Decimal("0.999999999999999999")),
        PassRule("reward", Decimal(70), most=Decimal(100)),
        PassRule("reward", Decimal(0), least=Decimal(-5), most=Decimal(10**17)),
    ]
)
number_like = st.text(alphabet="0123456789+-.eE_ \n", max_size=60)
json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200) | number_like.map(str.encode), rules)
@example(b"1E0", RULE)
@example(b"1e00000001", RULE)
@example(b"0" * 79 + b"1", RULE)
def test_any_text(data: bytes, rule: PassRule) -> None:
    """Bytes of an agent's choice: a sound verdict or a named problem."""
    check(of_text(data, rule), rule)


@given(st.binary(max_size=200), rules)
def test_any_bytes_as_json(data: bytes, rule: PassRule) -> None:
    """Nothing but a problem comes out of noise."""
    check(of_json(data, rule), rule)


@given(json_values, rules)
def test_any_json(value: Any, rule: PassRule) -> None:
    """A pass needs a flat object of numbers."""
    verdict = of_json(json.dumps(value), rule)
    check(verdict, rule)
    if verdict.passes is not None:
        assert isinstance(value, dict)
        assert all(type(item) in (int, float) for item in value.values())


@given(number_like, rules)
def test_any_number_as_json(text: str, rule: PassRule) -> None:
    """Numbers are taken as written, never through a float."""
    check(of_json(f'{{"reward": {text}}}', rule), rule)


@given(st.decimals(min_value=0, max_value=1, allow_nan=False, places=18))
def test_what_is_in_range_is_read_exactly(value: Decimal) -> None:
    """Up to eighteen places nothing is lost."""
    verdict = of_text(format(value, "f"))
    assert verdict.reward is not None and Decimal(verdict.reward) == value
    assert verdict.passes is (value >= 1)


@given(st.dictionaries(st.sampled_from(["reward.txt", "reward.json", "checks.json"]), st.binary(max_size=80)))
def test_any_folder(files: dict[str, bytes]) -> None:
    """All files together."""
    check(read_verdict(files, False, RULE), RULE)
    check(read_verdict(files, True, RULE), RULE)
