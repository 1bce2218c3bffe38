"""`kill -9` of the relay, and of the whole worker, in the middle of a streamed model call.

Issue 4 deliver 10: what was spent is what the transcript on disk says, settled and held; the platform pays
it; what was said so far is evidence; the try is run again by a new relay, and nothing is left behind.
"""

from __future__ import annotations

import base64
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from orchestrator.evidence.manifest import MANIFEST_LIMIT_BYTES, EvidenceManifest
from orchestrator.evidence.transcript import ledger_of, read
from orchestrator.ledger import invariants, queries
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.relay_folders import places
from workers.sandbox.bundles import LIVE_KIND
from workers.sandbox.client import Engine
from workers.sandbox.reaper import ATTEMPT_LABEL

if TYPE_CHECKING:
    from orchestrator.ledger.queries import AttemptView
    from orchestrator.screenings.installation import Installation
    from tests.assets.programs.forks import Forked
    from tests.assets.relayed.product import Product
    from tests.assets.relayed.provider import Provider

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("databases")]

KEY = "sk-house-0123456789abcdef"
EXACT_NUSD = 30_000
SCRIPT = "assert ask('fine') == 200\ndone()\nask('hold there', stream=True)\n"


class Drill:
    """The product, the modules it is made of, and what was on disk at the moment of the blow."""

    def __init__(self, folder: Path, provider: Provider, shared: ModuleType) -> None:
        self.shared, self.provider = shared, provider
        self.product: Product = shared.Product.made(folder, SCRIPT, provider.base_url, KEY)
        self.gate = provider.gates["there"]
        self.struck = b""

    def wait_for_stream(self, process: Forked) -> int:
        """Wait until the relay has the first piece of the second answer on its way; returns its pid."""
        self.shared.wait_until(lambda: self._streaming() or process.poll() is not None, self.gate.go.wait)
        assert process.poll() is None, self.product.errors()
        (relay,) = self.shared.relays_of(process.pid)
        return int(relay)

    def _streaming(self) -> bool:
        found = self.product.transcripts()
        self.struck = found[0].read_bytes() if found else b""
        return b'"call":2,"kind":"head"' in self.struck

    def wait_for(self, met: Callable[[], object]) -> None:
        """Wait for a fact, looking often."""
        self.shared.wait_until(met, self.gate.go.wait)

    def bundle(self, installation: Installation) -> Path:
        """The screening's one file."""
        (screening,) = queries.screenings(installation.ledger)
        return Path(self.product.home, "certificates", screening["id"], "screening.zip")

    def check_money(self, installation: Installation, reason: str) -> list[AttemptView]:
        """The two attempts of the one try, their spending, and a ledger without contradictions."""
        (screening,) = queries.screenings(installation.ledger)
        assert screening["state"] == "complete"
        assert invariants.violations(installation.ledger) == []
        (slot,) = queries.tries(installation.ledger, screening["id"])
        attempts = list(queries.show_try(installation.ledger, slot.row["id"]).attempts)
        ends = [(one.row["outcome"], one.row["reason"]) for one in attempts]
        assert ends == [("platform_fault", reason), ("passed", "all_checks_passed")]
        money = ledger_of(read(self.struck).records)
        assert money.settled_nusd == EXACT_NUSD and list(money.open_holds) == [2]
        assert list(attempts[0].spend) == [("platform", money.spent_nusd)]
        assert [nusd for _, nusd in attempts[1].spend] == [2 * EXACT_NUSD]
        return attempts

    def check_evidence(self, installation: Installation, attempt: AttemptView) -> None:
        """The struck attempt's transcript is evidence as it was, and its certificate says what it used."""
        store = installation.store
        assert attempt.manifest_digest is not None
        manifest = EvidenceManifest.from_bytes(store.read(attempt.manifest_digest, MANIFEST_LIMIT_BYTES))
        files = {file.path: file.sha256 for file in manifest.files}
        kept = store.read(files["relay/transcript.jsonl"] or "", 1 << 20)
        assert kept == self.struck[: len(kept)] and b'"call":2,"kind":"head"' in kept
        usage = self._predicate(installation, attempt)["usage"]
        assert (usage["metered"], usage["requests"], usage["costNusd"]) == (True, 2, None)
        assert usage["transcript"]["head"]["sha256"] == read(kept).head

    @staticmethod
    def _predicate(installation: Installation, attempt: AttemptView) -> Mapping[str, Any]:
        stored = certificates(installation.ledger, attempt.row["screening_id"], CertificateKind.TRY)
        (envelope,) = [one.envelope for one in stored if one.digest == attempt.certificate_digest]
        statement: Mapping[str, Any] = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
        predicate: Mapping[str, Any] = statement["predicate"]
        return predicate

    def check_nothing_left(self, engine: Engine, label: str, relays: list[int], workers: list[int]) -> None:
        """No container, network or volume but the agent's bundle, which the home keeps; no relay, no folder
        of sockets, no working files."""
        filters = {"label": f"assize.home={label}"}
        assert engine.api.containers(all=True, filters=filters) == []
        assert engine.api.networks(filters=filters) == []
        volumes = engine.api.volumes(filters=filters)["Volumes"] or []
        assert {one["Labels"][ATTEMPT_LABEL].partition("/")[0] for one in volumes} == {LIVE_KIND}
        assert self.product.transcripts() == [] and list(self.product.home.glob("relay/*")) == []
        self.wait_for(lambda: not any(self.shared.proc(pid, "cmdline") for pid in relays))
        folders = [found.name for parent in places() for found in parent.glob("assize-relay-*")]
        assert [name for name in folders if int(name.split("-")[2]) in workers] == []


@pytest.fixture
def drill(tmp_path: Path, provider: Provider, relayed: Callable[[str], ModuleType]) -> Drill:
    relayed("house")
    return Drill(tmp_path, provider, relayed("product"))


@contextmanager
def installation_of(drill: Drill) -> Iterator[Installation]:
    found = drill.product.opened()
    try:
        yield found
    finally:
        found.close()


def test_kill_9_of_the_relay_in_a_stream(drill: Drill, engine: Engine) -> None:
    """The attempt ends by the platform's fault, and a new relay serves its re-run in the same worker."""
    process = drill.product.screen()
    relay = drill.wait_for_stream(process)
    os.kill(relay, signal.SIGKILL)
    drill.wait_for(lambda: drill.provider.texts().count("hold there") == 2)
    (successor,) = drill.shared.relays_of(process.pid)
    assert successor != relay
    drill.gate.go.set()
    assert process.wait(120) == 0, drill.product.errors()
    with installation_of(drill) as installation:
        first, _ = drill.check_money(installation, "relay_fault")
        drill.check_evidence(installation, first)
        drill.check_nothing_left(engine, installation.label, [relay, successor], [process.pid])
        assert drill.product.said("verify", str(drill.bundle(installation)))["exit"] == 0
    assert "Traceback" not in drill.product.errors()


def test_kill_9_of_the_worker_in_a_stream_then_the_same_command(drill: Drill, engine: Engine) -> None:
    """The restart books what the lost attempt held, seals its transcript, and runs the try once more."""
    process = drill.product.screen()
    relay = drill.wait_for_stream(process)
    process.kill()
    process.wait(30)
    struck = drill.struck
    again = drill.product.screen()
    drill.wait_for(lambda: drill.provider.texts().count("hold there") == 2)
    drill.gate.go.set()
    assert again.wait(120) == 0, drill.product.errors()
    (resumed,) = drill.product.events("resumed")
    assert resumed["lost"] == 1 and drill.struck == struck
    with installation_of(drill) as installation:
        first, _ = drill.check_money(installation, "worker_lost")
        drill.check_evidence(installation, first)
        drill.check_nothing_left(engine, installation.label, [relay], [process.pid, again.pid])
        assert drill.product.said("verify", str(drill.bundle(installation)))["exit"] == 0
    assert "Traceback" not in drill.product.errors()
