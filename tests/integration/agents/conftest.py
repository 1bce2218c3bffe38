"""Real agents: packed once per version, profile and kind of sandbox into pytest's own cache folder.

The packages come from npm and PyPI, as their users get them; what is packed is run in sandboxes only.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from orchestrator.agents.packed import load_packed
from orchestrator.agents.packing.interpreter import Interpreter
from orchestrator.agents.packing.pack import Wish, pack
from orchestrator.agents.packing.python import ask_image
from orchestrator.agents.profile import find_profile, parse_profile
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.agents.revision import ModelRole, ParsedRevision
from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport, Caps, PinnedModel, RelayTerms
from orchestrator.evidence import metering
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import Chain, read
from orchestrator.home import Home
from orchestrator.prices.sheet import PriceSheet
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.orders import plain_agent
from orchestrator.screenings.relaying import Metering
from orchestrator.screenings.wires import wire_of
from sandbox_images.host import apt_install
from tests.assets.services.engines import Engines
from workers.attempt.runner import AttemptRunner
from workers.rehearsal.script import find_script
from workers.sandbox.client import Engine

VERSIONS: Final[Mapping[str, str]] = {
    "claude-code": "2.1.332",
    "codex": "0.171.0",
    "gemini-cli": "0.61.0",
    "mini-swe-agent": "2.4.6",
    "opencode": "1.18.33",
}
FORMAT: Final = "3"
"""Raise when bundles are packed in another way, so that cached ones are not used."""
MIB: Final = 1 << 20
CAPS: Final = Caps(120_000, 20_000, 2048 * MIB, 2000, 512, 8 * MIB, 64 * MIB)
LOCK: Final = Path(__file__).parents[2] / "assets" / "clients" / "clients.lock"
MODELS: Final[Mapping[str, str]] = {
    "claude-code": "rehearsal-anthropic",
    "codex": "rehearsal-openai",
    "gemini-cli": "rehearsal-google",
    "mini-swe-agent": "rehearsal-openai",
    "opencode": "rehearsal-openai",
}


def _constraints(folder: Path) -> Path:
    """The versions of the clients' lock; without its hashes, since the lock leaves some packages out."""
    words = [line.split(" ")[0] for line in LOCK.read_text("utf-8").splitlines()]
    lines = [word for word in words if "==" in word]
    path = folder / "constraints.txt"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


@pytest.fixture(scope="session")
def packed_agent(
    pytestconfig: pytest.Config, engine: Engine, base_image: str
) -> Callable[[str], ParsedRevision]:
    """Gives the packed bundle of a built-in profile; packs it where it is not cached."""
    assert pytestconfig.cache is not None
    cache = pytestconfig.cache.mkdir("assize-agents")

    def get(name: str) -> ParsedRevision:
        text = find_profile(name).read_text("utf-8")
        pip = parse_profile(text, name).package.pip
        image = ask_image(engine.api, base_image) if pip else None
        parts = (
            text,
            VERSIONS[name],
            FORMAT,
            base_image if image else "",
            LOCK.read_text("utf-8") if image else "",
        )
        place = cache / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        if not place.exists():
            if image is None and shutil.which("npm") is None:
                apt_install(
                    ["npm"], lambda line: None, why="agents of the npm registry are packed by its client"
                )
            with tempfile.TemporaryDirectory(dir=cache, prefix="packing-") as folder:
                bundle, scratch = Path(folder, "bundle"), Path(folder, "scratch")
                bundle.mkdir()
                scratch.mkdir()
                constraints = _constraints(Path(folder)) if image else None
                wish = Wish(text, VERSIONS[name], constraints=constraints, image=image)
                if image is not None:
                    wish = replace(wish, interpreter=Interpreter(engine.api, base_image))
                pack(wish, bundle, scratch, lambda line: None)
                if not place.exists():  # another run may have been quicker
                    bundle.rename(place)
        return load_packed(place)

    return get


@pytest.fixture
def registered(packed_agent: Callable[[str], ParsedRevision]) -> Callable[[str], RegisteredAgent]:
    """The same as an agent that can be run, in no home's register."""

    def get(name: str) -> RegisteredAgent:
        parsed = packed_agent(name)
        return RegisteredAgent(parsed.revision, parsed.revision.digest, parsed.bundle_dir, builtin=False)

    return get


@pytest.fixture
def installation(tmp_path: Path, engine: Engine) -> Iterator[Installation]:
    """A home of its own, and afterwards none of its volumes."""
    made = Installation.open(Home(tmp_path / "home"))
    yield made
    for volume in engine.api.volumes(filters={"label": f"assize.home={made.label}"})["Volumes"] or []:
        engine.api.remove_volume(volume["Name"])
    made.close()


@dataclass(frozen=True)
class Seen:
    """The files of one attempt's evidence by path."""

    files: Mapping[str, bytes]

    @classmethod
    def of(cls, store: EvidenceStore, manifest_digest: str | None) -> Seen:
        """All that is not withheld."""
        assert manifest_digest is not None
        manifest = EvidenceManifest.from_bytes(store.read(manifest_digest, MIB))
        return cls({one.path: store.read(one.sha256, 64 * MIB) for one in manifest.files if one.sha256})

    @cached_property
    def chain(self) -> Chain:
        """The transcript, checked link by link."""
        return read(self.files[metering.TRANSCRIPT_FILE])

    @cached_property
    def ledger(self) -> list[dict[str, Any]]:
        """One line per metered call."""
        return [json.loads(line) for line in self.files[metering.FILE_NAME].splitlines()]

    @cached_property
    def sandbox(self) -> Any:
        """The sandbox report."""
        return json.loads(self.files["sandbox-report.json"])

    @cached_property
    def command(self) -> Any:
        """How the agent was started and ended."""
        return json.loads(self.files["agent/command.json"])


@pytest.fixture
def seen_in() -> Callable[[EvidenceStore, str | None], Seen]:
    """Evidence in any store, by the digest of its manifest."""
    return Seen.of


@pytest.fixture
def assize(engines: Engines) -> Callable[..., tuple[int, Any, str]]:
    """The program as a process of its own: exit code, its JSON (None without any), its messages."""

    def run(home: Path, *arguments: str) -> tuple[int, Any, str]:
        done = engines.assize(home, *arguments, "--json")
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    return run


@pytest.fixture
def evidence_of(installation: Installation) -> Callable[[str | None], Seen]:
    """Evidence in the home's own store, by the digest of its manifest."""
    return lambda digest: Seen.of(installation.store, digest)


@pytest.fixture
def run_agent(
    runner: AttemptRunner,
    control: AttemptControl,
    make_order: Callable[..., AttemptOrder],
    registered: Callable[[str], RegisteredAgent],
    base_image: str,
    tmp_path: Path,
) -> Callable[..., tuple[AttemptReport, Seen]]:
    """Runs a packed agent on the hello task against a script; `changes` are those of its order."""
    sheet = PriceSheet.bundled()
    prices = tmp_path / "prices.json"
    prices.write_text(sheet.text(), "utf-8")

    def run(name: str, script: str, cap_nusd: int = 10**9, **changes: Any) -> tuple[AttemptReport, Seen]:
        agent = registered(name)
        model = PinnedModel("main", MODELS[name], "rehearsal")
        revision = agent.revision.with_model(ModelRole(role="main", id=model.model, provider=model.provider))
        terms = RelayTerms(
            models=(model,),
            cap_nusd=cap_nusd,
            step_limit=50,
            provider_tools=(),
            price_sheet=prices,
            prices_digest=sheet.digest,
            accounts=tmp_path / "providers.toml",
            rehearsal=find_script(script),
            state_root=tmp_path / "relay",
            forwarder_image=base_image,
        )
        wire = wire_of(revision, [model], lambda provider: ())
        given: dict[str, Any] = {
            "agent": plain_agent(revision, Metering(terms, wire, 8192)),
            "bundle_dir": agent.bundle_dir,
            "bundle_digest": revision.bundle_digest,
            "agent_user": "1000:1000",
            "instruction": "Create hello.txt in the current folder, with the word hello in it.\n",
            "caps": CAPS,
            "relay": terms,
        }
        order = make_order(
            "true",
            'test "$(cat /tmp/hello.txt)" = hello && echo 1 > /logs/verifier/reward.txt',
            **{**given, **changes},
        )
        report = runner(order, control)
        return report, Seen.of(EvidenceStore(order.evidence_root), report.manifest_digest)

    return run
