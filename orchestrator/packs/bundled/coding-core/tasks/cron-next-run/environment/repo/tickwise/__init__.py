"""Schedule expressions: parse them, and find the next run."""

from tickwise.errors import BadExpression, NeverRuns, TickwiseError
from tickwise.schedule import Schedule, parse

__all__ = ["BadExpression", "NeverRuns", "Schedule", "TickwiseError", "parse"]
