"""A second implementation of the same README with other internals: one module, absolute schedules, sorted lists."""

import bisect
from typing import NamedTuple


class Limit(NamedTuple):
    count: int
    seconds: int
    burst: int


def _whole(text):
    if not text or any(c not in "0123456789" for c in text) or int(text) < 1:
        raise ValueError("bad number")
    return int(text)


def parse_limit(text):
    count, slash, rest = text.lower().partition("/")
    words = rest.split()
    if not slash or not words:
        raise ValueError("bad limit")
    burst = None
    if len(words) >= 2 and words[-2] == "burst":
        burst, words = _whole(words[-1]), words[:-2]
    unit = "".join(words)
    for name, seconds in (("min", 60), ("day", 86400), ("s", 1), ("h", 3600)):
        if unit.endswith(name):
            times = unit[: -len(name)]
            seconds *= _whole(times) if times else 1
            number = _whole(count.strip())
            return Limit(number, seconds, burst if burst is not None else number)
    raise ValueError("bad unit")


class TokenBucket:
    """Keeps the moment at which the bucket would be full instead of a token count."""

    __slots__ = ("period", "size", "now", "full_at")

    def __init__(self, rate, capacity, clock):
        self.period, self.size, self.now = 1 / rate, capacity, clock
        self.full_at = clock()

    @staticmethod
    def from_limit(limit, clock):
        return TokenBucket(limit.count / limit.seconds, limit.burst, clock)

    def wait_time(self, cost=1):
        if not 0 < cost <= self.size:
            raise ValueError(cost)
        debt = max(0.0, self.full_at - self.now())
        wait = debt - (self.size - cost) * self.period
        return wait if wait > 1e-9 else 0

    def allow(self, cost=1):
        if self.wait_time(cost):
            return False
        self.full_at = max(self.full_at, self.now()) + cost * self.period
        return True


class SlidingWindow:
    def __init__(self, count, seconds, clock):
        self.room, self.span, self.now, self.leaves = count, seconds, clock, []

    def _live(self):
        return self.leaves[bisect.bisect_right(self.leaves, self.now()):]

    def allow(self):
        self.leaves = self._live()
        if len(self.leaves) >= self.room:
            return False
        self.leaves.append(self.now() + self.span)
        return True

    def remaining(self):
        return self.room - len(self._live())

    def reset_at(self):
        return next(iter(self._live()), None)


class Keyed:
    def __init__(self, factory, capacity):
        if capacity < 1:
            raise ValueError(capacity)
        self.make, self.most, self.order, self.table = factory, capacity, [], {}

    def allow(self, key, *args):
        if key in self.table:
            self.order.remove(key)
        else:
            self.table[key] = self.make()
        self.order.append(key)
        while len(self.order) > self.most:
            del self.table[self.order.pop(0)]
        return self.table[key].allow(*args)

    def forget(self, key):
        if key not in self.table:
            return False
        self.order.remove(key)
        del self.table[key]
        return True

    def __len__(self):
        return len(self.order)

    def __contains__(self, key):
        return key in self.table
