"""Runs the cases of a file through the product itself: planned, signed, run, recorded, certified, closed.

Beside every hostile agent an honest sibling works on the same task with the same worker: it starts in the
moment in which the hostile one gets control. What was seen of both is kept for `case_rules`. The engine runs
them here, or a worker of many hosts does (`case_worker`).
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchestrator.agents import registry
from orchestrator.attempts import AttemptOrder, AttemptReport
from orchestrator.certificates.screening import verify_screening_bundle
from orchestrator.certificates.verdict import ScreeningResult
from orchestrator.engine.errors import HostUnfitError
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.queries import TryView
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.packs.pack import Pack, open_pack
from orchestrator.planning.conditions import CapOverrides, DiskCondition, ScreeningConditions
from orchestrator.prices.sheet import PriceSheet
from orchestrator.screenings import launch as launching
from orchestrator.screenings.attempts import Runner
from orchestrator.screenings.bundling import predicate_of
from orchestrator.screenings.gate import check_pack
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import Launch
from orchestrator.screenings.opening import Sponsors
from orchestrator.screenings.relaying import keep_sheet
from tests.assets.hostile.case_canaries import Bystander, HostCanary
from tests.assets.hostile.case_format import Case
from tests.assets.hostile.case_witness import Witness, Witnessed
from tests.assets.relayed.house import MODEL, sheet, write_accounts
from tests.assets.services.engines import Engines
from workers.attempt.runner import AttemptRunner
from workers.sandbox.client import Engine
from workers.sandbox.reaper import reap

if TYPE_CHECKING:
    from tests.assets.relayed.provider import Provider, Taken

ASSETS: Final = Path(__file__).parent
WORKER: Final = ASSETS / "case_worker.py"
MIB: Final = 1 << 20
KEY: Final = "sk-siege-77d1f0c2a9"
CAP_NUSD: Final = 50_000_000
AT_ONCE: Final = 3
SHORT_WALL_MS: Final = 6_000
"""For cases that are expected to run into the clock; the others have the task's own 20 s."""
DISK_BYTES: Final = 32 * MIB
WRITABLE_BYTES: Final = 256 * MIB
"""Of a writable root, which is looked at and not bounded by the kernel: what a busy machine lets pass between
two looks is within the slack."""
DISK_FILES: Final = 2_000
_AGENT: Final = """
[agent]
name = "{id}"
version = "1"
kind = "exec"
{model}
[run]
bundle = "bundle"
command = ["./start.sh", "{program}", "/opt/agent/{file}"]
"""
_MODEL: Final = f"""
[model]
declared = [{{ role = "main", id = "{MODEL}", provider = "house" }}]
"""
HONEST: Final = "printf 'def add(a, b):\\n    return a + b\\n' > /workspace/solution.py\n"
_SPONSORS: Final = Sponsors("operator:tests", "operator:tests", "lab:tests")


@dataclass
class Seen:
    """What was seen of one case and its sibling; `left` is what was labelled with it after 30 s.

    `listening` are the canaries that were there to be found, `strangers` what came to any of them.
    """

    case: Case
    order: AttemptOrder | None = None
    report: AttemptReport | None = None
    sibling: AttemptReport | None = None
    left: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    files: Mapping[str, bytes] = field(default_factory=dict)
    view: TryView | None = None
    certificate: Mapping[str, Any] | None = None
    verified: ScreeningResult | None = None
    taken: list[Taken] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    listening: list[str] = field(default_factory=list)
    warnings: tuple[str, ...] = ()

    def take(self, one: Witnessed) -> None:
        """What the worker saw of it."""
        self.order, self.report, self.sibling = one.order, one.report, one.sibling
        self.left, self.host = one.left, one.host


def bill_what_was_asked(provider: Provider, shared: Any) -> Callable[[Taken], Any]:
    """A provider that bills as many output tokens as a call allows, whether or not anybody reads them."""

    def answer(taken: Taken) -> Any:
        asked = json.loads(taken.body)
        tokens = int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 1)
        usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
        if asked.get("stream"):
            base = {"id": "c", "object": "chat.completion.chunk", "model": MODEL}
            delta = {"index": 0, "delta": {"content": "x" * 300}, "finish_reason": None}
            events: list[Any] = [{**base, "choices": [delta], "usage": None}]
            events += [{**base, "choices": [], "usage": usage}]
            parts = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in events]
            return shared.streamed(iter((*parts, b"data: [DONE]\n\n")))
        whole = {**shared.completion("x"), "model": MODEL, "usage": usage}
        return shared.Answer(parts=(json.dumps(whole).encode(),))

    return answer


@dataclass
class Siege:
    """A throw-away home with the shared task, one agent per case, and the provider on loopback."""

    folder: Path
    engine: Engine
    provider: Provider
    shared: Any
    runtime: str
    engines: Engines

    def run(self, cases: Iterable[Case]) -> dict[str, Seen]:
        """Everything that was seen, by case id; every case's screening is closed and verified."""
        every = list(cases)
        playable = [case for case in every if case.problem is None]
        self.provider.answer = bill_what_was_asked(self.provider, self.shared)
        installation = self._installation(playable)
        canary, bystander = HostCanary(self.folder, self.engine), Bystander(self.engine)
        seen = {case.id: Seen(case) for case in playable}
        told = self.folder / "told"
        told.mkdir()

        def load() -> Witness:
            return Witness(self.engine, AttemptRunner(), canary, lambda one: seen[name_of(one)].take(one))

        try:
            pack = open_pack(self.folder / "pack")
            gate = check_pack(installation, pack, pack.tasks, parallel=2, say=_silent, oracle_runs=1)
            assert gate.admitted, gate
            launches = self._launches(installation, pack, playable)
            bundles, warnings = self._play(installation, list(launches.values()), load, told)
            for path in told.iterdir():
                one = pickle.loads(path.read_bytes())
                seen[name_of(one)].take(one)
            for case_id, one in launches.items():
                self._keep(installation, seen[case_id], one, bundles.get(one.screening_id))
                seen[case_id].warnings = warnings
            bystander.look()
            for case_seen in seen.values():
                case_seen.strangers = [*canary.connections, *bystander.connections]
                case_seen.listening = [*canary.listening, *bystander.listening]
        finally:
            canary.close()
            bystander.close()
            label = installation.label
            installation.close()
            reap(self.engine, label, lambda found: False)
        return {**{case.id: Seen(case) for case in every}, **seen}

    def _play(
        self,
        installation: Installation,
        launches: list[Launch],
        make_runner: Callable[[], Runner],
        told: Path,
    ) -> tuple[dict[str, Path], tuple[str, ...]]:
        """Screening bundles by screening, and what needs a look; one that gave up is told by all."""
        worker = [str(WORKER), str(told)]
        try:
            outcome = self.engines.run(
                installation, launches, parallel=AT_ONCE, make_runner=make_runner, worker=worker
            )
        except HostUnfitError as error:
            return {}, (error.message,)
        return outcome.bundles, outcome.warnings

    def _installation(self, cases: Iterable[Case]) -> Installation:
        home = Home(self.folder / "home")
        installation = Installation.open(home)
        write_accounts(home.root, self.provider.base_url, KEY)
        shutil.copytree(ASSETS / "task", self.folder / "pack" / "add")
        bundle = self.folder / "bundle"
        bundle.mkdir()
        shutil.copy(ASSETS / "start.sh", bundle / "start.sh")
        (bundle / "start.sh").chmod(0o755)
        (bundle / "honest.sh").write_text(HONEST, "utf-8")
        for case in cases:
            (bundle / file_of(case)).write_text(text_of(case), "utf-8")
        return installation

    def _launches(self, installation: Installation, pack: Pack, cases: Iterable[Case]) -> dict[str, Launch]:
        launches = {}
        for case in cases:
            program = "sh" if file_of(case).endswith(".sh") else "python3"
            model = _MODEL if case.needs.relay else ""
            path = self.folder / f"{case.id}.toml"
            path.write_text(
                _AGENT.format(id=case.id, model=model, program=program, file=file_of(case)), "utf-8"
            )
            agent = registry.add(installation.home, path)
            conditions = self._conditions(installation, case)
            (launches[case.id],) = launching.launch(
                installation, pack, [agent], conditions, _SPONSORS, again=False, say=_silent
            )
        return launches

    def _conditions(self, installation: Installation, case: Case) -> ScreeningConditions:
        small = sheet()
        text = small.text().replace('"max_output_tokens": 1000', '"max_output_tokens": 8000')
        prices = PriceSheet.from_data(json.loads(text))
        keep_sheet(installation.home, prices)
        caps = CapOverrides(
            agent_wall_ms=SHORT_WALL_MS if case.expected == "timeout" else None,
            memory_bytes=(256 if self.runtime == "runsc" else 128) * MIB,
            pids=128,
            output_bytes=MIB,
            artifact_bytes=DISK_BYTES,
        )
        size = WRITABLE_BYTES if case.needs.profile == "writable" else DISK_BYTES
        return ScreeningConditions(
            tries=1,
            caps=caps,
            network="relay-only",
            runtime=self.runtime,
            hardware_class=launching.hardware_class(),
            try_cap_nusd=CAP_NUSD,
            step_limit=1_000,
            prices_digest=prices.digest,
            disk=DiskCondition(mode=case.needs.profile, bytes=size, files=DISK_FILES),
        )

    def _keep(self, installation: Installation, seen: Seen, one: Launch, bundle: Path | None) -> None:
        (slot,) = queries.tries(installation.ledger, one.screening_id)
        seen.view = queries.show_try(installation.ledger, slot.row["id"])
        stored = certificates(installation.ledger, one.screening_id, CertificateKind.TRY)
        if len(stored) == 1:
            seen.certificate = predicate_of(stored[0])
        if bundle is not None:
            root = installation.trust_root()
            seen.verified = verify_screening_bundle(bundle, root, store=installation.store)
        if seen.report is not None and seen.report.manifest_digest is not None:
            store = installation.store
            manifest = EvidenceManifest.from_bytes(store.read(seen.report.manifest_digest, MIB))
            seen.files = {
                file.path: store.read(file.sha256, 256 * MIB) for file in manifest.files if file.sha256
            }
        seen.taken = [one for one in self.provider.taken if one.text == seen.case.id]


def name_of(one: Witnessed) -> str:
    """The case's id, which is its agent's name."""
    return str(one.order.agent["name"])


def file_of(case: Case) -> str:
    """The case's file in the bundle."""
    return f"{case.id}.sh" if case.lang == "sh" or case.is_solution else f"{case.id}.py"


def text_of(case: Case) -> str:
    """What the case's agent runs: its code, with the helpers before it, or a script that leaves it."""
    if case.is_solution:
        return f"cat > /workspace/solution.py <<'END-OF-SOLUTION'\n{case.code}END-OF-SOLUTION\n"
    if case.needs.helpers:
        return (ASSETS / "helpers.py").read_text("utf-8").replace("{case}", case.id) + case.code
    return case.code


def _silent(line: str) -> None:
    """Nobody reads along."""


@contextmanager
def engine_of(host: str | None = None) -> Iterator[Engine]:
    """A client of its own for the suite."""
    engine = Engine(host)
    try:
        yield engine
    finally:
        engine.close()
