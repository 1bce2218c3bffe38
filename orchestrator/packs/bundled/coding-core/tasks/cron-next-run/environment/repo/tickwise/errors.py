"""What can go wrong, under one root."""


class TickwiseError(Exception):
    """Any error of this library."""


class BadExpression(TickwiseError):
    """The expression cannot be parsed; the text names the field."""


class NeverRuns(TickwiseError):
    """No calendar day can match the expression."""
