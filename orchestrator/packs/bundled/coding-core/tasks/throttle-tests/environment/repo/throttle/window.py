"""Sliding window log."""

from collections import deque


class SlidingWindow:
    """At most `count` events in any window of `seconds`."""

    def __init__(self, count, seconds, clock):
        self._count = count
        self._seconds = seconds
        self._clock = clock
        self._events = deque()

    def _expire(self):
        now = self._clock()
        while self._events and now - self._events[0] >= self._seconds:
            self._events.popleft()
        return now

    def allow(self):
        """Record an event if there is room."""
        now = self._expire()
        if len(self._events) < self._count:
            self._events.append(now)
            return True
        return False

    def remaining(self):
        """How many events would be allowed now."""
        self._expire()
        return self._count - len(self._events)

    def reset_at(self):
        """When the oldest counted event leaves the window, or None."""
        self._expire()
        if not self._events:
            return None
        return self._events[0] + self._seconds
