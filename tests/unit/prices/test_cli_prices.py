"""`assize prices`: show, check, import."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import exits
from orchestrator.cli.main import main
from orchestrator.prices.sheet import PriceSheet

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def prices(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `assize prices ...`: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["prices", *arguments])
        seen = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, seen.out, seen.err

    return run


@pytest.fixture
def sheet_file(tmp_path: Path, data_of: Callable[..., dict[str, Any]]) -> Path:
    """A sheet with a tier, a window, an ended price and two providers."""
    tier = {"above_input_tokens": 200_000, "rates": {"input": 6 * 10**9, "output": 37_500_000}}
    window = {"start": "16:30", "end": "00:30", "rates": {"input": 1, "output": 2}}
    sheet = PriceSheet.from_data(
        data_of(
            {"valid_to": "2026-06-01", "tiers": [tier]},
            {"ids": ["m", "m-1"], "valid_from": "2026-06-01", "windows": [window], "reviewed": True},
            {"provider": "q", "per_call": {"web_search": 10_000_000}},
        )
    )
    path = tmp_path / "sheet.json"
    path.write_text(sheet.text())
    return path


def test_show_lists_the_standard_price_of_every_entry(prices: Run, sheet_file: Path) -> None:
    """USD per million tokens, exactly; days; a dash where there is no price."""
    code, out, _ = prices("show", "--sheet", str(sheet_file))
    lines = [line.split() for line in out.splitlines()]
    assert code == exits.DONE
    assert lines[0] == ["provider", "model", "applies", "input", "cached", "output", "from", "to", "reviewed"]
    assert " ".join(lines[1]) == "p m standard + 1 tier 3 — 15 2026-01-01 2026-06-01 NO"
    assert lines[2][2:6] == ["standard", "+", "times", "of"] and lines[2][-1] == "yes"
    assert len(lines) == 4


def test_show_of_a_model_has_every_tier_and_time(prices: Run, sheet_file: Path) -> None:
    """One row each, of all entries with this id."""
    wanted = ("--provider", "p", "--columns", "applies,output")
    _, out, _ = prices("show", "m", *wanted, "--sheet", str(sheet_file))
    assert [line.split("  ")[0] for line in out.splitlines()[1:]] == [
        "standard",
        "above 200000 input tokens",
        "standard",
        "16:30-00:30 UTC",
    ]
    assert "0.0375" in out and "0.000000002" in out


def test_show_on_a_day_and_as_json(prices: Run, sheet_file: Path) -> None:
    """An alias finds its entry; raw integers with their unit; the digest of the sheet."""
    code, out, _ = prices("show", "m-1", "--on", "2026-06-01", "--sheet", str(sheet_file), "--json")
    found = json.loads(out)
    assert (code, found["schema"]) == (exits.DONE, "assize.prices-show/1")
    assert found["digest"] == PriceSheet.load(sheet_file).digest
    assert [row["input_nusd_per_mtok"] for row in found["prices"]] == [3 * 10**9, 1]
    assert found["prices"][0]["cache_read_nusd_per_mtok"] is None


@pytest.mark.parametrize(
    "arguments", [["m-2"], ["M"], ["m-1", "--on", "2026-05-31"], ["m", "--provider", "r"]], ids=" ".join
)
def test_show_of_nothing_is_wrong_input(arguments: list[str], prices: Run, sheet_file: Path) -> None:
    """Exact ids; no neighbouring day."""
    code, out, err = prices("show", *arguments, "--sheet", str(sheet_file))
    assert (code, out) == (exits.WRONG_INPUT, "")
    assert "has nothing for" in err and "[not-found]" in err


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_missing_file_is_wrong_input(command: str, prices: Run, tmp_path: Path) -> None:
    """Named in the sentence."""
    code, _, err = prices(command, "--sheet", str(tmp_path / "none.json"))
    assert code == exits.WRONG_INPUT
    assert "there is no file" in err


def test_check_of_the_bundled_sheet_is_clean(prices: Run) -> None:
    """The digest that goes into certificates; equal to the installed source."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    code, out, _ = prices("check")
    assert code == exits.DONE
    assert PriceSheet.bundled().digest in out
    assert "0 entries differ; 0 only in the source" in out


def test_check_lists_what_differs_from_the_source(prices: Run, tmp_path: Path) -> None:
    """A price changed by hand: exit 1, with both values."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    data = PriceSheet.bundled().to_data()
    data["entries"] = [one for one in data["entries"] if "gpt-5" in one["ids"]]
    data["entries"][0]["standard"]["input"] += 1
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    code, out, _ = prices("check", "--sheet", str(path), "--json")
    found = json.loads(out)
    assert (code, found["valid"], found["compared"]) == (exits.REFUSED, True, True)
    (difference,) = found["differences"]
    assert (difference["kind"], difference["model"]) == ("changed", "gpt-5")
    assert "standard.input 1250000001 -> 1250000000" in difference["detail"]
    assert found["only_in_source"] > 50
    code, out, _ = prices("check", "--sheet", str(path))
    assert code == exits.REFUSED and "standard.input 1250000001 -> 1250000000" in out


def test_check_without_the_source_still_validates(
    prices: Run, sheet_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compared, and it says so."""
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    code, out, _ = prices("check", "--sheet", str(sheet_file))
    assert code == exits.DONE
    assert "not installed, not compared" in out


def test_check_of_an_invalid_sheet_is_refused(prices: Run, tmp_path: Path) -> None:
    """A check that said no is exit 1, with every problem."""
    path = tmp_path / "bad.json"
    path.write_text('{"format": "assize.prices/1", "id": "x", "date": "2026-01-01", "entries": []}')
    code, out, err = prices("check", "--sheet", str(path))
    assert (code, out) == (exits.REFUSED, "")
    assert "invalid: price sheet bad.json: it has no entries" in err
    code, out, _ = prices("check", "--sheet", str(path), "--json")
    assert code == exits.REFUSED
    assert json.loads(out) == {
        "schema": "assize.prices-check/1",
        "valid": False,
        "problems": ["it has no entries"],
    }


def test_import_writes_a_sheet_and_says_what_is_not_in_it(prices: Run, tmp_path: Path) -> None:
    """The file is valid; left-out models and changes are listed; standard output is one JSON object."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    path = tmp_path / "new.json"
    code, out, _ = prices(
        "import", "--providers", "deepseek, groq", "--on", "2026-11-30", "--out", str(path), "--json"
    )
    found, sheet = json.loads(out), PriceSheet.load(path)
    assert (code, found["digest"]) == (exits.DONE, sheet.digest)
    assert {entry.provider for entry in sheet.entries} == {"deepseek", "groq", "rehearsal"}
    assert {"provider": "groq", "model": "whisper-large-v3", "reason": "is no chat or embedding model"} in (
        found["skipped"]
    )
    assert {one["kind"] for one in found["differences"]} == {"gone"}


def test_import_in_words(prices: Run, tmp_path: Path) -> None:
    """Tables of what is left out and what changed, then the file and the digest."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    path = tmp_path / "new.json"
    code, out, _ = prices("import", "--on", "2026-11-30", "--out", str(path))
    assert code == exits.DONE
    assert out.startswith("left out:\n") and "against the bundled sheet" not in out
    assert f"wrote    {path}" in out and PriceSheet.bundled().digest in out


def test_import_never_overwrites_unasked(prices: Run, tmp_path: Path) -> None:
    """--force does."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    path = tmp_path / "kept.json"
    path.write_text("kept")
    code, _, err = prices("import", "--out", str(path))
    assert (code, path.read_text()) == (exits.WRONG_INPUT, "kept")
    assert "exists; nothing was written" in err
    assert prices("import", "--providers", "groq", "--out", str(path), "--force")[0] == exits.DONE
    assert PriceSheet.load(path).entries


def test_import_without_the_source_says_what_to_install(
    prices: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And writes nothing."""
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    code, _, err = prices("import", "--out", str(tmp_path / "new.json"))
    assert code == exits.WRONG_INPUT
    assert "pip install 'assize[prices]'" in err
    assert list(tmp_path.iterdir()) == []


def test_a_bad_provider_or_date_is_wrong_input(prices: Run, tmp_path: Path) -> None:
    """Refused before anything is written."""
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    for arguments in (["--providers", "nope"], ["--on", "30.11.2026"], ["--providers", ","]):
        code, _, err = prices("import", *arguments, "--out", str(tmp_path / "new.json"))
        assert code == exits.WRONG_INPUT and err
    assert list(tmp_path.iterdir()) == []
