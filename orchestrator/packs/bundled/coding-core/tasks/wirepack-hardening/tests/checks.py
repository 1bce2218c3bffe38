"""Checks of wirepack-hardening: a sanitizer build of the decoder against an independent model of the format."""

import random
import re
import struct

from harness import check, equal, expect, hidden, once, put, run, scratch

SANITIZE = ["gcc", "-std=c11", "-O1", "-Iinclude", "-Isrc", "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
ENV = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1",
       "UBSAN_OPTIONS": "exitcode=99"}


class Invalid(Exception):
    pass


def varint(number):
    out = [number & 0x7F]
    while number > 0x7F:
        number >>= 7
        out.append(number & 0x7F | 0x80)
    return bytes(reversed(out))


def record(kind, value, length=None):
    return bytes([kind]) + (varint(len(value)) if length is None else length) + value


def message(records, checksum=None, version=3, flags=0, length=None):
    body = b"".join(records)
    body += record(5, struct.pack(">I", sum(body) & 0xFFFFFFFF) if checksum is None else checksum)
    return b"WP" + bytes([version, flags]) + struct.pack(">I", len(body) if length is None else length) + body


def raw(body):
    return b"WP\x03\x00" + struct.pack(">I", len(body)) + body


def take_records(data, depth, lines):
    count, position = 0, 0
    while position < len(data):
        kind, length, position = data[position], 0, position + 1
        for index in range(5):
            if index == 4 or position >= len(data) or (index == 0 and data[position] == 0x80):
                raise Invalid("length")
            byte, position = data[position], position + 1
            length = length << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        value = data[position:position + length]
        if len(value) != length:
            raise Invalid("record")
        position += length
        count += 1
        one_record(kind, value, depth, lines, position == len(data))
    return count


def one_record(kind, value, depth, lines, last):
    pad = "  " * depth
    if kind == 1 and len(value) <= 63:
        text = "".join({34: '\\"', 92: "\\\\"}.get(b, chr(b) if 32 <= b <= 126 else f"\\x{b:02x}") for b in value)
        lines.append(f'{pad}name "{text}"')
    elif kind == 2 and 1 <= len(value) <= 8:
        lines.append(f"{pad}integer {int.from_bytes(value, 'big')}")
    elif kind == 3 and len(value) >= 2 and len(value) == 2 + 2 * int.from_bytes(value[:2], "big"):
        ids = struct.unpack(f">{len(value) // 2}H", value)
        lines.append(f"{pad}list {ids[0]}:" + "".join(f" {i}" for i in ids[1:]))
    elif kind == 4 and depth < 8:
        place = len(lines)
        lines.append("")
        lines[place] = f"{pad}group {take_records(value, depth + 1, lines)}"
    elif kind == 5 and depth == 0 and last and len(value) == 4:
        lines.append(f"{pad}checksum {value.hex()}")
    else:
        raise Invalid("value")


def model(data):
    """The dump of a valid message, or None."""
    try:
        if data[:4] != b"WP\x03\x00" or len(data) < 8 or int.from_bytes(data[4:8], "big") != len(data) - 8:
            return None
        body, lines = data[8:], []
        take_records(body, 0, lines)
        if not lines or not lines[-1].startswith("checksum "):
            return None
        if int(lines[-1].split()[1], 16) != sum(body[:-6]) & 0xFFFFFFFF:
            return None
        return "".join(line + "\n" for line in lines)
    except Invalid:
        return None


@once
def build():
    """Sanitizer builds of the tool, of a loop over many messages and of the original tests, in one folder."""
    place = scratch()
    own = sorted(path.name for path in (place / "src").glob("*.c"))
    put(place, "src/batch_main.c", hidden("batch_main.c"))
    put(place, "src/original_test.c", hidden("original_test_decode.c"))
    objects = [name[:-2] + ".o" for name in own]
    sources = [f"src/{name}" for name in (*own, "batch_main.c", "original_test.c")]
    done = run([*SANITIZE, "-c", *sources], place, timeout=60)
    expect(done.code == 0, done.stderr.decode("utf-8", "replace"))
    library = [name for name in objects if name != "main.o"]
    for name, parts in (("checked", objects), ("batch", [*library, "batch_main.o"]), ("original", [*library, "original_test.o"])):
        done = run([*SANITIZE, "-o", name, *parts], place, timeout=60)
        expect(done.code == 0, done.stderr.decode("utf-8", "replace"))
    return place


def dump(data, name="input.bin"):
    place = build()
    put(place, name, data)
    done = run(["./checked", "dump", name], place, env=ENV, timeout=20)
    errors = done.stderr.decode("utf-8", "replace")
    expect(done.code in (0, 3) and "runtime error" not in errors and "Sanitizer" not in errors,
           f"exit {done.code}: {errors[:500]}")
    return done, errors


def decode(messages, *options):
    """Answers of the decoder for many messages in one run: a dump, "invalid" or "crashed" each."""
    given = b"".join(struct.pack(">I", len(data)) + data for data in messages)
    done = run(["./batch", *options], build(), given, env=ENV, timeout=30)
    expect(done.code == 0, f"exit {done.code}: {done.stderr[:500]}")
    answers = done.stdout.decode("latin-1").split("\0")[:-1]
    equal(len(answers), len(messages))
    return answers


@once
def answers():
    return dict(zip([*GOOD, *BAD], decode([*GOOD.values(), *BAD.values()], "apart")))


@check("the tool prints valid messages, and refuses others with one line and 3")
def _tool():
    for title in ("every record type", "names with zero, quote, backslash and control bytes", "list of 40000 ids"):
        done, _ = dump(GOOD[title])
        equal([done.code, done.text], [0, model(GOOD[title])])
    for title in ("empty file", "wrong checksum", "name of 64 bytes", "50000 nested groups", "record beyond the body"):
        done, errors = dump(BAD[title])
        equal([done.code, done.text], [3, ""])
        expect(re.fullmatch(r"wirepack: invalid message: [^\n]+\n", errors), errors)


def nested(depth, inside=b""):
    for _ in range(depth):
        inside = record(4, inside)
    return inside


GOOD = {
    "only a checksum": message([]),
    "every record type": message([record(1, b"engine"), record(2, b"\x12\x67"), record(3, struct.pack(">4H", 3, 7, 8, 9)),
                                  record(4, record(1, b"left") + record(2, b"\0"))]),
    "name of 63 bytes": message([record(1, b"n" * 63)]),
    "empty name and empty list": message([record(1, b""), record(3, b"\0\0")]),
    "names with zero, quote, backslash and control bytes": message([record(1, b'a\0b"\\\x1b[31m\x7f\xff\n')]),
    "integer of 8 bytes": message([record(2, b"\xff" * 8)]),
    "eight nested groups": message([nested(8, record(1, b"deep"))]),
    "empty group": message([record(4, b"")]),
    "list of 40000 ids": message([record(3, struct.pack(">H", 40000) + b"\x01\x02" * 40000)]),
}
BAD = {
    "empty file": b"", "two bytes": b"WP", "header cut after the version": b"WP\x03", "header cut in the length": b"WP\x03\0\0\0",
    "wrong magic": b"XP" + message([])[2:], "version 2": message([], version=2), "flags set": message([], flags=1),
    "empty body": raw(b""), "body longer than the file": message([record(2, b"\7")], length=4000),
    "body length near 2^32": message([record(2, b"\7")], length=0xFFFFFFF0),
    "bytes after the message": message([record(2, b"\7")]) + b"\0",
    "body shorter than the file": message([record(2, b"\7")], length=3),
    "missing checksum": raw(record(2, b"\7")), "wrong checksum": message([record(2, b"\7")], checksum=b"\0\0\0\1"),
    "checksum of 3 bytes": message([], checksum=b"\0\0\0"), "checksum of 5 bytes": message([], checksum=b"\0\0\0\0\0"),
    "checksum twice": message([record(5, b"\0\0\0\0")]),
    "checksum in the middle": raw(record(5, b"\0\0\0\0") + record(2, b"\7")),
    "checksum in a group": message([record(4, record(5, b"\0\0\0\0"))]),
    "name of 64 bytes": message([record(1, b"n" * 64)]), "name of 5000 bytes": message([record(1, b"n" * 5000)]),
    "integer of 0 bytes": message([record(2, b"")]), "integer of 9 bytes": message([record(2, b"\1" * 9)]),
    "list without count": message([record(3, b"")]), "list with half a count": message([record(3, b"\0")]),
    "list shorter than its count": message([record(3, b"\0\3\0\1")]),
    "list longer than its count": message([record(3, b"\0\1\0\1\0\2")]),
    "list whose byte size wraps at 16 bits": message([record(3, b"\x80\0")]),
    "list with an odd byte": message([record(3, b"\0\1\0\1\0")]),
    "record type 0": message([record(0, b"x")]), "record type 6": message([record(6, b"")]),
    "record type 255 in a group": message([record(4, record(255, b""))]),
    "record beyond its group": message([record(4, b"\1\x09ab"), record(1, b"abcdefghijkl")]),
    "record beyond the body": raw(b"\1\x7fab"), "length in 5 bytes": message([record(1, b"a", b"\x81\x80\x80\x80\x01")]),
    "length of 2^28 - 1": message([record(1, b"a", b"\xff\xff\xff\x7f")]),
    "length with a leading 0x80": message([record(1, b"a", b"\x80\x01")]), "length cut off": raw(b"\1\x81"),
    "type without length": raw(b"\1"), "nine nested groups": message([nested(9)]),
    "50000 nested groups": message([nested(50000)]),
    "error after a group with children": message([record(4, record(1, b"a") + record(3, b"\0\1\0\1")), record(2, b"")]),
    "error inside the second child": message([record(4, record(3, b"\0\1\0\1") + record(2, b""))]),
}
_long = [record(1, b"\xff" * 63)] * 140000


def _add(title, data, name):
    @check(name)
    def _one():
        wanted = model(data)
        answer = answers()[title]
        expect(answer == ("invalid" if wanted is None else wanted), f"{data[:80].hex()}: {answer[:300]!r}")


for _title, _data in GOOD.items():
    _add(_title, _data, f"accepts: {_title}")
for _title, _data in BAD.items():
    _add(_title, _data, f"refuses: {_title}")


@check("accepts: a checksum above 2^31")
def _large():
    place = build()
    data = message(_long)
    put(place, "large.bin", data)
    done = run(["./checked", "dump", "large.bin"], place, env=ENV, timeout=30, limit=64 << 20)
    wanted = f"checksum {sum(data[8:-6]) & 0xFFFFFFFF:08x}\n"
    expect(done.code == 0 and done.text.endswith(wanted) and done.text.count("\n") == 140001, done.stderr[:500])


@check("a thousand damaged messages are judged as the format says")
def _fuzz():
    rng = random.Random(20241)
    seeds = [data for data in GOOD.values() if len(data) < 500]
    corpus = []
    for _ in range(1000):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(data))
            action = rng.randrange(4)
            if action == 0:
                data[place] = rng.randrange(256)
            elif action == 1:
                data[place] ^= 1 << rng.randrange(8)
            elif action == 2 and len(data) > 1:
                del data[place:place + rng.randint(1, 4)]
            else:
                data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 3)))
            data = data or bytearray(b"W")
        if rng.random() < 0.7 and len(data) >= 14:
            data[4:8] = struct.pack(">I", len(data) - 8)
            data[-4:] = struct.pack(">I", sum(data[8:-6]) & 0xFFFFFFFF)
        corpus.append(bytes(data))
    found = decode(corpus)
    for data, answer in zip(corpus, found):
        expect(answer == (model(data) or "invalid"), f"{data.hex()}: {answer!r}")
    expect(200 < sum(answer == "invalid" for answer in found) < 980, "the corpus is one-sided")


@check("nothing leaks on error paths or after a good message")
def _leaks():
    place = scratch()
    put(place, "leak_main.c", hidden("leak_main.c"))
    sources = sorted(str(path.relative_to(place)) for path in (place / "src").glob("*.c") if path.name != "main.c")
    done = run(["gcc", "-std=c11", "-Iinclude", "-Isrc", "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free",
                "-o", "leak", "leak_main.c", *sources], place, timeout=60)
    expect(done.code == 0, done.stderr[:800])
    for number, data in enumerate([*BAD.values(), *GOOD.values()]):
        put(place, f"m{number}.bin", data)
    done = run(["./leak", *(f"m{n}.bin" for n in range(len(BAD) + len(GOOD)))], place, timeout=20)
    expect(done.code == 0 and done.text.split()[-1:] == ["0"], (done.code, done.text[-200:], done.stderr[-300:]))


@check("missing file and wrong usage still end with 2")
def _usage():
    place = build()
    equal([run(["./checked", *words], place, env=ENV).code for words in (["dump", "absent"], ["dump"], [], ["print", "x"])],
          [2, 2, 2, 2])


@check("make and make check work without warnings")
def _make():
    place = scratch()
    done = run(["make", "clean", "all", "check"], place, timeout=60)
    expect(done.code == 0 and b"warning" not in done.stderr and (place / "build/wirepack").is_file(),
           done.stderr[-800:])


@check("the original test program still passes")
def _regression():
    done = run(["./original"], build(), env=ENV)
    expect(done.code == 0 and done.text == "all tests passed\n", done.text + done.stderr.decode("utf-8", "replace")[:500])
