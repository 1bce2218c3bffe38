"""score --method and board: seeded ledgers whose bundles a test lab signed (S1-1 .. S1-4, S3-5, S4-17)."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orchestrator.certificates.statements import OpenedPack, Sha256
from orchestrator.cli.main import main
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.screenings import NewScreening, plan
from orchestrator.packs.catalog import BUNDLED
from orchestrator.packs.freeze import load_lock, load_manifest
from orchestrator.packs.manifest import identity
from orchestrator.planning.plan import PlannedTask, plan_slots
from orchestrator.screenings.bundling import SCREENING_FILE
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.methods import METHODS, Excluded, result_of
from orchestrator.screenings.scorecard import score_screening
from scoring.facts import Population
from scoring.results import MethodologyResult

LAB = Path(__file__).resolve().parents[2] / "assets" / "certificates" / "certificate_world.py"
PACK_ROOT = BUNDLED / "coding-core"
OF_RUNS = ("badgeia-composite/2026-07", "badgeia-fitness-radar/1", "badgeia-repeatability/1")


def _lab() -> ModuleType:
    if "certificate_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("certificate_world", LAB)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["certificate_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["certificate_world"]


MANIFEST = load_manifest(PACK_ROOT)
TASKS = tuple(task.id for task in MANIFEST.tasks)
DIGEST = identity(load_lock(PACK_ROOT))


def opened_pack(
    version: str = MANIFEST.version, digest: str = DIGEST, name: str = MANIFEST.name
) -> OpenedPack:
    return OpenedPack(id=name, version=version, digest=Sha256(sha256=digest), declared_tries=3)


@dataclass
class Bench:
    """A home with screenings of the bundled pack that the lab signs; the ledger's rows say the same."""

    home: Home
    lab: ModuleType
    world: Any

    def put(self, name: str, words: dict[str, str], *, agent: str = "acme/helper", **changes: Any) -> str:
        """Screen the pack with one letter per try: P passes, F fails, L is lost, - is never recorded."""
        pack = changes.pop("pack", opened_pack())
        shot = self.world.screening(name, tasks=TASKS, agent=agent, pack=pack, **changes)
        seen = {"P": self.lab.PASS, "F": self.lab.WRONG, "L": self.lab.LOST}
        for task in sorted(set(TASKS) - changes.get("left_out", frozenset())):
            for index, letter in enumerate(words.get(task, words["else"]), 1):
                if letter != "-":
                    shot.run(task, index, seen[letter])
        self.row(name, agent, pack)
        return self.store(name, shot.pack())

    def row(self, name: str, agent: str, pack: OpenedPack) -> None:
        slots = plan_slots([PlannedTask(task, limit_ms=600_000) for task in TASKS], 3, seed=DIGEST)
        digest = self.lab.hex_of("agent" if agent == "acme/helper" else agent)
        new = NewScreening(
            identity=self.lab.hex_of(name),
            pack_id=pack.id,
            pack_version=pack.version,
            pack_digest=pack.digest.sha256,
            agent_id=agent,
            agent_version="3.2.1",
            agent_digest=digest,
            conditions={"tries": 3},
            comparability=digest,
            requester="test",
            funder="test",
            seed=DIGEST,
            window_ms=0,
            slots=slots,
        )
        ledger = open_ledger(self.home.database_url)
        try:
            plan(ledger, new, who="test", screening_id=self.lab.ulid(name))
        finally:
            ledger.close()

    def path(self, name: str) -> Path:
        return self.home.certificates / str(self.lab.ulid(name)) / SCREENING_FILE

    def store(self, name: str, packed: bytes) -> str:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(packed)
        return str(self.lab.ulid(name))

    def newest(self) -> list[str]:
        """Screening ids in the order in which the board takes them."""
        ledger = open_ledger(self.home.database_url)
        try:
            return [row["id"] for row in queries.screenings(ledger)]
        finally:
            ledger.close()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, databases: str) -> Bench:
    monkeypatch.delenv("ASSIZE_HOME", raising=False)
    monkeypatch.delenv("ASSIZE_DATABASE_URL", raising=False)
    home, lab = Home(tmp_path / "home").prepare(), _lab()
    world = lab.World(home.evidence)
    home.trust_root.write_bytes(world.trust_bytes)
    return Bench(home, lab, world)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(bench: Bench, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--home", str(bench.home.root), *arguments])
        seen = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, seen.out, seen.err

    return ran


def as_json(run: Run, *arguments: str) -> tuple[int, Any]:
    code, out, err = run(*arguments, "--json")
    assert err == ""
    return code, json.loads(out, parse_float=lambda text: pytest.fail(f"a float: {text}"))


def scored(bench: Bench, screening_id: str) -> Any:
    installation = Installation.open(bench.home)
    try:
        return score_screening(installation, screening_id)
    finally:
        installation.close()


def test_the_manifest_s_tags_reach_the_levels(bench: Bench, run: Run) -> None:
    """S4-17, S4-22: use cases and difficulty are those of the pack that the opening pins."""
    one = bench.put("one", {"else": "PPP"})
    code, data = as_json(run, "score", one, "--method", "rate-ai-agent/1")
    assert (code, data["schema"], data["method"], data["reason"]) == (
        0,
        "assize.score/1",
        "rate-ai-agent/1",
        None,
    )
    tagged = {task.id: task for task in MANIFEST.tasks}
    for group in data["result"]["use_cases"]:
        members = [task for task in tagged.values() if group["group"] in task.use_cases]
        assert (group["tasks"], group["attempts"]) == (len(members), 3 * len(members))
    assert {group["group"] for group in data["result"]["difficulties"]} == {
        task.difficulty for task in tagged.values()
    }
    assert {group["level"] for group in data["result"]["use_cases"]} <= {"Strong", "Too few tasks"}
    text = run("score", one, "--method", "rate-ai-agent/1")[1]
    assert "Bug fixing" in text and "task success score" in text and "100.0" in text


def test_tags_of_another_pack_content_are_not_taken(bench: Bench, run: Run) -> None:
    """The same name and version with another digest is not the pack: no tags, no levels, still a score."""
    one = bench.put("one", {"else": "PPF"}, pack=opened_pack(digest=bench.lab.hex_of("other")))
    assert scored(bench, one).handover.plan.tags is None
    code, out, _ = run("score", one, "--method", "rate-ai-agent/1")
    assert code == 0
    assert "levels  —" in out and "66.7" in out


def test_the_population_is_a_benchmark_pack(bench: Bench) -> None:
    """S3-5: every screening of this version is one of a pack, and says so to the scorers."""
    assert scored(bench, bench.put("one", {"else": "PPP"})).handover.plan.population is (
        Population.BENCHMARK_PACK
    )


@pytest.mark.parametrize("method", OF_RUNS)
@pytest.mark.parametrize(("words", "expected"), [("PPP", 0), ("PPL", 3)])
def test_methods_of_runs_leave_pack_runs_out(
    bench: Bench, run: Run, method: str, words: str, expected: int
) -> None:
    """S3-5: one sentence with a dash and no figure; the exit code follows the screening as for the card."""
    one = bench.put("one", {"else": "PPP", TASKS[0]: words})
    code, out, err = run("score", one, "--method", method)
    assert (code, err) == (expected, "")
    assert out == f"— {method} leaves out benchmark pack runs (S3-5), so it has no figure here\n"
    assert run("score", one)[0] == expected
    _, data = as_json(run, "score", one, "--method", method, "--explain")
    assert (data["result"], data["reason"]["code"]) == (None, "pack-runs")


@pytest.mark.parametrize("method", OF_RUNS)
def test_methods_of_runs_score_the_own_suite(bench: Bench, method: str) -> None:
    """The exclusion is the population's, not the command's: the same tries of the own suite have figures."""
    handover = scored(bench, bench.put("one", {"else": "PPF"})).handover
    assert isinstance(result_of(method, handover.plan, handover.tries), Excluded)
    own = replace(handover.plan, population=Population.OWN_SUITE)
    made = result_of(method, own, handover.tries)
    assert isinstance(made, MethodologyResult)
    assert made.methodology == method


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"pack-score/1", "rate-ai-agent/1", *OF_RUNS}))
def test_submissions_lack_components_and_say_so(bench: Bench, run: Run, method: str) -> None:
    """S2-3: without all six components there is no final score; unfinished tries are no submissions."""
    one = bench.put("one", {"else": "PPF", TASKS[0]: "PPL"})
    code, data = as_json(run, "score", one, "--method", method)
    made = data["result"]["submissions"]
    assert (code, len(made)) == (3, 3 * len(TASKS) - 1)
    assert {entry["score"] for entry in made} == {None}
    assert all("arithmetic" not in entry for entry in made)
    text = run("score", one, "--method", method, "--explain")[1]
    assert "code_quality" in text and "reading " in text


def test_the_default_is_the_card_as_before(bench: Bench, run: Run) -> None:
    """assize.score/1 keeps its fields; the method is named beside them."""
    one = bench.put("one", {"else": "PPF"})
    code, data = as_json(run, "score", one)
    assert (code, data["method"]) == (0, "pack-score/1")
    assert list(data) == [
        *("schema", "screening", "method", "card", "grading", "claims_differ", "closed", "verification")
    ]
    assert data == as_json(run, "score", one, "--method", "pack-score/1")[1]
    assert "arithmetic" in as_json(run, "score", one, "--explain")[1]


def test_a_method_of_several_screenings_is_refused(bench: Bench, run: Run) -> None:
    """CLI-9: one sentence, exit 2."""
    one = bench.put("one", {"else": "PPP"})
    for method in ("same-question-bt/1", "statistics/1", "nothing/1"):
        code, out, err = run("score", one, "--method", method)
        assert (code, out) == (2, "")
        assert method in err and len(err.splitlines()) <= 2


def test_a_bundle_of_another_screening_is_refused(bench: Bench, run: Run) -> None:
    """A genuine bundle under the wrong id is not scored as that screening: typed error, exit 1, board too."""
    good = bench.put("good", {"else": "PPP"})
    poor = bench.put("poor", {"else": "FFF"}, agent="acme/poor")
    shutil.copy(bench.path("good"), bench.path("poor"))
    for arguments in (
        ("score", poor),
        ("score", poor, "--method", "rate-ai-agent/1"),
        ("compare", poor, good),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (1, "")
        assert "[foreign-bundle]" in err and good in err and poor in err
    code, data = as_json(run, "board")
    assert (code, [one["screening"] for one in data["screenings"]]) == (3, [good])
    assert [(one["screening"], one["code"]) for one in data["left_out"]] == [(poor, "not-verified")]


def test_no_home_is_said(cli: Any, tmp_path: Path) -> None:
    """Without a home, and so without a ledger: the sentence, exit 0, and no home is made."""
    ran = cli("board", home=tmp_path / "none")
    assert (ran.code, ran.out) == (0, "No pack results yet\n")
    assert not (tmp_path / "none").exists()


def test_nothing_verified_is_said(bench: Bench, run: Run) -> None:
    """An empty ledger, an open screening: the sentence, exit 0."""
    bench.row("open", "acme/helper", opened_pack())
    assert run("board") == (0, "No pack results yet\n", "")
    assert run("board", "--pack", "coding-core", "--page", "coding-core") == (0, "No pack results yet\n", "")
    code, data = as_json(run, "board")
    assert (code, data["schema"], data["board"]) == (0, "assize.board/1", None)
    assert data["reason"] == {"code": "no-pack-results", "text": "No pack results yet"}


def three(bench: Bench) -> dict[str, str]:
    """A clear order of three agents, with a loss and a never recorded try."""
    return {
        "best": bench.put("best", {"else": "PPP"}, agent="acme/best"),
        "middle": bench.put("middle", {"else": "PPF"}, agent="acme/middle"),
        "last": bench.put("last", {"else": "FFF", TASKS[0]: "PFL"}, agent="acme/last"),
    }


def test_the_overall_page_ranks(bench: Bench, run: Run) -> None:
    """S1-2, UI-25: rank with range, harness, model, quality, time, cost, tasks answered, valid tries."""
    three(bench)
    code, out, err = run("board")
    assert (code, err) == (3, "")  # a lost try of the last one does not count in full
    lines = out.splitlines()
    assert lines[0] == f"Same-question board  overall  on  coding-core@{MANIFEST.version}"
    header = "rank range harness model quality pull time s USD tasks answered valid tries"
    assert " ".join(lines[1].split()) == header
    rows = [line.split() for line in lines[2:5]]
    assert [row[2] for row in rows] == ["acme/best@3.2.1", "acme/middle@3.2.1", "acme/last@3.2.1"]
    assert [row[0] for row in rows] == ["1", "2", "3"]
    total = 3 * len(TASKS)
    assert f"{total} of {total}" in lines[2] and f"{total - 1} of {total}" in lines[4]
    assert "12.3 (#1)" in lines[2]
    assert "coding-core/testing" in out and "independently-evaluated" in out
    assert "computed alone" in out


def test_sub_pages_follow_pack_and_use_case(bench: Bench, run: Run) -> None:
    """S1-2: the pack is a sub-board, its use cases the sub-categories; an unknown page names those there."""
    three(bench)
    _, whole = as_json(run, "board")
    uses = {use for task in MANIFEST.tasks for use in task.use_cases}
    names = [page["page"]["name"] for page in whole["board"]["pages"]]
    assert names == ["overall", "coding-core", *sorted(f"coding-core/{use}" for use in uses)]
    _, one = as_json(run, "board", "--page", "coding-core/testing", "--pack", "coding-core")
    (page,) = one["board"]["pages"]
    assert page == next(p for p in whole["board"]["pages"] if p["page"]["name"] == "coding-core/testing")
    tested = sum("testing" in task.use_cases for task in MANIFEST.tasks)
    assert page["rows"][0]["coverage"]["tasks_planned"] == tested
    assert run("board", "--page", "coding-core/testing")[1].startswith(
        "Same-question board  coding-core/test"
    )
    code, out, err = run("board", "--page", "nowhere")
    assert (code, out) == (2, "")
    assert "coding-core/testing" in err


def test_explain_prints_each_comparison(bench: Bench, run: Run) -> None:
    """S1-8, UI-29: three entrants are three comparisons of weight 1/2."""
    three(bench)
    full = f"coding-core/{TASKS[1]}"
    for name in (TASKS[1], full):
        out = run("board", "--explain", name)[1]
        assert f"task {full}: 3 entrants, 3 comparisons of 1/2" in out
        assert "one joint fit" in out and "reading " in out
    _, data = as_json(run, "board", "--explain", full)
    assert data["arithmetic"][0].startswith(f"task {full}")
    assert "arithmetic" not in as_json(run, "board")[1]
    code, out, err = run("board", "--explain", "no-such-task")
    assert (code, out) == (2, "") and "no-such-task" in err


def test_only_the_newest_complete_screening_stands(bench: Bench, run: Run) -> None:
    """One screening per agent and pack version; a later one of part of the pack takes nobody's place."""
    bench.put("first", {"else": "FFF"})
    bench.put("second", {"else": "PPP"})
    part = bench.put("part", {"else": "PPP"}, left_out=frozenset(TASKS[1:]))
    code, data = as_json(run, "board")
    newest = next(one for one in bench.newest() if one != part)
    assert (code, [one["screening"] for one in data["screenings"]]) == (0, [newest])
    assert (data["superseded"], [one["code"] for one in data["left_out"]]) == (1, ["part-of-pack"])
    assert "as wide as the page: fewer than two entrants" in run("board")[1]


def test_a_damaged_bundle_stands_nowhere(bench: Bench, run: Run) -> None:
    """Only what verifies is ranked; the older verified screening stands, and the exit code tells."""
    bench.put("one", {"else": "PPP"})
    bench.put("two", {"else": "PPP"})
    newest, older = bench.newest()
    name = "one" if bench.lab.ulid("one") == newest else "two"
    bench.path(name).write_bytes(bench.path(name).read_bytes()[:-10])
    code, data = as_json(run, "board")
    assert (code, [one["screening"] for one in data["screenings"]]) == (3, [older])
    assert [(one["screening"], one["code"]) for one in data["left_out"]] == [(newest, "not-verified")]


def test_a_summary_that_hides_tries_stands_nowhere(bench: Bench, run: Run) -> None:
    """Complete means that every planned try is accounted for (certificates.md 3.6)."""
    one = bench.put("one", {"else": "PPP", TASKS[0]: "P--"})
    code, out, _ = run("board")
    assert code == 3
    assert out.startswith("No pack results yet\n") and one in out and "does not verify in full" in out


def test_other_versions_and_labels_are_not_mixed(bench: Bench, run: Run) -> None:
    """S3-2, S4-1, S4-2: one version of a pack, independent results only; the rest is named with why."""
    here = bench.put("here", {"else": "PPP"})
    other = opened_pack(version="2019.1", digest=bench.lab.hex_of("old"))
    old = bench.put("old", {"else": "FFF"}, pack=other, agent="acme/old")
    own = bench.put("own", {"else": "PPP"}, label="publisher-reported", agent="acme/own")
    _, data = as_json(run, "board")
    assert [one["screening"] for one in data["screenings"]] == [here]
    assert {one["screening"]: one["code"] for one in data["left_out"]} == {
        old: "other-pack-version",
        own: "not-independent",
    }
    # Asked for by its version, the older pack has its own board.
    _, data = as_json(run, "board", "--pack", "coding-core@2019.1")
    assert ([one["screening"] for one in data["screenings"]], data["left_out"]) == ([old], [])


def test_two_packs_share_the_overall_page(bench: Bench, run: Run) -> None:
    """S1-2: the overall page is over all packs, each pack is a sub-board; --pack narrows to one."""
    bench.put("core", {"else": "PPP"})
    second = opened_pack(name="second", version="1", digest=bench.lab.hex_of("second"))
    bench.put("second", {"else": "FFF"}, pack=second)
    _, data = as_json(run, "board")
    pages = {page["page"]["name"]: page for page in data["board"]["pages"]}
    assert {"overall", "coding-core", "second"} <= set(pages)
    assert pages["overall"]["tasks_with_result"] == 2 * len(TASKS)
    _, data = as_json(run, "board", "--pack", "second")
    assert [page["page"]["name"] for page in data["board"]["pages"]] == ["overall", "second"]
    code, out, err = run("board", "--pack", "third")
    assert (code, out) == (2, "") and "third" in err
