"""Checks of logtop-scaling: output against a model, and counted work against a sound implementation.

Work is counted, never timed: basic blocks by the compiler's trace-pc calls, and bytes by wrapped library functions.
"""

import itertools
import random

from harness import check, equal, expect, hidden, once, put, put_tree, run, scratch, scratch_dir

WRAPPED = ("strlen strcmp strncmp memcmp memcpy memmove memset memchr strchr strcpy strcat strdup realloc calloc").split()
COUNTING = ["-std=c11", "-O1", "-fno-builtin", "-fsanitize-coverage=trace-pc"]
TIMES_REFERENCE = 6
GROWTH = 6.0  # for four times the input; n log n gives below 5, a square 16


def compile_counting(place, sources, name):
    put(place, "count_work.c", hidden("count.c"))
    steps = [["gcc", "-std=gnu11", "-O2", "-fno-builtin", "-c", "-o", "count_work.o", "count_work.c"],
             ["gcc", *COUNTING, "-o", name, *sources, "count_work.o", "-Wl," + ",".join(f"--wrap={w}" for w in WRAPPED)]]
    for step in steps:
        done = run(step, place, timeout=60)
        expect(done.code == 0, done.stderr[-800:])
    return place


def own_sources(place):
    return sorted(str(path.relative_to(place)) for path in (place / "src").glob("*.c"))


@once
def counted():
    place = scratch()
    return compile_counting(place, own_sources(place), "counted")


@once
def reference():
    place = scratch_dir()
    put_tree(place, "reference", "src")
    return compile_counting(place, own_sources(place), "counted")


@once
def checked():
    place = scratch()
    done = run(["gcc", "-std=c11", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", "checked",
                *own_sources(place)], place, timeout=60)
    expect(done.code == 0, done.stderr[-800:])
    return place


def model(text, count=10, column="requests"):
    paths, clients, malformed, requests = {}, set(), 0, 0
    statuses = dict.fromkeys("2345", 0)
    lines = text.split(b"\n")
    for line in lines[:-1] if lines[-1] == b"" else lines:
        fields = line.split(b" ")
        size = fields[-1]
        good = len(fields) == 6 and all(fields) and len(fields[4]) == 3 and all(48 <= c <= 57 for c in fields[4]) and (
            size == b"-" or (len(size) <= 18 and all(48 <= c <= 57 for c in size)))
        if not good:
            malformed += 1
            continue
        entry = paths.setdefault(fields[3], [0, 0, set()])
        entry[0] += 1
        entry[1] += 0 if size == b"-" else int(size)
        entry[2].add(fields[1])
        clients.add(fields[1])
        requests += 1
        if chr(fields[4][0]) in statuses:
            statuses[chr(fields[4][0])] += 1
    at = {"requests": lambda e: e[0], "bytes": lambda e: e[1], "clients": lambda e: len(e[2])}[column]
    order = sorted(paths, key=lambda path: (-at(paths[path]), path))[:count]
    out = [b"requests     bytes  clients  path"]
    out += [b"%8d %9d %8d  %s" % (paths[p][0], paths[p][1], len(paths[p][2]), p) for p in order]
    out.append(b"%d requests, %d paths, %d clients, %d malformed" % (requests, len(paths), len(clients), malformed))
    out.append(b"2xx %d, 3xx %d, 4xx %d, 5xx %d, other %d" % (*statuses.values(), requests - sum(statuses.values())))
    return b"\n".join(out) + b"\n"


def line(path, client="10.0.0.1", status=200, size=100):
    return f"2024-05-01T10:00:00Z {client} GET {path} {status} {size}\n"


def words(n):
    """n permutations of the same words, in sorted order."""
    return ["/" + "/".join(order) for order in itertools.islice(itertools.permutations(
        ["blue", "boots", "cheap", "new", "red", "sale", "size42", "women"]), n)]


def many_paths(n):
    return "".join(line(f"/item/{(i * 7919) % n:07}") for i in range(n))


def sorted_paths(n):
    return "".join(line(f"/item/{i:07}") for i in range(n))


def permuted(n):
    return "".join(line(path) for path in words(n)) * 2


def one_path_many_clients(n):
    return "".join(line("/", f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}") for i in range(n))


def few_clients_each(n):
    return "".join(line(f"/p{i // 4}", f"c{i % 4}") for i in range(n))


def repeated(n):
    return "".join(line(f"/p{i % 100}", f"c{i % 50}") for i in range(n))


def long_line(n):
    return "".join(line("/x?" + "q" * n, status=status) for status in (200, 304))


def equal_counts(n):
    return "".join(line(f"/same/prefix/of/all/paths/{n - i:07}") for i in range(n))


def work(place, text, options, most):
    """(units of work, output); the program is stopped once it has done more than `most`."""
    put(place, "input.log", text)
    done = run(["./counted", *options, "input.log"], place, timeout=25, limit=64 << 20, extra_fd=True, env={"WORK_LIMIT": str(most)})
    expect(done.code in (0, 77) and not done.timed_out, f"exit {done.code}, timeout {done.timed_out}")
    expect(done.code == 0, f"stopped after more than {most} units of work")
    return int(done.extra), done.stdout


def _scales(title, make, n, *options):
    @once
    def quarter():
        wanted, same = work(reference(), make(n // 4), options, 10**10)
        mine, output = work(counted(), make(n // 4), options, TIMES_REFERENCE * wanted)
        expect(output == same, "another output than the sound implementation")
        return mine

    @check(f"work stays small: {title}")
    def _one():
        quarter()
        wanted, same = work(reference(), make(n), options, 10**10)
        expect(work(counted(), make(n), options, TIMES_REFERENCE * wanted)[1] == same, "another output than the sound implementation")

    @check(f"work grows with the log: {title}")
    def _two():
        work(counted(), make(n), options, int(GROWTH * quarter()))


_scales("many paths", many_paths, 8000)
_scales("paths in sorted order", sorted_paths, 8000)
_scales("permutations of the same words", permuted, 4000)
_scales("many clients of one path", one_path_many_clients, 8000, "-s", "clients")
_scales("many paths with a few clients", few_clients_each, 12000, "-s", "clients")
_scales("few paths, many lines", repeated, 16000)
_scales("lines of half a megabyte", long_line, 500000)
_scales("all rows printed", equal_counts, 8000, "-n", "1000000", "-s", "bytes")


def agree(text, *options, count=10, column="requests"):
    place = checked()
    put(place, "input.log", text)
    done = run(["./checked", *options, "input.log"], place, timeout=20, limit=16 << 20, env={"ASAN_OPTIONS": "detect_leaks=0"})
    expect(done.code == 0, done.stderr[-600:])
    expect(done.stdout == model(text, count, column), f"got {done.stdout[:400]!r}, expected {model(text, count, column)[:400]!r}")


CASES = {
    "an empty log": b"", "one newline": b"\n", "only malformed lines": b"x\ny z\n",
    "no newline at the end": line("/a").encode() + line("/b").encode()[:-1],
    "blank fields and blanks at the ends": b" a b c /p 200 1\na b c /p 200 1 \na  c /p 200 1 2\na b c /p 200 1\n",
    "status codes": "".join(line("/s", status=s) for s in ("200", "199", "099", "999", "20", "2000", "2x0", "500", "304", "404")).encode(),
    "byte counts": "".join(line("/b", size=s) for s in ("-", "0", "007", "-1", "1-", "9" * 18, "9" * 19, "+5", "")).encode(),
    "bytes above 2^32": (line("/big", size=5 * 10**9) * 3 + line("/less", size=10**10)).encode(),
    "paths that are prefixes of each other": "".join(line(p) for p in ("/a", "/ab", "/", "/a", "/abc", "/a?", "/A", "/\u00e9")).encode(),
    "bytes above 127 sort as bytes": b"t c G /\xff 200 1\nt c G /a 200 1\nt c G /\x80 200 1\nt c G /~ 200 1\n",
    "carriage returns belong to the last field": b"t c G /a 200 1\r\nt c G /a 200 1\n",
    "tabs are no separators": b"t\tc G /a 200 1 2\nt c\tG /a 200 1\nt c G /a\tb 200 1\n",
}


def _case(title, text):
    @check(f"right report: {title}")
    def _one():
        agree(text)


for _title, _text in CASES.items():
    _case(_title, _text)


@check("right report: random logs, every column and count")
def _random():
    rng = random.Random(77)
    for number in range(24):
        lines = [line(f"/p{int(rng.expovariate(0.05))}", f"c{rng.randrange(12)}", rng.choice([200, 301, 404, 503, 100]), rng.choice(["-", 0, 5, 5, 700]))
                 if rng.random() < 0.95 else "bad line\n" for _ in range(rng.randrange(400))]
        column, count = ("requests", "bytes", "clients")[number % 3], rng.choice([0, 1, 10, 1000])
        agree("".join(lines).encode(), "-n", str(count), "-s", column, count=count, column=column)


@check("right report: a large log under the memory checker")
def _large():
    agree((many_paths(3000) + one_path_many_clients(3000) + long_line(70000) + many_paths(1500)).encode(), "-n", "3500", count=3500)


@check("standard input and several files")
def _inputs():
    place = checked()
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    one, two = (line("/a") + line("/b", "x")).encode(), line("/a", "y").encode()[:-1]
    put(place, "one.log", one)
    put(place, "two.log", two)
    equal(run(["./checked", "one.log", "two.log"], place, env=env).text, model(one + two).decode())
    equal(run(["./checked"], place, one, env=env).text, model(one).decode())


@check("wrong usage and missing files")
def _usage():
    place = checked()
    env = {"ASAN_OPTIONS": "detect_leaks=0"}
    equal([run(["./checked", *words_], place, env=env).code for words_ in
           (["-n"], ["-n", "x"], ["-n", "-3"], ["-s", "size"], ["-x", "1"], ["absent.log"])], [2, 2, 2, 2, 2, 1])


@once
def memory():
    """(blocks never freed, largest number of bytes in use) for two logs."""
    place = scratch()
    put(place, "leak.c", hidden("leak.c"))
    put(place, "many.log", many_paths(500) + one_path_many_clients(500) + long_line(5000))
    put(place, "few.log", repeated(30000))
    done = run(["gcc", "-std=gnu11", "-fno-builtin", "-o", "leak", "leak.c", *own_sources(place),
                "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=strdup"], place, timeout=60)
    expect(done.code == 0, done.stderr[-600:])
    runs = [run(["./leak", name], place, extra_fd=True) for name in ("many.log", "few.log")]
    expect([done.code for done in runs] == [0, 0], runs[0].stderr[-300:] + runs[1].stderr[-300:])
    return [[int(number) for number in done.extra.split()] for done in runs]


@check("nothing leaks")
def _leaks():
    equal([blocks for blocks, _ in memory()], [0, 0])


@check("memory stays proportional to paths and clients")
def _memory():
    expect(memory()[1][1] < 1 << 20, f"peak of {memory()[1][1]} bytes for 100 paths and 50 clients")


@check("make works without warnings and make check passes")
def _make():
    place = scratch()
    done = run(["make", "clean", "build/logtop", "check"], place, timeout=60)
    expect(done.code == 0 and b"warning" not in done.stderr, done.stderr[-600:])


@check("the original tests still pass")
def _regression():
    place = scratch()
    put_tree(place, "original", "tests")
    done = run(["make", "build/logtop"], place, timeout=60)
    expect(done.code == 0, done.stderr[-600:])
    done = run(["/bin/bash", "tests/run.sh"], place)
    expect(done.code == 0 and done.text.count("ok: ") == 2, done.text)
