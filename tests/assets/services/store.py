"""A key-value store over TCP, a line per request: SET, GET, QUIT (ends it), FILL and SPILL (use up space)."""

import os
import socketserver
import sys

VALUES: dict[str, str] = {}


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            words = line.decode().split()
            if words[0] == "SET":
                VALUES[words[1]] = words[2]
                answer = "OK"
            elif words[0] == "GET":
                answer = VALUES.get(words[1], "-")
            elif words[0] == "FILL":
                while True:
                    VALUES[str(len(VALUES))] = chr(97 + len(VALUES) % 26) * (1 << 20)
            elif words[0] == "SPILL":
                with open("/var/tmp/spilled", "wb", buffering=0) as out:
                    while True:
                        out.write(os.urandom(1 << 20))
            elif words[0] == "QUIT":
                os._exit(3)
            else:
                answer = "WHAT"
            self.wfile.write(f"{answer}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


sys.stdout.write("store is up\n")
sys.stdout.flush()
Server(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
