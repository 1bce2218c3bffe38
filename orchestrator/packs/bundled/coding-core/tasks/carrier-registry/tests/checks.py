"""Checks of carrier-registry: old against new behaviour over many inputs, a carrier from outside, and the structure."""

import ast
import random

from harness import (PYTHON, ask_python, check, equal, expect, once, put, put_tree, pytest_run, read_text, run, scratch,
                     scratch_dir, workspace_files)

CODES = ("swift", "polar", "harbor", "mule")
TITLES = ("Swift Parcel Service", "Polar Post", "Harbor Freight Line")
DRIVER = """
import parcelkit
from parcelkit.parcel import Parcel
def handle(q):
    args = [Parcel(*a) if isinstance(a, list) else a for a in q["args"]]
    return getattr(parcelkit, q["f"])(*args)
"""
OUTSIDE = """
from parcelkit import carriers, NotAccepted
from parcelkit.carriers import Carrier, register
import parcelkit, parcelkit.quotes, parcelkit.labels, parcelkit.tracking
from parcelkit.parcel import Parcel
class Owl(Carrier):
    code = "owl"
    title = "Owl Post"
    def check(self, parcel):
        if parcel.grams > 300: raise NotAccepted("owl: too heavy")
    def price(self, parcel): return 5 + parcel.grams
    def tracking_number(self, serial): return f"OWL{serial}"
    def label_lines(self, parcel, number): return ["hoo", number, str(parcel.grams)]
    def status(self, event): return "moving" if event == "fly" else "problem"
owl = Owl()
before = carriers.codes()
returned = register(owl)
def handle(q):
    parcel = Parcel(q.get("grams", 100), "DE", 100, 100, 20)
    return eval(q["say"], {**globals(), "parcel": parcel})
"""
MAIN = """
import sys, runpy
sys.path.insert(0, '.')
from parcelkit.carriers import Carrier, register
class Owl(Carrier):
    code = "owl"; title = "Owl Post"
    def check(self, parcel): pass
    def price(self, parcel): return 1
register(Owl())
runpy.run_module('parcelkit', run_name='__main__')
"""


@once
def new():
    return scratch()


@once
def old():
    place = scratch_dir()
    put_tree(place, "original")
    return place


def same(requests):
    for request, was, now in zip(requests, ask_python(DRIVER, requests, old()), ask_python(DRIVER, requests, new())):
        expect(was == now, f"{request}: was {was}, is {now}")


def parcels(seed, count):
    rng = random.Random(seed)
    edges = (0, -5, 1, 499, 500, 501, 999, 1000, 1001, 2000, 2001, 5000, 5001, 10000, 10001, 20000, 20001, 31500, 31501, 70000, 70001)
    for _ in range(count):
        grams = rng.choice(edges) if rng.random() < 0.6 else rng.randint(1, 40000)
        country = rng.choice(["DE", "DE", "SE", "FI", "DK", "NO", "IS", "FR", "US", "CH", "de", ""])
        sides = [rng.choice([10, 50, 51, 100, 350, 600, 800, 1200, 1500]) for _ in range(3)]
        value = rng.choice([0, 4500, 10000, 10001, 10334, 50000, 50001, 123456, 500000, 500001])
        yield [grams, country, *sides, value]


def _golden(title, make):
    @check(title)
    def _one():
        same(make())


for _code in (*CODES, "owl", ""):
    _golden(f"prices and refusals as before: {_code or 'empty code'}",
            lambda code=_code: [{"f": "quote", "args": [code, parcel]} for parcel in parcels(1, 400)])
    _golden(f"labels as before: {_code or 'empty code'}",
            lambda code=_code: [{"f": "label", "args": [code, parcel, n * 7919]} for n, parcel in enumerate(parcels(2, 300))])
_golden("quotes as before", lambda: [{"f": "quotes", "args": [parcel]} for parcel in parcels(3, 400)])
_golden("cheapest as before", lambda: [{"f": "cheapest", "args": [parcel]} for parcel in parcels(4, 400)])
_golden("tracking numbers as before", lambda: [
    {"f": "tracking_number", "args": [code, serial]} for code in (*CODES, "owl")
    for serial in (0, 1, 7, 4711, 99999999, 100000000, 123456789, 9999999999, 10**12 + 5, -1, *range(1000, 1100))])
_golden("labels with a negative serial as before", lambda: [
    {"f": "label", "args": [code, [100, country, 100, 100, 20, 0], -1]} for code in (*CODES, "owl") for country in ("DE", "SE", "US")])
_golden("statuses as before", lambda: [
    {"f": "status_of", "args": [code, event]} for code in (*CODES, "owl")
    for event in ("", "10", "11", "12", "2", "20", "29", "3x", "35", "40", "41", "50", "60", "61", "62", "99", "100", "699", "700", "799", "800", "899",
                  "900", "949", "950", "-1", "REG", "reg", "tra", "Cus", "OUT", "del", "PUP", "ret", "XXX", "ok", "OK", "²")])
_golden("addresses as before", lambda: [{"f": "tracking_url", "args": [code, number]} for code in (*CODES, "owl")
                                        for number in ("PO-12345-67890-5", "0000000047113", "SW1", "")])


def outside(**says):
    requests = [say if isinstance(say, dict) else {"say": say} for say in says["says"]]
    return ask_python(OUTSIDE, requests, new())


@check("a carrier from outside is priced and refused")
def _outside_price():
    answers = outside(says=["parcelkit.quote('owl', parcel)", "parcelkit.quotes(parcel)", "parcelkit.cheapest(parcel)",
                            {"say": "parcelkit.quotes(parcel)", "grams": 301}, {"say": "parcelkit.quote('owl', parcel)", "grams": 0}])
    equal(answers, [{"ok": 105}, {"ok": [[105, "owl"], [179, "mule"], [444, "swift"], [1199, "harbor"]]}, {"ok": "owl"},
                    {"ok": [[179, "mule"], [444, "swift"], [1217, "harbor"]]},
                    {"error": "NotAccepted", "message": "weight must be positive"}])


@check("a carrier from outside has labels, numbers, statuses and no address")
def _outside_label():
    answers = outside(says=["parcelkit.label('owl', parcel, 7)", "parcelkit.tracking_number('owl', 8)", "parcelkit.status_of('owl', 'fly')",
                            "parcelkit.tracking_url('owl', 'x')", "parcelkit.tracking_number('owl', -1)"])
    equal(answers, [{"ok": "hoo\nOWL7\n100\n"}, {"ok": "OWL8"}, {"ok": "moving"}, {"ok": None},
                    {"error": "ValueError", "message": "serial must not be negative"}])


@check("the registry keeps its promises")
def _registry():
    answers = outside(says=["before", "carriers.codes()", "returned is owl and carriers.get('owl') is owl", "register(Owl())", "carriers.get('none')",
                            "[carriers.get(c).title for c in before]", "all(isinstance(carriers.get(c), Carrier) for c in before)"])
    equal([answers[0], answers[1], answers[2]], [{"ok": sorted(CODES)}, {"ok": sorted([*CODES, "owl"])}, {"ok": True}])
    equal([answers[3]["error"], answers[4]], ["ValueError", {"error": "UnknownCarrier", "message": "unknown carrier 'none'"}])
    equal(answers[5:], [{"ok": ["Harbor Freight Line", "Mule", "Polar Post", "Swift Parcel Service"]}, {"ok": True}])


@check("a carrier can be asked directly")
def _direct():
    answers = outside(says=["carriers.get('swift').price(parcel)", "carriers.get('swift').tracking_number(4711)", "carriers.get('mule').label_lines(parcel, 'X')",
                            "carriers.get('harbor').status('850')", "carriers.get('mule').tracking_url('X')", "carriers.get('mule').check(parcel)",
                            {"say": "carriers.get('mule').check(parcel)", "grams": 2001}])
    equal(answers, [{"ok": 444}, {"ok": "SW000047113DE"}, {"ok": ["mule", "X"]}, {"ok": "delivered"}, {"ok": None}, {"ok": None},
                    {"error": "NotAccepted", "message": "mule: over 2000 g"}])


@check("functions stay importable from their modules")
def _modules():
    says = [
        "[callable(getattr(__import__('importlib').import_module('parcelkit.' + m), n)) for m, n in (('quotes', 'check'), ('quotes', 'quote'), "
        "('quotes', 'quotes'), ('quotes', 'cheapest'), ('labels', 'label'), ('labels', 'tracking_number'), ('tracking', 'status_of'), "
        "('tracking', 'tracking_url'))]"]
    equal(outside(says=says), [{"ok": [True] * 8}])


@check("both commands know a carrier from outside")
def _commands():
    place = new()
    lists = run([PYTHON, "-B", "-c", MAIN, "carriers"], place)
    equal(lists.text, "harbor  Harbor Freight Line\nmule    Mule\nowl     Owl Post\npolar   Polar Post\nswift   Swift Parcel Service\n")
    prices = run([PYTHON, "-B", "-c", MAIN, "quotes", "400", "DE", "200x150x20", "--value", "700.01"], place)
    equal(prices.text, "    0.01  Owl Post\n    1.79  Mule\n    7.94  Swift Parcel Service\n   14.06  Harbor Freight Line\n")


def sources():
    return [name for name in workspace_files(".py") if name.startswith("parcelkit/")]


def strings(name):
    """Every string constant and identifier of a module, docstrings included."""
    for node in ast.walk(ast.parse(read_text(name))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        if isinstance(node, ast.Name):
            yield node.id
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name


@check("one module per carrier and a base class")
def _layout():
    for name in (*CODES, "base", "__init__"):
        expect(f"parcelkit/carriers/{name}.py" in sources(), f"parcelkit/carriers/{name}.py is missing")
    expect("Carrier" in [node.name for node in ast.walk(ast.parse(read_text("parcelkit/carriers/base.py"))) if isinstance(node, ast.ClassDef)])
    for code in CODES:
        found = [base for node in ast.walk(ast.parse(read_text(f"parcelkit/carriers/{code}.py"))) if isinstance(node, ast.ClassDef) for base in node.bases]
        expect(any("Carrier" in ast.unparse(base) for base in found), f"{code}.py has no subclass of Carrier")


@check("outside the carriers no file mentions a carrier's code or title")
def _generic():
    for name in sources():
        if not name.startswith("parcelkit/carriers/"):
            for text in strings(name):
                for code in CODES:
                    expect(code not in text.lower(), f"{name} mentions {code}: {text[:80]!r}")


@check("each carrier's code and title stand only in its own module")
def _own_module():
    for name in sources():
        if name.startswith("parcelkit/carriers/"):
            own = name.rsplit("/", 1)[1][:-3]
            constants = [node.value for node in ast.walk(ast.parse(read_text(name))) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            for code in CODES:
                expect(own == code or code not in constants, f"{name} holds the code {code!r}")
            for title in TITLES:
                expect(own == title.split()[0].lower() or title not in constants, f"{name} holds the title {title!r}")


@check("no function is longer than 30 lines")
def _short():
    for name in sources():
        for node in ast.walk(ast.parse(read_text(name))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                expect(node.end_lineno - node.lineno < 30, f"{name}: {node.name}")


@check("the original tests still pass")
def _regression():
    place = scratch()
    put(place, "original_test.py", (old() / "test_parcelkit.py").read_bytes())
    code, passed, output = pytest_run(place, ["original_test.py"])
    expect(code == 0 and passed == 7, output[-800:])


@check("the repository's tests pass and were extended")
def _own():
    code, passed, output = pytest_run(scratch(), ["tests"])
    expect(code == 0 and passed > 7, output[-800:])
