"""The preflight alone: for a namespace without a way to the relay, and for those of a task's own services.

Laid into the forwarder's image and run like it. One line of JSON goes to stdout; then it holds the namespace
for its lifetime, or ends at once.
"""

from __future__ import annotations

import json
import os
import time

from workers.sandbox.forwarder.probes import preflight


def main(arguments: list[str]) -> None:
    """LIFETIME_S [TARGET..]; a target is an `address:port` to probe beside the usual ones."""
    until = time.monotonic() + float(arguments[0])
    targets = [(name, int(at)) for name, _, at in (target.rpartition(":") for target in arguments[1:])]
    os.write(1, json.dumps(preflight(None, targets)).encode() + b"\n")
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(left_s)
