"""compare: two screenings of a seeded ledger whose bundles a test lab signed (S4-33 .. S4-35, UI-40)."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates import bundle
from orchestrator.cli.main import main
from orchestrator.engine.stub import plan_stub
from orchestrator.home import Home
from orchestrator.ledger.migrate import open_ledger
from orchestrator.screenings.bundling import SCREENING_FILE

TASKS = tuple(f"task-{letter}" for letter in "abcdefgh")
LAB = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certificate_world.py"


def _lab() -> ModuleType:
    if "certificate_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("certificate_world", LAB)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["certificate_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["certificate_world"]


@dataclass
class Bench:
    """A home whose screenings the lab signs; `put` returns the id of the ledger."""

    home: Home
    lab: ModuleType
    world: Any

    def put(self, name: str, words: dict[str, str], **changes: Any) -> str:
        """Screen `TASKS` with one letter per try: P passes, F fails, - is never recorded."""
        shot = self.world.screening(name, tasks=TASKS, **changes)
        for task in TASKS:
            for index, letter in enumerate(words.get(task, words["else"]), 1):
                if letter != "-":
                    shot.run(task, index, self.lab.PASS if letter == "P" else self.lab.WRONG)
        return self.store(name, shot.pack())

    def store(self, name: str, packed: bytes) -> str:
        ledger = open_ledger(self.home.database_url)
        try:
            screening_id = plan_stub(ledger, list(TASKS), name=name, screening_id=self.lab.ulid(name))
        finally:
            ledger.close()
        folder = self.home.certificates / screening_id
        folder.mkdir(parents=True)
        (folder / SCREENING_FILE).write_bytes(packed)
        return screening_id


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, databases: str) -> Bench:
    monkeypatch.delenv("ASSIZE_HOME", raising=False)
    monkeypatch.delenv("ASSIZE_DATABASE_URL", raising=False)
    home, lab = Home(tmp_path / "home").prepare(), _lab()
    world = lab.World(home.evidence)
    home.trust_root.write_bytes(world.trust_bytes)
    return Bench(home, lab, world)


@pytest.fixture
def run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def ran(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--home", str(bench.home.root), "compare", *arguments])
        seen = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, seen.out, seen.err

    return ran


Run = Callable[..., tuple[int, str, str]]


def test_a_clear_difference_is_named(bench: Bench, run: Run) -> None:
    """ST-4, S4-35: the table, the exact p, the conclusion, and how large a difference would be noise."""
    good, poor = bench.put("good", {"else": "PPP"}), bench.put("poor", {"else": "FFF", TASKS[0]: "PFF"})
    code, out, err = run(good, poor)
    assert (code, err) == (0, "")
    assert "task-a  3/3  1/3  +66.7" in out
    assert "+95.8 points over 8 tasks" in out
    assert "p = 0.0078" in out
    assert "passes more than" in out
    assert "points cannot be told apart here" in out


def test_the_same_counts_are_not_told_apart(bench: Bench, run: Run) -> None:
    """S4-35: equal results say so, whatever the order of the arguments."""
    ids = [bench.put(name, {"else": "PPF"}) for name in ("one", "two")]
    for pair in (ids, ids[::-1]):
        code, out, _ = run(*pair)
        assert code == 0
        assert "cannot be told apart: difference 0.0 points, p = 1.0000" in out


def test_json_is_one_object_without_floats(bench: Bench, run: Run) -> None:
    """CLI-2: schema, both sides with their verification, the whole comparison; arithmetic on request."""
    good, poor = bench.put("good", {"else": "PPP"}), bench.put("poor", {"else": "FFF"})
    code, out, _ = run(good, poor, "--json", "--explain")
    data = json.loads(out, parse_float=lambda text: pytest.fail(f"a float: {text}"))
    assert (code, data["schema"]) == (0, "assize.compare/1")
    assert data["screenings"]["a"]["screening"] == good
    assert data["screenings"]["a"]["verification"] == {"exit": 0, "reasons": []}
    made = data["comparison"]
    assert (made["verdict"], made["comparable"], made["paired_tasks"]) == ("a-above", True, 8)
    assert made["p_value"] == {"exact": "1/128", "display": "0.0078"}
    assert any(line.startswith("mean difference = ") for line in made["arithmetic"])
    _, brief, _ = run(good, poor, "--json")
    assert "arithmetic" not in json.loads(brief)["comparison"]


@pytest.mark.parametrize("method", ["pack-score/1", "rate-ai-agent/1"])
def test_both_methods_count_the_same_tries(bench: Bench, run: Run, method: str) -> None:
    """G-4: the methodology is chosen for both sides at once and is stated."""
    ids = bench.put("good", {"else": "PPP"}), bench.put("poor", {"else": "FFF"})
    code, out, _ = run(*ids, "--method", method, "--json")
    made = json.loads(out)["comparison"]
    assert (code, made["of"], made["difference"]) == (0, method, "1/1")


def test_another_pack_version_is_not_compared(bench: Bench, run: Run) -> None:
    """S4-33, S4-34: exit 3, the reason, the counts, and no conclusion."""
    ids = bench.put("new", {"else": "PPP"}), bench.put("old", {"else": "FFF"}, version="2025.1")
    code, out, err = run(*ids)
    assert (code, err) == (3, "")
    assert "not comparable: suite version coding-core@2026.9 vs coding-core@2025.1" in out
    assert "task-a  3/3  0/3" in out
    for word in ("sign-flip", "conclusion  ", "cannot be told apart", "passes more"):
        assert word not in out
    code, out, _ = run(*ids, "--json")
    made = json.loads(out)["comparison"]
    assert (code, made["verdict"]) == (3, "not-comparable")
    assert (made["p_value"], made["difference"], made["detectable_points"]) == (None, None, None)
    assert [one["code"] for one in made["reasons"]] == ["suite_version"]


def test_tries_that_were_not_recorded_win_nothing(bench: Bench, run: Run) -> None:
    """Reference section 6: two of three recorded and passed is no win over two of three passed."""
    hidden, honest = bench.put("hidden", {"else": "PP-"}), bench.put("honest", {"else": "PPF"})
    code, out, _ = run(hidden, honest)
    assert code == 3  # the hidden tries are missing from the bundle
    assert "2/2 (1 not counted)" in out
    assert "p = 1.0000, every uncounted slot" in out
    assert "cannot be told apart: difference 33.3 points, p = 0.0078" in out
    assert "does not verify in full" in out


def test_a_damaged_bundle_is_said_and_left_out(bench: Bench, run: Run) -> None:
    """Only what verifies is compared: broken certificates are uncounted slots, and the exit code tells."""
    shot = bench.world.screening("broken", tasks=TASKS)
    for task in TASKS:
        for index in (1, 2, 3):
            shot.run(task, index, bench.lab.PASS)
    files = bundle.decode_screening(shot.pack())
    tries = [raw for _, raw in files.tries]
    parts = bundle.decode_try(tries[0])
    broken = parts.envelope.replace(b'"sig":"', b'"sig":"AAAA', 1)
    tries[0] = bundle.encode_try(broken[: len(parts.envelope) - 8] + parts.envelope[-8:], parts.manifest)
    ids = (
        bench.store("broken", bundle.encode_screening(files.opening, tries, files.summary)),
        bench.put("poor", {"else": "FFF"}),
    )
    code, out, _ = run(*ids)
    assert code == 3
    assert "task-a  2/2 (1 not counted)  0/3" in out


def test_wrong_input_is_refused_in_one_sentence(bench: Bench, run: Run) -> None:
    """CLI-9: the same screening twice, an unknown one, a missing one; nothing is created."""
    one = bench.put("one", {"else": "PPP"})
    for arguments, words in (
        ((one, one), "is given twice"),
        ((one, "01ZZZZZZ"), "screening"),
        ((one,), "Missing argument 'B'"),
        ((one, one, "--method", "six-component/1"), "six-component/1"),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert words in err and len(err.splitlines()) <= 2
