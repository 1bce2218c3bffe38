"""A worker process for one screening, on a machine of its own as far as the ledger can tell.

Started as `unshare --mount python worker_on_host.py HOME PACK MACHINE [--bent]`: what the machine calls
itself is laid over /etc/machine-id in this mount namespace only. `--bent` lets every question about a running
command fail in the engine's place, which an agent might have brought about. Prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from orchestrator.agents import registry
from orchestrator.home import Home
from orchestrator.ledger import queries
from orchestrator.ledger.owners import this_process
from orchestrator.packs.pack import implicit_pack
from orchestrator.planning.conditions import ScreeningConditions
from orchestrator.screenings.installation import Installation
from orchestrator.screenings.launch import hardware_class, launch, run
from orchestrator.screenings.opening import Sponsors
from workers.attempt.runner import AttemptRunner
from workers.faultline.proxy import EngineProxy, Rule
from workers.sandbox.client import DEFAULT_SOCKET

ASKED = r"^GET /exec/[0-9a-f]+/json$"


def become(machine: Path) -> None:
    """Lay another machine's name over this one's, in this namespace only."""
    command = ["mount", "--bind", str(machine), "/etc/machine-id"]
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(command, check=True)


def worked(home: Path, pack: Path, host: str | None) -> dict[str, Any]:
    """One screening of one try, and how its attempts ended."""
    installation = Installation.open(Home(home))
    try:
        agent = registry.resolve(installation.home, "oracle")
        sponsors = Sponsors("test:local", "test:local", "test:local")
        conditions = ScreeningConditions(tries=1, hardware_class=hardware_class())
        planned = launch(
            installation,
            implicit_pack(pack),
            [agent],
            conditions,
            sponsors,
            again=True,
            say=lambda line: None,
        )
        run(
            installation,
            planned,
            parallel=1,
            progress=lambda event: None,
            guard=lambda engine: contextlib.nullcontext(),
            make_runner=lambda: AttemptRunner(host),
        )
        (slot,) = queries.tries(installation.ledger, planned[0].screening_id)
        found = queries.show_try(installation.ledger, slot.row["id"])
        keys = ("outcome", "reason", "suspect", "attempt_no")
        attempts = [{key: one.row[key] for key in keys if key in one.row} for one in found.attempts]
        return {"slot": slot.row["id"], "state": str(found.row["state"]), "attempts": attempts}
    finally:
        installation.close()


def main(home: str, pack: str, machine: str, *flags: str) -> None:
    """See the module."""
    become(Path(machine))
    with contextlib.ExitStack() as stack:
        rule = Rule(ASKED, refuse=(500, "context deadline exceeded"), always=True)
        host = stack.enter_context(EngineProxy(DEFAULT_SOCKET, rule)) if "--bent" in flags else None
        told = worked(Path(home), Path(pack), host)
    sys.stdout.write(json.dumps({**told, "host": this_process().host}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
