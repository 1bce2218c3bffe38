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

from workers.sandbox.forwarder.probes import preflight
from workers.sandbox.forwarder.pump import Forwarder, open_listener

RELAY_SOCKET = "/relay/relay.sock"


def _announce(port: int, more_targets: list[tuple[str, int]]) -> None:
    os.write(1, json.dumps(preflight(port, more_targets)).encode() + b"\n")


def _end_all(failed: threading.ExceptHookArgs) -> None:
    """A preflight that fails itself ends the process: it must not be left serving."""
    threading.__excepthook__(failed)
    os._exit(1)


def main(arguments: list[str]) -> None:
    """HOST PORT LIFETIME_S [TARGET..], each target an `address:port` that must not be reachable either."""
    host, port, lifetime_s = arguments[0], int(arguments[1]), float(arguments[2])
    listener = open_listener(host, port)
    until = time.monotonic() + lifetime_s
    more = [(name, int(at)) for name, _, at in (target.rpartition(":") for target in arguments[3:])]
    threading.excepthook = _end_all
    forwarder = Forwarder(listener, RELAY_SOCKET)
    threading.Thread(target=_announce, args=(port, more), daemon=True).start()
    forwarder.serve(until)
