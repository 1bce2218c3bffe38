"""An MCP server over streamable HTTP with one tool, `add`: initialize, tools/list and tools/call.

With a number as its argument, it takes that many seconds for its first answer.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW_S = float((sys.argv[1:] or ["0"])[0])
TOOL = {
    "name": "add",
    "description": "Adds two whole numbers.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}


def answered(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        time.sleep(SLOW_S)
        return {
            "protocolVersion": "2025-03-26",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "adder", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method != "tools/call":
        return {}
    given = params["arguments"]
    sys.stdout.write(f"add {given['a']} {given['b']}\n")
    sys.stdout.flush()
    return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}], "isError": False}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:  # a notification
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        result = answered(asked["method"], asked.get("params") or {})
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(405)  # no stream of its own
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
