"""One limiter per key, with a bound on the number of keys."""

from collections import OrderedDict


class Keyed:
    """Limiters by key; the key used longest ago is dropped when there are more than `capacity`."""

    def __init__(self, factory, capacity):
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self._factory = factory
        self._capacity = capacity
        self._limiters = OrderedDict()

    def allow(self, key, *args):
        """Ask the key's limiter."""
        limiter = self._limiters.get(key)
        if limiter is None:
            limiter = self._factory()
            self._limiters[key] = limiter
            if len(self._limiters) > self._capacity:
                self._limiters.popitem(last=False)
        else:
            self._limiters.move_to_end(key)
        return limiter.allow(*args)

    def forget(self, key):
        """Drop the key; True if it was there."""
        return self._limiters.pop(key, None) is not None

    def __len__(self):
        return len(self._limiters)

    def __contains__(self, key):
        return key in self._limiters
