"""Before anything runs: models with prices, caps and the most that can be spent; no key, no plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.cli import screen_plan
from orchestrator.providers import WELL_KNOWN
from orchestrator.screenings.spending import Spending

MODEL: Final = ("--agent", "shell", "--model", "openai/gpt-5-mini")
SECRET: Final = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keys the person who runs the tests has are not part of them."""
    for account in WELL_KNOWN.values():
        monkeypatch.delenv(account.key_env or "", raising=False)


@pytest.fixture
def dry_run(cli: Any, tmp_path: Path) -> Callable[..., Any]:
    """`assize screen` on a pack of two tasks in a home that does not exist, and must not afterwards."""
    for name in ("one", "two"):
        task = tmp_path / "pack" / name
        (task / "tests").mkdir(parents=True)
        (task / "environment").mkdir()
        (task / "task.toml").write_text('version = "1.0"\n')
        (task / "instruction.md").write_text("Do it.\n")
        (task / "environment" / "Dockerfile").write_text("FROM assize/base:1\n")
        (task / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")

    def run(*arguments: str) -> Any:
        home = tmp_path / "none"
        ran = cli("screen", str(tmp_path / "pack"), "--dry-run", *arguments, home=home)
        assert not home.exists()
        return ran

    return run


def test_the_plan_shows_models_prices_and_the_worst_total(
    dry_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries x try cap; an agent that calls no model adds nothing."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = dry_run(*MODEL, "--agent", "nop", "--try-cap", "0.50", "--tries", "3")
    assert ran.code == 0, ran.err
    assert "shell@1+gpt-5-mini  main  openai    gpt-5-mini  0.25   2" in ran.out
    assert "try cap   0.50 USD, 100 model calls" in ran.out
    assert "spending  at most 3.00 USD for model calls, in 6 tries of up to 0.50 USD" in ran.out
    assert SECRET not in ran.out + ran.err


def test_the_same_as_data(dry_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Money is a string of integer nano-USD."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    data = json.loads(dry_run(*MODEL, "--tries", "2", "--cost-cap", "1.5", "--json").out)
    assert data["models"] == [
        {
            "agent": "shell@1+gpt-5-mini",
            "role": "main",
            "provider": "openai",
            "model": "gpt-5-mini",
            "input_nusd_per_mtok": 250_000_000,
            "output_nusd_per_mtok": 2_000_000_000,
        }
    ]
    assert (data["try_cap_nusd"], data["most_nusd"], data["rehearsed"]) == ("1000000000", "1500000000", False)


def test_a_rehearsal_says_so_and_needs_no_key(dry_run: Callable[..., Any]) -> None:
    """Nothing is paid, whatever the model would cost."""
    ran = dry_run(*MODEL, "--rehearse", "hello")
    assert ran.code == 0, ran.err
    assert "spending  a rehearsal: nothing is paid, and nothing counts as a pass" in ran.out
    data = json.loads(dry_run(*MODEL, "--rehearse", "hello", "--json").out)
    assert (data["most_nusd"], data["rehearsed"]) == ("0", True)


def test_without_models_there_is_no_word_of_money(dry_run: Callable[..., Any]) -> None:
    """Agents that call none plan as before."""
    ran = dry_run("--agent", "nop")
    assert (ran.code, "USD" in ran.out) == (0, False)
    data = json.loads(dry_run("--agent", "nop", "--json").out)
    assert (data["models"], data["most_nusd"]) == ([], "0")


REFUSED: Final = {
    "no key": (MODEL, "provider openai has no key: the variable OPENAI_API_KEY gives none"),
    "an agent without a model": (("--agent", "shell"), "agent shell@1 needs a model"),
    "a model without a price": (("--agent", "shell", "--model", "openai/none"), "has no model 'none'"),
    "a rehearsal's model without a rehearsal": (
        ("--agent", "shell", "--model", "rehearsal-openai"),
        "the models of provider rehearsal exist in rehearsals only",
    ),
    "a cap under which nothing starts": ((*MODEL, "--cost-cap", "0"), "with --cost-cap 0 no try could start"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_is_refused_before_anything_is_planned(
    cli: Any, dry_run: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    """Exit 2 with the next step, with --dry-run and without: no home is made for it, no image built."""
    arguments, said = REFUSED[name]
    for ran in (
        dry_run(*arguments),
        cli("screen", str(tmp_path / "pack"), *arguments, home=tmp_path / "none"),
    ):
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err.splitlines()[0] and "next: " in ran.err
    assert not (tmp_path / "none").exists()


PAID: Final = Spending("a@1", (), 3, 1_000_000_000, None, rehearsed=False)


def _with_a_model(spending: Spending) -> Spending:
    """Only whether there are models matters to the sums."""
    some: Any = ((None, None),)
    return replace(spending, models=some)


def test_the_most_is_bounded_by_the_screening_too() -> None:
    """And nothing without models."""
    paying = _with_a_model(PAID)
    assert (PAID.most_nusd, paying.most_nusd) == (0, 3_000_000_000)
    assert replace(paying, cap_nusd=1).most_nusd == 1


def test_one_line_adds_up_what_is_paid() -> None:
    """Rehearsed and modelless agents are left out; with nothing else there is no line."""
    paying = _with_a_model(PAID)
    free = [PAID, replace(paying, rehearsed=True)]
    assert screen_plan.limit_line(free) is None
    assert screen_plan.limit_line([*free, paying, replace(paying, tries=1, cap_nusd=250_000_000)]) == (
        "at most 3.25 USD for model calls, in 4 tries of up to 1.00 USD; "
        "tries repeated after platform faults come on top"
    )
