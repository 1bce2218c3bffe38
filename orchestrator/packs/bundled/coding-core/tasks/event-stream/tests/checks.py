"""Checks of event-stream: streams in many cuts, against a model of the rules."""

import base64
import json
import random

from harness import NODE, ask_node, check, equal, expect, node_test_run, once, put_tree, run, scratch

DRIVER = """
const { EventParser, parseAll, readEvents } = load('lib');
async function handle(q) {
  if (q.op === 'all') return parseAll(Buffer.from(q.bytes, 'base64'));
  if (q.op === 'read') {
    async function* stream() { for (const chunk of q.chunks) yield Buffer.from(chunk, 'base64'); }
    const found = [];
    for await (const event of readEvents(stream(), { onRetry: (ms) => found.push(ms) })) found.push(event);
    return found;
  }
  const log = [];
  const parser = new EventParser({ onEvent: (event) => log.push(event), onRetry: (ms) => log.push(ms) });
  const steps = [];
  for (const chunk of q.chunks) { parser.write(Buffer.from(chunk, 'base64')); steps.push([log.length, parser.lastEventId]); }
  parser.end();
  return { log, steps, last: parser.lastEventId };
}
"""


def model(data):
    """(events and retries in order, last event id) by the rules of the README."""
    text = data.decode("utf-8", "replace")
    text = text[1:] if text.startswith("\ufeff") else text
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]
    out, kind, buffer, pending, last = [], "", [], "", ""
    for line in lines:
        name, colon, value = line.partition(":")
        if not line:
            last = pending
            if buffer:
                out.append({"type": kind or "message", "data": "\n".join(buffer), "id": last})
            kind, buffer = "", []
            continue
        value = value[1:] if value.startswith(" ") else value
        if colon and not name:
            continue
        if name == "event":
            kind = value
        elif name == "data":
            buffer.append(value)
        elif name == "id" and "\0" not in value:
            pending = value
        elif name == "retry" and value and all(c in "0123456789" for c in value):
            out.append(int(value))
    return out, last


def b64(data):
    return base64.b64encode(data).decode()


def chunks(data, cuts):
    places = [0, *sorted(cuts), len(data)]
    return [b64(data[a:b]) for a, b in zip(places, places[1:])]


@once
def place():
    return scratch()


def parsed(*requests):
    answers = ask_node(DRIVER, list(requests), place())
    expect(all("ok" in answer for answer in answers), answers)
    return [answer["ok"] for answer in answers]


CASES = {
    "a simple event": "event: tick\ndata: 1\nid: 7\n\n",
    "several data lines": "data: a\ndata: b\ndata:\ndata: c\n\n",
    "blank lines in the data": "data\ndata\n\ndata:\n\n",
    "an event without data is not dispatched": "event: ping\n\ndata: x\n\n",
    "colons in the value": 'data: {"a": "b:c"}\ndata:::\n\n',
    "one blank after the colon goes, others stay": "data:  two\ndata: end  \ndata:\ttab\ndata: \n\n",
    "no blank after the colon": "data:x\nevent:y\nid:z\n\n",
    "field without a colon": "data\nevent\nid\n\nid: 1\ndata: x\n\nid\ndata: y\n\n",
    "comments": ": hi\n:\ndata: x\n:data: y\n\n: only a comment\n\n",
    "unknown fields and case": "Data: x\n data: y\ndata : z\nfoo: bar\ndata: ok\n\n",
    "the id stays": "id: 1\ndata: a\n\ndata: b\n\nid:\ndata: c\n\ndata: d\n\n",
    "an id alone counts from the empty line": "id: 9\n\ndata: a\n\n",
    "an id with a zero is ignored": "id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n",
    "an empty type is message": "event: x\nevent:\ndata: a\n\n",
    "type like an object property": "event: constructor\ndata: a\n\n",
    "CR LF": "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
    "CR": "data: a\rdata: b\r\rdata: c\r\r",
    "mixed line ends": "data: a\r\ndata: b\n\rdata: c\r\n\ndata: d\r\r\n\n",
    "a byte order mark at the start": "\ufeffdata: a\n\n",
    "a byte order mark elsewhere stays": "data: \ufeffa\n\n\ufeffdata: b\n\ndata: c\n\n",
    "two byte order marks": "\ufeff\ufeffdata: a\n\ndata: b\n\n",
    "umlauts and emoji": "data: \u00fc \u20ac \U0001F680\nid: \u00fc\n\n",
    "retry": "retry: 1500\nretry:0\nretry: 10s\nretry: -1\nretry: 1.5\nretry:\nretry: \u0661\nretry:  5\nretry: 007\ndata: x\n\n",
    "an unfinished event": "data: a\n\nid: 5\ndata: b\n",
    "an unfinished line": "data: a\n\ndata: b\n\ndata: c",
    "an unfinished empty line": "data: a\n",
    "nothing": "",
    "only line ends": "\n\r\n\r\r\n",
    "other line separators are text": "data: a\u2028b\u0085c\u000bd\u000ce\n\n",
}


@once
def batched():
    """All cases in few children: the answers of each case by title."""
    titles, requests = [], []
    for title, text in CASES.items():
        data = text.encode()
        for cuts in ([], range(1, len(data)), *([n] for n in range(1, len(data)))):
            titles.append(title)
            requests.append({"op": "steps", "chunks": chunks(data, cuts)})
    found = {title: [] for title in CASES}
    for title, answer in zip(titles, parsed(*requests)):
        found[title].append(answer)
    return found


def _add(title, text):
    @check(f"whole, byte by byte, and cut everywhere: {title}")
    def _one():
        wanted, last = model(text.encode())
        for answer in batched()[title]:
            equal([answer["log"], answer["last"]], [wanted, last])


for _title, _text in CASES.items():
    _add(_title, _text)


@check("malformed bytes become U+FFFD and do not disturb the rest")
def _malformed():
    data = b"data: a\xffb\n\ndata: \xc3\n\ndata: ok\n\n"
    for answer in parsed({"op": "steps", "chunks": chunks(data, [])}, {"op": "steps", "chunks": chunks(data, range(1, len(data)))}):
        equal([event["data"] for event in answer["log"]], ["a\ufffdb", "\ufffd", "ok"])


@check("random streams in random cuts")
def _random():
    rng = random.Random(5)
    parts = ["data", "event", "id", "retry", ":", ": ", "\n", "\n", "\n\n", "\r", "\r\n", "\r\n\r\n", " ", "x", "12", "\u00fc", "\u20ac", "\U0001F680", "\0", "\ufeff", "data: y\n"]
    streams, requests = [], []
    for _ in range(400):
        data = "".join(rng.choice(parts) for _ in range(rng.randrange(60))).encode()
        cuts = {rng.randrange(1, len(data)) for _ in range(rng.randrange(12))} if len(data) > 1 else set()
        streams.append(data)
        requests.append({"op": "steps", "chunks": chunks(data, cuts)})
    for data, answer in zip(streams, parsed(*requests)):
        wanted, last = model(data)
        expect([answer["log"], answer["last"]] == [wanted, last], f"{data!r}: {answer['log']!r}, expected {wanted!r}")


@check("events arrive with the line end that completes them")
def _prompt():
    parts = [b"data: a\n", b"\n", b"data: b\r", b"\r", b"\n", b"data: c\r\n", b"\r", b"\nid: 4\ndata: d\r", b"\n\r", b"\n"]
    (answer,) = parsed({"op": "steps", "chunks": [b64(part) for part in parts]})
    equal([step[0] for step in answer["steps"]], [0, 1, 1, 2, 2, 2, 3, 3, 4, 4])
    equal([event["data"] for event in answer["log"]], ["a", "b", "c", "d"])


@check("lastEventId moves with the empty line only")
def _last():
    parts = [b"id: 1\n", b"data: a\n", b"\n", b"id: 2\n", b"\n", b"id: 3\ndata: x\n", b"id: 4"]
    (answer,) = parsed({"op": "steps", "chunks": [b64(part) for part in parts]})
    equal([[step[1] for step in answer["steps"]], answer["last"]], [["", "", "1", "1", "2", "2", "2"], "2"])


@check("parseAll and readEvents follow the same rules")
def _others():
    data = "\ufeffid: 1\r\ndata: \u20ac:x\r\n\r\nretry: 5\r\nevent: e\r\ndata: b\r\n\r\ndata: lost\r\n".encode()
    whole, read = parsed({"op": "all", "bytes": b64(data)}, {"op": "read", "chunks": chunks(data, range(1, len(data)))})
    events = [{"type": "message", "data": "\u20ac:x", "id": "1"}, {"type": "e", "data": "b", "id": "1"}]
    equal([whole, [item for item in read if isinstance(item, dict)], [item for item in read if item == 5]], [events, events, [5]])


@check("eventcat prints one object a line")
def _cat():
    done = run([NODE, "bin/eventcat.js"], place(), "data: a:b\r\n\r\nevent: \u00fc\ndata: 2\n\ndata: half".encode())
    equal([json.loads(line) for line in done.text.splitlines()], [{"type": "message", "data": "a:b", "id": ""}, {"type": "\u00fc", "data": "2", "id": ""}])


@check("the original tests still pass")
def _regression():
    folder = scratch()
    put_tree(folder, "original", "original")
    code, passed, output = node_test_run(folder, ["original/parser.test.js"])
    expect(code == 0 and passed == 5, output[-800:])


@check("the repository's tests pass and were extended")
def _own():
    folder = scratch()
    names = sorted(str(path.relative_to(folder)) for path in (folder / "test").rglob("*.test.js"))
    code, passed, output = node_test_run(folder, names)
    expect(code == 0 and passed > 5, output[-800:])
