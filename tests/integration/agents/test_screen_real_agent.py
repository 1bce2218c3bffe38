"""One screening of the bundled pack with a packed agent, through the program, from packing to its card."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.agents.bundle import MANIFEST_NAME, read_bundle
from orchestrator.agents.profile import FILE_NAME
from orchestrator.agents.revision import ParsedRevision
from orchestrator.home import Home
from orchestrator.ledger import queries, subnets
from orchestrator.screenings.installation import Installation

if TYPE_CHECKING:
    from tests.integration.agents.conftest import Seen

pytestmark = pytest.mark.docker
SERVICES = Path(__file__).parents[2] / "assets" / "services"


def test_a_screening_with_mini_swe_agent(
    packed_agent: Callable[[str], ParsedRevision],
    installation: Installation,
    evidence_of: Callable[[str | None], Seen],
    assize: Callable[..., tuple[int, Any, str]],
) -> None:
    """Bundle, model, usage and cost are in the evidence, it verifies, and the card says simulated."""
    home: Home = installation.home
    parsed = packed_agent("mini-swe-agent")
    code, added, err = assize(home.root, "agents", "add", str(parsed.bundle_dir))
    assert code == 0 and added["bundle_digest"] == parsed.revision.bundle_digest, err
    order = ["screen", "coding-core", "--agent", "mini-swe-agent", "--rehearse", "coding-core"]
    order += ["--model", "rehearsal/rehearsal-openai", "--task", "notes-security", "--tries", "1"]

    code, _, err = assize(home.root, *order, "--try-cap", "0.001")
    assert code == 2 and "needs a try cap of at least 0.0023 USD" in err

    code, ran, err = assize(home.root, *order)
    assert code in (0, 3), err
    (card,) = ran["cards"]
    assert card["card"]["labels"]["simulated"]
    assert card["card"]["counts"]["could_not_be_counted_by_kind"] == [{"kind": "simulated", "count": 1}]

    (one,) = assize(home.root, "tries", ran["screenings"][0]["screening"])[1]["tries"]
    (attempt,) = assize(home.root, "try", one["try"])[1]["attempts"]
    assert (attempt["outcome"], attempt["reason"]) == ("failed", "wrong_output")
    assert [int(spent["nusd"]) > 0 for spent in attempt["spend"]] == [True]
    seen = evidence_of(attempt["manifest"])
    assert seen.sandbox["bundleDigest"] == parsed.revision.bundle_digest
    assert len(seen.ledger) == 2 and {line["model"] for line in seen.ledger} == {"rehearsal-openai"}
    verified = assize(home.root, "verify", attempt["bundle"])[1]
    assert verified["authentic"] == "yes"


def test_an_agent_that_fits_some_tasks_only_is_refused_before_there_is_a_plan(
    packed_agent: Callable[[str], ParsedRevision],
    installation: Installation,
    assize: Callable[..., tuple[int, Any, str]],
    tmp_path: Path,
) -> None:
    """What its author says that it needs must not choose the tasks of its score."""
    folder = tmp_path / "choosy"
    shutil.copytree(packed_agent("mini-swe-agent").bundle_dir or "", folder)
    path = folder / FILE_NAME
    wanted = 'needs = ["no-such-program"]'
    lines = path.read_text("utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("needs")]
    kept.insert(kept.index("[launch]") + 1, wanted)
    path.write_text("\n".join(kept) + "\n", "utf-8")
    (folder / MANIFEST_NAME).unlink()
    (folder / MANIFEST_NAME).write_text(read_bundle(folder).text, "utf-8")
    home = installation.home.root
    code, _, err = assize(home, "agents", "add", str(folder))
    assert code == 0, err
    order = ["screen", "coding-core", "--agent", "mini-swe-agent", "--rehearse", "coding-core"]
    order += ["--model", "rehearsal/rehearsal-openai", "--task", "notes-security", "--tries", "1"]
    code, _, err = assize(home, *order)
    assert code == 2 and "not every agent can be started for every task" in err
    assert "notes-security: the image has no no-such-program, which the agent needs" in err
    pack = tmp_path / "with-services"
    shutil.copytree(SERVICES / "pack", pack)
    for program in ("store.py", "mcp_server.py"):
        shutil.copy(SERVICES / program, pack / "ask-store" / "environment" / "store")
    code, _, err = assize(home, "screen", str(pack), *order[2:6], "--model", "rehearsal/rehearsal-openai")
    assert code == 2 and "ask-store: the task has the http MCP server adder" in err, err
    assert queries.screenings(installation.ledger) == [] and subnets.leases(installation.ledger) == {}
