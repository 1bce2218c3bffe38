"""Put before the code of an agent that calls models: `call` and `open_stream` with the standard library.

Like the vendors' clients, both raise for an answer that is not 200.
"""

import http.client
import json
import os
from typing import Any

CASE = "{case}"


def _asked(fields: dict[str, Any], stream: bool) -> tuple[Any, Any]:
    connection = http.client.HTTPConnection(os.environ["RELAY_HOST"], timeout=30)
    body = {
        "model": os.environ["ASSIZE_MODEL"],
        "messages": [{"role": "user", "content": CASE}],
        **fields,
        **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}),
    }
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["RELAY_TOKEN"]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}: {answer.read(200)!r}")
    return connection, answer


def call(**fields: Any) -> Any:
    connection, answer = _asked(fields, False)
    try:
        return json.loads(answer.read())
    finally:
        connection.close()


def open_stream(**fields: Any) -> Any:
    return _asked(fields, True)[1]
