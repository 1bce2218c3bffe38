"""Rate limiting with injected clocks."""

from throttle.bucket import TokenBucket
from throttle.keyed import Keyed
from throttle.limits import Limit, parse_limit
from throttle.window import SlidingWindow

__all__ = ["Keyed", "Limit", "SlidingWindow", "TokenBucket", "parse_limit"]
