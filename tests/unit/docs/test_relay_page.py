"""docs/relay.md is true: its tables and numbers are those of the code, and its checker finds tampering."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.certificates.metered import usage_of
from orchestrator.evidence.transcript import START, Kind
from orchestrator.providers import WELL_KNOWN, Account, load_accounts
from workers.relay import admission, handler, transcript
from workers.relay.config import RelayConfig
from workers.relay.transcript import Transcript
from workers.relay.watch import GRACE_MS
from workers.relay.wire.refusals import STATUS, Refusal, refusal_headers
from workers.relay.wire.usage import Completeness

PAGE: Final = (Path(__file__).parents[3] / "docs" / "relay.md").read_text()
BLOCKS: Final = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first column is called `heading`, code marks taken off single cells."""
    _, _, after = PAGE.partition(f"| {heading} |")
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_refusal_with_its_status() -> None:
    """One row each, none invented."""
    table = {names(code)[0]: int(status) for code, status, _ in rows("code")}
    assert table == {code.value: STATUS[code] for code in Refusal}
    assert len(rows("code")) == len(Refusal)


def test_which_refusals_are_worth_a_retry() -> None:
    """The sentence below the table."""
    silent = {code.value for code in Refusal if "x-should-retry" not in refusal_headers(code)}
    assert silent == {"rate_limited", "provider_unreachable"}
    assert "All but `rate_limited` and `provider_unreachable` carry `x-should-retry: false`." in PAGE


def test_states_and_kinds() -> None:
    """Closed vocabularies, whole."""
    assert [names(row[0])[0] for row in rows("state")] == [one.value for one in Completeness]
    assert {name for row in rows("kind") for name in names(row[0])} == {kind.value for kind in Kind}


def test_providers_and_their_variables() -> None:
    """The well-known ones."""
    table = {names(provider)[0]: names(variable)[0] for provider, variable in rows("provider")}
    assert table == {name: account.key_env for name, account in WELL_KNOWN.items()}


def test_the_providers_file_is_valid_and_every_key_is_explained(tmp_path: Path) -> None:
    """The example is loaded by the program itself."""
    path = tmp_path / "providers.toml"
    path.write_text(BLOCKS["toml"])
    found = load_accounts(path)
    assert (found["openai"].max_parallel, found["openai"].base_url) == (8, WELL_KNOWN["openai"].base_url)
    assert found["my-gateway"].families == ("openai-chat",)
    assert {name for row in rows("key") for name in names(row[0])} == set(Account.model_fields)


@pytest.mark.parametrize(
    "sentence",
    [
        f"{admission.OVERHEAD_TOKENS} tokens for what providers\n  add",
        f"{admission.IMAGE_TOKENS} for each image",
        f"a whole context of {admission.CONTEXT_TOKENS} if",
        f"at most {handler.COUNTS_PER_MINUTE} a minute",
        f"at most {handler.BODY_LIMIT_BYTES >> 20} MiB, not packed",
        f"above {handler.BODY_LIMIT_BYTES >> 20} MiB |",
        f"bodies beyond {transcript.PAYLOAD_LIMIT_BYTES >> 20}\nMiB of a try",
        f"so {GRACE_MS // 1000} s after the first `cap_reached`",
        f"open calls are read for up to {RelayConfig((), {}).drain_s:.0f} s more",
        f"{len(START)} zeros for the first",
    ],
)
def test_the_numbers_on_the_page(sentence: str) -> None:
    """Written from the constants, so that a changed limit changes the page."""
    assert sentence in PAGE


USAGE: Final = dict.fromkeys(
    ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "audio_input", "audio_output"), 3
)


@pytest.fixture
def certified(tmp_path: Path) -> tuple[Path, Path]:
    """A try bundle and the transcript that its certificate names, as relay and certifier write them."""
    log = Transcript(tmp_path / "lane", "attempt.agent")
    log.add(Kind.OPEN, 0, {"prices": {"id": "s", "date": "2026-11-30", "digest": "a" * 64}})
    for call, cost_nusd in ((1, 500), (2, 70)):
        log.add(Kind.REQUEST, call, {}, b'{"model":"m","text":"caf\xc3\xa9"}')
        terms = {"purpose": "generate", "model": "m", "provider": "p", "holdNusd": 900}
        log.add(Kind.ADMIT, call, terms)
        log.add(Kind.BODY, call, {}, b"\xff\x00 no text")
        end = {"completeness": "exact", "usage": USAGE, "listNusd": cost_nusd, "standardNusd": cost_nusd}
        log.add(Kind.SETTLE, call, {**end, "feesNusd": 10, "bookedNusd": cost_nusd})
    log.add(Kind.CLOSE, 0, {})
    log.close()
    usage = usage_of(log.path.read_bytes()).model_dump(mode="json", by_alias=True)
    return _bundle(tmp_path, usage), log.path


def _bundle(folder: Path, usage: dict[str, Any]) -> Path:
    payload = base64.b64encode(json.dumps({"predicate": {"usage": usage}}).encode()).decode()
    envelope = base64.b64encode(json.dumps({"payload": payload}).encode()).decode()
    path = folder / "one.trybundle.json"
    path.write_text(json.dumps({"envelope": envelope}))
    return path


def check(bundle: Path, log: Path) -> subprocess.CompletedProcess[str]:
    """The page's own program, with nothing on its path but the standard library."""
    command = [sys.executable, "-I", "-S", "-c", BLOCKS["python"], str(bundle), str(log)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_checker_accepts_what_was_certified(certified: tuple[Path, Path]) -> None:
    """Chain, payloads, head and cost."""
    ran = check(*certified)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "10 records, 2 calls, cost 550 nano-USD: as certified\n"


CHANGES: Final[dict[str, Callable[[list[bytes]], list[bytes]]]] = {
    "a letter of a request": lambda lines: [lines[0], lines[1].replace(b"caf", b"kaf"), *lines[2:]],
    "a cost": lambda lines: [line.replace(b'"listNusd":500', b'"listNusd":100') for line in lines],
    "the last record": lambda lines: [*lines[:-1], lines[-1].replace(b'"call":0', b'"call":1')],
    "a record left out": lambda lines: [*lines[:4], *lines[5:]],
    "the end left out": lambda lines: lines[:-1],
    "two records exchanged": lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]],
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_checker_refuses_what_was_not(certified: tuple[Path, Path], name: str) -> None:
    """Any change of the transcript."""
    bundle, log = certified
    log.write_bytes(b"".join(CHANGES[name](log.read_bytes().splitlines(keepends=True))))
    ran = check(bundle, log)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "AssertionError" in ran.stderr


def test_the_checker_refuses_a_cost_that_is_not_the_sum(certified: tuple[Path, Path], tmp_path: Path) -> None:
    """A certificate with flattering figures over an honest transcript."""
    _, log = certified
    usage = usage_of(log.read_bytes()).model_dump(mode="json", by_alias=True)
    ran = check(_bundle(tmp_path, {**usage, "costNusd": 1}), log)
    assert "the certified cost is not the sum of the calls" in ran.stderr
