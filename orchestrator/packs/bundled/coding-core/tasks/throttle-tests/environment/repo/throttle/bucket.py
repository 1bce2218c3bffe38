"""Token bucket."""


class TokenBucket:
    """Up to `capacity` tokens, refilled at `rate` tokens a second; starts full."""

    def __init__(self, rate, capacity, clock):
        self._rate = rate
        self._capacity = capacity
        self._clock = clock
        self._tokens = capacity
        self._updated = clock()

    @classmethod
    def from_limit(cls, limit, clock):
        return cls(limit.count / limit.seconds, limit.burst, clock)

    def _refill(self):
        now = self._clock()
        gained = (now - self._updated) * self._rate
        self._tokens = min(self._capacity, self._tokens + gained)
        self._updated = now

    def _check(self, cost):
        if cost <= 0:
            raise ValueError("cost must be positive")
        if cost > self._capacity:
            raise ValueError("cost is above the capacity")

    def allow(self, cost=1):
        """Take `cost` tokens if there are enough."""
        self._check(cost)
        self._refill()
        if self._tokens >= cost:
            self._tokens -= cost
            return True
        return False

    def wait_time(self, cost=1):
        """Seconds until `allow(cost)` would succeed."""
        self._check(cost)
        self._refill()
        missing = cost - self._tokens
        if missing <= 0:
            return 0
        return missing / self._rate
