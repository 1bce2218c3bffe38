"""What the relay adds to a call on loopback, in the same run: latency, lag of chunks, memory, throughput.

Three processes: a provider with canned answers (`relay_provider.py`), a real relay with one lane, and this
one as the client (`relay_load.py`). Every round does the same work straight to the provider and through the
relay, back to back; what is reported is the median over the rounds, of the difference or of the ratio, so
that other work on the machine disturbs least. A wrong answer, or a call that the relay did not meter
exactly, fails the bench.

With `ASSIZE_BENCH_LITELLM` naming a virtual environment that holds `litellm[proxy]`, its proxy (one worker,
no database, the same provider) takes part in the rounds of 16 at a time; without it that line says `skipped`.
Measured on 2026-11-30 with litellm 1.108.7 and LITELLM_MODE=PRODUCTION on two cores with some other work on
them: medians of 21.9x and 23.1x in two runs (947 calls a second against 45; 0.98 against 22.7 ms of CPU).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.relay.config import LaneOrder, Pin, Provider, RelayConfig
from workers.relay.process import OpenLane, RelayProcess

if TYPE_CHECKING:
    from tests.bench.relay_load import Measured, Target, Work, drive
    from tests.bench.relay_provider import MODEL
else:  # a script's neighbours, see `make bench`
    from relay_load import Measured, Target, Work, drive
    from relay_provider import MODEL

HERE: Final = Path(__file__).resolve().parent
WARM_UP = (Work(100, 4), Work(6, 2, stream=True))
CALLS, CALL_ROUNDS, CALL_BAR_MS = Work(200), 9, 1.0
STREAMS, STREAM_ROUNDS, STREAM_BAR_MS = Work(25, stream=True), 9, 4.0
PACED, PACED_ROUNDS, LAG_BAR_MS = Work(1, stream=True, paced=True), 5, 0.3
MANY, MANY_ROUNDS, LITELLM_BAR = Work(480, 16), 15, 20.0
FEW = Work(160, 16)
"""What the slower peer does in the time."""
MEMORY_BAR_MB = 60.0
LITELLM_BOOT_S = 90.0
LITELLM_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
}


@dataclass
class Bench:
    """The arms of every comparison, and the sum of what went wrong in them."""

    provider_port: int
    direct: Target
    relayed: Target
    relay: RelayProcess
    lane: OpenLane
    relayed_calls: int = 0
    bad: int = 0

    def rounds(self, work: Work, count: int) -> Iterator[tuple[Measured, Measured]]:
        """(direct, relayed), `count` times."""
        for _ in range(count):
            yield self.run(self.direct, work), self.run(self.relayed, work)

    def run(self, target: Target, work: Work) -> Measured:
        """One piece of work in one arm."""
        found = asyncio.run(drive(target, work))
        self.bad += found.bad
        if target is self.relayed:
            self.relayed_calls += work.calls
        return found


def report(name: str, value: float, bar: float, unit: str, *, at_least: bool = False, **more: float) -> bool:
    """One JSON line; False when the bar is missed, which is an upper one unless `at_least`."""
    ok = value >= bar if at_least else value <= bar
    line = {"name": name, "ratio": round(value, 4), "bar": bar, "unit": unit, "ok": ok, **more}
    click.echo(json.dumps(line))
    return ok


def price_sheet() -> dict[str, Any]:
    """One model, priced so that every call is metered like a real one."""
    rates = {"input": 250_000_000, "output": 2_000_000_000, "cache_read": 25_000_000}
    others = ("cache_write_5m", "cache_write_1h", "audio_input", "audio_output")
    entry = {
        "provider": "bench",
        "ids": [MODEL],
        "valid_from": "2020-01-01",
        "valid_to": None,
        "standard": {**rates, **dict.fromkeys(others)},
        "tiers": [],
        "windows": [],
        "per_call": {},
        "max_output_tokens": 16_384,
        "source": "fictional",
        "retrieved": "2020-01-01",
        "reviewed": True,
    }
    return {"format": "assize.prices/1", "id": "bench", "date": "2020-01-01", "entries": [entry]}


@contextlib.contextmanager
def provider() -> Iterator[int]:
    """The canned provider; its port."""
    with subprocess.Popen(
        [sys.executable, str(HERE / "relay_provider.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())
        child.communicate()


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Bench]:
    """Provider, relay and lane, ended in that order's reverse."""
    with provider() as port:
        served = Provider("bench", f"http://127.0.0.1:{port}/v1", "sk-bench-not-a-real-key")
        relay = RelayProcess(RelayConfig((served,), price_sheet()))
        try:
            pins = (Pin(MODEL, "bench"),)
            order = LaneOrder("bench", "agent", folder / "lane", folder / "socket", pins, 10**15, 10**6)
            lane = relay.open(order)
            yield Bench(port, Target(port, "none"), Target(lane.socket, lane.token), relay, lane)
        finally:
            relay.close()


def added(bench: Bench, name: str, work: Work, rounds: int, bar_ms: float) -> bool:
    """What a call takes longer through the relay, by the medians of each round."""
    found = [(direct.p50_ms, relayed.p50_ms) for direct, relayed in bench.rounds(work, rounds)]
    return _report_added(name, found, bar_ms, "ms added to the median call")


def lag(bench: Bench) -> bool:
    """How much older a chunk is when the client has it."""
    found = [
        (statistics.median(direct.lags_ms), statistics.median(relayed.lags_ms))
        for direct, relayed in bench.rounds(PACED, PACED_ROUNDS)
    ]
    return _report_added("relay-chunk-lag", found, LAG_BAR_MS, "ms added to the median chunk, 5 ms apart")


def _report_added(name: str, found: Sequence[tuple[float, float]], bar_ms: float, unit: str) -> bool:
    more = sorted(relayed - direct for direct, relayed in found)
    return report(
        name,
        statistics.median(more),
        bar_ms,
        unit,
        least_ms=round(more[0], 3),
        most_ms=round(more[-1], 3),
        direct_ms=round(statistics.median(direct for direct, _ in found), 3),
        relayed_ms=round(statistics.median(relayed for _, relayed in found), 3),
    )


def memory(bench: Bench) -> bool:
    """What the relay process holds after all of that."""
    status = Path(f"/proc/{bench.relay.pid}/status").read_text()
    (kib,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")]
    return report("relay-memory", kib * 1024 / 1e6, MEMORY_BAR_MB, "MB resident")


def throughput(bench: Bench, folder: Path) -> bool:
    """Calls per second at 16 at a time: direct, relayed and, where there is one, LiteLLM's proxy."""
    where = os.environ.get("ASSIZE_BENCH_LITELLM")
    with contextlib.ExitStack() as stack:
        peer = stack.enter_context(litellm(Path(where), bench.provider_port, folder)) if where else None
        rows: list[tuple[float, ...]] = []
        for direct, relayed in bench.rounds(MANY, MANY_ROUNDS):
            theirs = bench.run(peer, FEW).per_second if peer is not None else 0.0
            rows.append((direct.per_second, relayed.per_second, theirs))
    shares: dict[str, float] = {
        "direct_per_s": round(statistics.median(row[0] for row in rows)),
        "relayed_per_s": round(statistics.median(row[1] for row in rows)),
    }
    if peer is None:
        line = {"name": "relay-throughput", "skipped": "ASSIZE_BENCH_LITELLM names no environment", **shares}
        click.echo(json.dumps(line))
        return True
    shares["litellm_per_s"] = round(statistics.median(row[2] for row in rows), 1)
    ratios = sorted(row[1] / row[2] for row in rows)
    shares |= {"least": round(ratios[0], 1), "most": round(ratios[-1], 1)}
    unit = "x of LiteLLM's proxy, at least"
    return report("relay-throughput", statistics.median(ratios), LITELLM_BAR, unit, at_least=True, **shares)


@contextlib.contextmanager
def litellm(environment: Path, port: int, folder: Path) -> Iterator[Target]:
    """LiteLLM's proxy with one worker and no database in front of the provider at `port`, warmed up."""
    own, key = _free_port(), "sk-bench-proxy"
    config = folder / "litellm.json"  # JSON is YAML
    parameters = {
        "model": f"openai/{MODEL}",
        "api_base": f"http://127.0.0.1:{port}/v1",
        "api_key": "sk-bench-not-a-real-key",
    }
    models = [{"model_name": MODEL, "litellm_params": parameters}]
    settings = {"model_list": models, "general_settings": {"master_key": key}}
    config.write_text(json.dumps({**settings, "litellm_settings": {"telemetry": False}}))
    program = environment / "bin" / "litellm"
    command: list[Path | str] = [program, "--config", config, "--host", "127.0.0.1", "--port", str(own)]
    with (
        open(folder / "litellm.log", "wb") as log,
        subprocess.Popen(
            [*command, "--num_workers", "1"],
            env={**os.environ, **LITELLM_ENVIRONMENT},
            stdout=log,
            stderr=log,
        ) as child,
    ):
        try:
            _wait_for_port(child, own)
            target = Target(own, key)
            asyncio.run(drive(target, Work(40, 4)))
            yield target
        finally:
            child.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for_port(child: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + LITELLM_BOOT_S
    while child.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise SystemExit(f"LiteLLM's proxy did not come up (exit status {child.poll()})")


def honest(bench: Bench) -> bool:
    """Nothing that was measured was wrong: every answer right, every relayed call metered exactly."""
    tally = bench.lane.close().state.tally
    good = report("relay-bad-answers", bench.bad, 0, "answers")
    missed = bench.relayed_calls - tally["exact"]
    return report("relay-calls-not-metered", missed, 0, "calls", calls=bench.relayed_calls) and good


def main() -> None:
    """All comparisons on one lane, the memory after them."""
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as bench:
        for target in (bench.direct, bench.relayed):
            for work in WARM_UP:
                bench.run(target, work)
        good = added(bench, "relay-json-call", CALLS, CALL_ROUNDS, CALL_BAR_MS)
        good &= added(bench, "relay-stream-of-200-chunks", STREAMS, STREAM_ROUNDS, STREAM_BAR_MS)
        good &= lag(bench)
        good &= throughput(bench, Path(name))
        good &= memory(bench)
        good &= honest(bench)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
