"""The relays of one worker process: one per set of prices and providers, started when first needed.

In a screening that is one. A rehearsal brings the scripted provider with it, in a process of its own.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from orchestrator.attempts import RelayTerms
from orchestrator.errors import AssizeError
from orchestrator.prices.sheet import PriceSheet
from orchestrator.relay_folders import places
from workers.relay.accounts import real_providers, rehearsed_providers
from workers.relay.config import LaneKind, LaneOrder, Pin, Policy, RelayConfig
from workers.relay.errors import RelayError
from workers.relay.host_limits import limits_folder
from workers.relay.process import OpenLane, RelayProcess
from workers.relay.sockets import socket_folder


@dataclass
class _Relay:
    process: RelayProcess
    sockets: Path
    stack: ExitStack


class RelayHub:
    """Opens lanes for attempts; safe for many threads. Close it at the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._relays: dict[str, _Relay] = {}

    def open(
        self,
        terms: RelayTerms,
        attempt_id: str,
        kind: LaneKind = "agent",
        *,
        calls_until: float | None = None,
    ) -> OpenLane:
        """A lane for an attempt; raises `RelayError` when no relay can be had for these terms."""
        relay = self._relay(terms)
        order = LaneOrder(
            lane_id=f"{attempt_id}.{kind}",
            kind=kind,
            state_dir=lane_folder(terms.state_root, attempt_id, kind),
            socket_dir=relay.sockets / secrets.token_hex(8),
            pins=tuple(Pin(one.model, one.provider) for one in terms.models),
            cap_nusd=terms.cap_nusd,
            step_limit=terms.step_limit,
            policy=Policy(frozenset(terms.provider_tools)),
            rehearsal=_digest(terms.rehearsal),
            calls_until=calls_until,
        )
        return relay.process.open(order)

    def pids(self) -> list[int]:
        """The process ids of the relays that run."""
        with self._lock:
            return [relay.process.pid for relay in self._relays.values() if relay.process.alive]

    def close(self) -> None:
        """End every relay and scripted provider."""
        with self._lock:
            for relay in self._relays.values():
                relay.stack.close()
            self._relays.clear()

    def _relay(self, terms: RelayTerms) -> _Relay:
        key = json.dumps(
            [
                terms.prices_digest,
                str(terms.accounts),
                str(terms.rehearsal),
                sorted({one.provider for one in terms.models}),
            ]
        )
        with self._lock:
            found = self._relays.get(key)
            if found is not None and not found.process.alive:
                self._relays.pop(key).stack.close()
                found = None
            if found is None:
                found = self._relays[key] = self._start(terms)
            return found

    @staticmethod
    def _start(terms: RelayTerms) -> _Relay:
        with ExitStack() as stack:
            try:
                sheet = PriceSheet.load(terms.price_sheet)
                if sheet.digest != terms.prices_digest:
                    raise RelayError(f"the price sheet {terms.price_sheet} is not the one of the screening")
                names = {one.provider for one in terms.models}
                if terms.rehearsal is None:
                    providers = real_providers(terms.accounts, names)
                else:
                    # Brings a web server with it, which only a rehearsal needs.
                    from workers.rehearsal.process import RehearsalProcess

                    key = secrets.token_hex(16)
                    scripted = stack.enter_context(RehearsalProcess(terms.rehearsal, key=key))
                    providers = rehearsed_providers(scripted.base_url, key, names)
                sockets = stack.enter_context(socket_folder())
                limits = limits_folder(places()[0])
                process = RelayProcess(RelayConfig(providers, sheet.to_data(), limits_dir=limits))
                stack.callback(process.close)
            except (AssizeError, OSError) as error:
                raise RelayError(f"no relay: {error}") from None
            return _Relay(process, sockets, stack.pop_all())


def _digest(script: Path | None) -> str | None:
    try:
        return None if script is None else hashlib.sha256(script.read_bytes()).hexdigest()
    except OSError as error:
        raise RelayError(f"no rehearsal: {error}") from None


def lane_folder(state_root: Path, attempt_id: str, kind: LaneKind) -> Path:
    """Where the transcript of a lane lies while its attempt runs, and after a crash."""
    return state_root / attempt_id / kind


def forget_lanes(state_root: Path, attempt_id: str) -> None:
    """Remove the working files of an attempt whose transcript is evidence now."""
    shutil.rmtree(state_root / attempt_id, ignore_errors=True)
