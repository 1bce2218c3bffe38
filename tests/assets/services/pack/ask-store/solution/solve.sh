#!/bin/bash
set -e
python3 - <<'END'
import json, os, socket, urllib.request

with socket.create_connection(("store", 6379), 10) as line:
    line.sendall(b"SET first 2\nGET first\n")
    lines = line.makefile()
    lines.readline()
    first = int(lines.readline())
server = json.load(open(os.environ["ASSIZE_MCP_CONFIG"]))["mcpServers"]["adder"]
asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
asked["params"] = {"name": "add", "arguments": {"a": first, "b": 40}}
request = urllib.request.Request(server["url"], json.dumps(asked).encode())
answer = json.load(urllib.request.urlopen(request, timeout=10))
open("/app/out.txt", "w").write(answer["result"]["content"][0]["text"])
END
