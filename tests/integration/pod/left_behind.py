"""Opens a pod of each kind with a sandbox in it, says so, and waits to be killed.

Arguments: folder for the relay's socket, base image Id, home label, name prefix.
"""

from __future__ import annotations

import signal
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from workers.sandbox.container import Container
from workers.sandbox.pod import SOCKET_NAME, Kind, Pod
from workers.sandbox.profile import Limits, create_body
from workers.sandbox.station import Station


class _Relay(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def main(folder: str, base_image: str, home: str, prefix: str) -> None:
    relay = socketserver.UnixStreamServer(str(Path(folder) / SOCKET_NAME), _Relay)
    (Path(folder) / SOCKET_NAME).chmod(0o666)
    threading.Thread(target=relay.serve_forever, daemon=True).start()
    station = Station(None, "assize.attempt")
    kinds: tuple[Kind, ...] = ("netns", "internal")
    for kind in kinds:
        labels = {"assize.home": home, "assize.attempt": f"{kind}/1"}
        pod = Pod.open(
            station,
            name=f"{prefix}-{kind}",
            base_image=base_image,
            socket_dir=Path(folder),
            labels=labels,
            runtime="runc",
            lifetime_s=300,
            kind=kind,
        )
        body = create_body(
            base_image,
            Limits(64 << 20, 1000, 64, 300),
            runtime="runc",
            grader=False,
            labels=labels,
            volumes={},
            workdir=None,
            network=pod.network_mode,
        )
        Container.create(station.engine, station.watch, f"{prefix}-{kind}-sandbox", body).start()
    sys.stdout.write("open\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
