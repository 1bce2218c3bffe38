"""The forwarder: owns a sandbox's network namespace and passes bytes between a port there and the relay.

This package is laid into the forwarder's image and run alone: standard library only, and as few imports as
it takes, because its start is part of every try. The listener is open before anything else happens, so the
port is never free for anybody. Then one line of JSON, the preflight's facts, goes to stdout. Then it serves
until it is killed or its lifetime is over.
"""

from __future__ import annotations

import json
import os
import threading
import time

from workers.sandbox.forwarder import names
from workers.sandbox.forwarder.probes import preflight
from workers.sandbox.forwarder.pump import Forwarder, open_listener

RELAY_SOCKET = "/relay/relay.sock"
NOTE_NAMES = "note-names"


def _announce(port: int, more_targets: list[tuple[str, int]], note_names: bool) -> None:
    found = preflight(port, more_targets)
    # After the probes, which ask for a name as well, and before the worker goes on.
    server = names.open_server() if note_names else None
    os.write(1, json.dumps(found).encode() + b"\n")
    if server is not None:
        names.serve(server, 1)


def _end_all(failed: threading.ExceptHookArgs) -> None:
    """A preflight that fails itself ends the process: it must not be left serving."""
    threading.__excepthook__(failed)
    os._exit(1)


def main(arguments: list[str]) -> None:
    """HOST PORT LIFETIME_S [note-names] [TARGET..]; a target is an `address:port` to probe as well."""
    host, port, lifetime_s = arguments[0], int(arguments[1]), float(arguments[2])
    listener = open_listener(host, port)
    until = time.monotonic() + lifetime_s
    targets = [target for target in arguments[3:] if target != NOTE_NAMES]
    more = [(name, int(at)) for name, _, at in (target.rpartition(":") for target in targets)]
    threading.excepthook = _end_all
    forwarder = Forwarder(listener, RELAY_SOCKET)
    threading.Thread(target=_announce, args=(port, more, NOTE_NAMES in arguments[3:]), daemon=True).start()
    forwarder.serve(until)
