"""A house with one provider account: orders for agents that call its model, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport, Caps, PinnedModel, RelayTerms
from orchestrator.evidence import metering
from orchestrator.evidence.manifest import EvidenceManifest
from orchestrator.evidence.store import EvidenceStore
from orchestrator.evidence.transcript import Chain, Ledger, ledger_of, read
from orchestrator.prices.sheet import PriceSheet

if TYPE_CHECKING:
    from workers.attempt.runner import AttemptRunner
    from workers.relay.process import OpenLane

MODEL: Final = "house-model"
NAME: Final = "house"
INPUT_NUSD: Final = 1_000
OUTPUT_NUSD: Final = 4_000
EXACT_NUSD: Final = 10 * INPUT_NUSD + 5 * OUTPUT_NUSD
"""What the provider's usual answer costs."""
MIB: Final = 1 << 20
CAPS: Final = Caps(60_000, 20_000, 512 * MIB, 2000, 256, 4 * MIB, 8 * MIB)
WANT_DONE: Final = (
    'if [ "$(cat /tmp/out.txt 2>/dev/null)" = done ]; then echo 1; else echo 0; fi'
    " > /logs/verifier/reward.txt"
)
INSIDE: Final = (Path(__file__).parent / "inside.py").read_text("utf-8")


def sheet() -> PriceSheet:
    """One model at round prices, on every day."""
    rates = {
        "input": INPUT_NUSD * 10**6,
        "output": OUTPUT_NUSD * 10**6,
        **dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h", "audio_input", "audio_output")),
    }
    entry = {
        "provider": NAME,
        "ids": [MODEL],
        "valid_from": "2020-01-01",
        "valid_to": None,
        "standard": rates,
        "tiers": [],
        "windows": [],
        "per_call": {},
        "max_output_tokens": 1000,
        "source": "fictional",
        "retrieved": "2020-01-01",
        "reviewed": True,
    }
    return PriceSheet.from_data(
        {"format": "assize.prices/1", "id": "house", "date": "2020-01-01", "entries": [entry]}
    )


def write_accounts(folder: Path, base_url: str, key: str) -> Path:
    """`providers.toml` in `folder`, with the key in a file beside it; returns its path."""
    (folder / "key").write_text(key + "\n", "utf-8")
    path = folder / "providers.toml"
    families = ("openai-chat", "openai-responses", "anthropic-messages", "google-generate-content")
    lines = (f"[provider.{NAME}]", f'base_url = "{base_url}"', f"families = {json.dumps(families)}")
    path.write_text("\n".join((*lines, f'key_file = "{folder / "key"}"', "")), "utf-8")
    return path


@dataclass(frozen=True)
class Ran:
    """One attempt's report and the files of its evidence by path."""

    report: AttemptReport
    files: Mapping[str, bytes]

    @property
    def end(self) -> tuple[str, str]:
        """Outcome and reason."""
        return self.report.decision.outcome.value, self.report.decision.reason.value

    @property
    def seen(self) -> Mapping[str, Any]:
        """The observation vector."""
        return self.report.observations

    @cached_property
    def shown(self) -> list[Any]:
        """What the agent showed, a line each."""
        out = self.files["agent/stdout.txt"]
        assert out, self.files["agent/stderr.txt"].decode()
        return [json.loads(line) for line in out.splitlines()]

    @cached_property
    def chain(self) -> Chain:
        """The transcript, checked link by link."""
        return read(self.files[metering.TRANSCRIPT_FILE])

    @property
    def money(self) -> Ledger:
        """The money that follows from the transcript."""
        return ledger_of(self.chain.records)

    def records(self, kind: str) -> list[Mapping[str, Any]]:
        """The transcript's records of one kind."""
        return [one for one in self.chain.records if one["kind"] == kind]

    def denied(self) -> list[str]:
        """The codes of all recorded refusals."""
        return [one["data"]["code"] for one in self.records("deny")]


class Quiet:
    """An attempt's control that never cancels."""

    def phase(self, phase: object) -> None:
        pass

    def cancelled(self) -> bool:
        return False

    def calls_until(self) -> float | None:
        return None


class House:
    """Makes orders and runs them; `lanes` has the lane of every attempt that was begun, by attempt id."""

    def __init__(
        self,
        folder: Path,
        base_url: str,
        key: str,
        base_image: str,
        runner: AttemptRunner,
        make_order: Callable[..., AttemptOrder],
    ) -> None:
        self._runner, self._make_order = runner, make_order
        self.lanes: dict[str, OpenLane] = {}
        self.folder = folder
        prices = folder / "prices.json"
        found = sheet()
        prices.write_text(found.text(), "utf-8")
        self.terms = RelayTerms(
            models=(PinnedModel("main", MODEL, NAME),),
            cap_nusd=1_000_000_000,
            step_limit=100,
            provider_tools=(),
            price_sheet=prices,
            prices_digest=found.digest,
            accounts=write_accounts(folder, base_url, key),
            rehearsal=None,
            state_root=folder / "relay",
            forwarder_image=base_image,
        )

    def order(
        self, script: str, *, wall_ms: int | None = None, caps: Caps = CAPS, **terms: Any
    ) -> AttemptOrder:
        """An order for an agent that is this Python script; `terms` change the relay's."""
        agent = {"kind": "exec", "name": "scripted", "version": "1"}
        return self._make_order(
            "true",
            WANT_DONE,
            agent={**agent, "run": {"command": ["python3", "-c", INSIDE + script], "env": {}}},
            caps=caps if wall_ms is None else replace(caps, agent_wall_ms=wall_ms),
            relay=replace(self.terms, **terms),
        )

    def run(self, order: AttemptOrder, control: AttemptControl | None = None) -> Ran:
        """Run one order to its end, under a control of the test's or under none."""
        report = self._runner(order, control or Quiet())
        assert report.manifest_digest is not None, report.observations
        store = EvidenceStore(order.evidence_root)
        manifest = EvidenceManifest.from_bytes(store.read(report.manifest_digest, MIB))
        files = {file.path: store.read(file.sha256, 256 * MIB) for file in manifest.files if file.sha256}
        return Ran(report, files)

    def run_all(self, orders: Mapping[str, AttemptOrder], at_once: int = 4) -> dict[str, Ran]:
        """Run orders side by side; what came of them by name."""
        with ThreadPoolExecutor(at_once) as pool:
            running = {name: pool.submit(self.run, order) for name, order in orders.items()}
            return {name: one.result() for name, one in running.items()}
