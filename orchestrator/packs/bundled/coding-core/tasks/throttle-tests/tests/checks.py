"""Checks of throttle-tests: the agent's suite against correct libraries (must pass) and broken ones (must fail).

Correct and broken libraries alternate, so that a suite that keeps state between runs cannot tell them apart by order.
"""

import shutil

from harness import check, expect, hidden, put, put_tree, pytest_run, scratch, workspace_files

MUTANTS = [
    ("bursts default to one", "limits", "int(burst or count)", "int(burst or 1)"),
    ("the number before the unit is ignored", "limits", "* int(times or 1)", "* 1"),
    ("zero counts and bursts are accepted", "limits", "limit.count < 1 or limit.seconds < 1 or limit.burst < 1", "limit.seconds < 1"),
    ("zero bursts are accepted", "limits", " or limit.burst < 1", ""),
    ("an hour is 360 seconds", "limits", '"h": 3600', '"h": 360'),
    ("letter case matters", "limits", ", re.IGNORECASE", ""),
    ("trailing text is accepted", "limits", "PATTERN.fullmatch(text)", "PATTERN.match(text)"),
    ("the bucket starts empty", "bucket", "self._tokens = capacity", "self._tokens = 0"),
    ("the bucket overflows", "bucket", "min(self._capacity, self._tokens + gained)", "self._tokens + gained"),
    ("fractions of tokens are lost", "bucket", "gained = (now - self._updated) * self._rate", "gained = int((now - self._updated) * self._rate)"),
    ("an exact cost is refused", "bucket", "if self._tokens >= cost:", "if self._tokens > cost:"),
    ("refusal takes tokens", "bucket", "        return False\n\n    def wait_time", "        self._tokens = 0\n        return False\n\n    def wait_time"),
    ("a cost of zero is accepted", "bucket", "if cost <= 0:", "if cost < 0:"),
    ("the whole capacity is refused", "bucket", "if cost > self._capacity:", "if cost >= self._capacity:"),
    ("wait_time ignores the rate", "bucket", "return missing / self._rate", "return missing"),
    ("wait_time ignores the tokens that are there", "bucket", "return missing / self._rate", "return cost / self._rate"),
    ("wait_time does not check the cost", "bucket", '"""Seconds until `allow(cost)` would succeed."""\n        self._check(cost)\n', '"""Seconds."""\n'),
    ("wait_time takes tokens", "bucket", "            return 0\n", "            self._tokens -= cost\n            return 0\n"),
    ("from_limit takes the count as capacity", "bucket", "limit.seconds, limit.burst", "limit.seconds, limit.count"),
    ("from_limit takes the count as rate", "bucket", "cls(limit.count / limit.seconds", "cls(limit.count"),
    ("an event of exactly the window's age counts", "window", ">= self._seconds", "> self._seconds"),
    ("refused events are recorded", "window", "            return True\n        return False\n", "            return True\n        self._events.append(now)\n        return False\n"),
    ("only one old event leaves at a time", "window", "while self._events and now", "if self._events and now"),
    ("remaining does not look at the clock", "window", '"""How many events would be allowed now."""\n        self._expire()\n', '"""How many."""\n'),
    ("reset_at uses the newest event", "window", "return self._events[0] + self._seconds", "return self._events[-1] + self._seconds"),
    ("reset_at does not look at the clock", "window", 'window, or None."""\n        self._expire()\n', 'window, or None."""\n'),
    ("one event too many", "window", "if len(self._events) < self._count:", "if len(self._events) <= self._count:"),
    ("one key too many", "keyed", "if len(self._limiters) > self._capacity:", "if len(self._limiters) > self._capacity + 1:"),
    ("keys are dropped by age, not by use", "keyed", "            self._limiters.move_to_end(key)\n", "            pass\n"),
    ("the newest key is dropped", "keyed", "popitem(last=False)", "popitem(last=True)"),
    ("a refused request is no use", "keyed", "            self._limiters.move_to_end(key)\n        return limiter.allow(*args)",
     "            allowed = limiter.allow(*args)\n            if allowed:\n                self._limiters.move_to_end(key)\n            return allowed\n        return limiter.allow(*args)"),
    ("arguments are dropped", "keyed", "limiter.allow(*args)", "limiter.allow()"),
    ("forget always says yes", "keyed", "return self._limiters.pop(key, None) is not None", "self._limiters.pop(key, None)\n        return True"),
    ("forget keeps the key", "keyed", "self._limiters.pop(key, None) is not None", "key in self._limiters"),
    ("asking counts as a use", "keyed", "        return key in self._limiters\n",
     "        if key in self._limiters:\n            self._limiters.move_to_end(key)\n            return True\n        return False\n"),
]


def suite(library, change=None):
    """The agent's test files with one library; returns (exit code, passed, output)."""
    place = scratch()
    shutil.rmtree(place / "throttle", ignore_errors=True)
    put_tree(place, library)
    if change:
        module, old, new = change
        text = hidden(f"library/throttle/{module}.py").decode()
        expect(text.count(old) == 1, f"the mistake does not fit {module}.py")
        put(place, f"throttle/{module}.py", text.replace(old, new))
    names = [name for name in workspace_files(".py") if name.startswith("tests/") and name.rsplit("/", 1)[1].startswith("test_")]
    expect(names, "no test files")
    return pytest_run(place, names, timeout=15)


def _passes(title, library):
    @check(title)
    def _one():
        code, passed, output = suite(library)
        expect(code == 0 and passed >= 5, output[-1500:])


def _notices(title, change):
    @check(f"notices: {title}")
    def _one():
        code, _, output = suite("library", change)
        expect(code == 1, f"exit {code}: {output[-300:]}")


for _number, (_title, *_change) in enumerate(MUTANTS):
    if _number in (3, 20, 31):
        _passes(f"passes with the library ({_number})", "library")
    if _number in (8, 27):
        _passes(f"passes with the rewrite ({_number})", "rewrite")
    _notices(_title, _change)


@check("the library is unchanged")
def _unchanged():
    place = scratch()
    for name in ("__init__", "limits", "bucket", "window", "keyed"):
        expect((place / f"throttle/{name}.py").read_bytes() == hidden(f"library/throttle/{name}.py"), name)
