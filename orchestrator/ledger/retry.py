"""Units that PostgreSQL gave up for another one's sake are run again, here and nowhere else.

A deadlock or a serialisation failure means that the whole unit was rolled back and that the same call may
succeed now. Nothing else is repeated: after a lost connection nobody here knows whether the COMMIT came
through, so the caller asks again (`end_attempt` is made for that).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from sqlalchemy.exc import DBAPIError

TIMES: Final = 8
_GIVEN_UP: Final = frozenset({"40001", "40P01"})
_logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def was_given_up(error: DBAPIError) -> bool:
    """Whether the database rolled the unit back for another one (deadlock, serialisation failure)."""
    return getattr(error.orig, "sqlstate", None) in _GIVEN_UP


def retried(unit: Callable[P, T]) -> Callable[P, T]:
    """Decorator for a function that is one unit of work and keeps nothing of a failed run."""

    @wraps(unit)
    def run(*args: P.args, **named: P.kwargs) -> T:
        for _ in range(TIMES - 1):
            try:
                return unit(*args, **named)
            except DBAPIError as error:
                if not was_given_up(error):
                    raise
                _logger.info("%s is run again: %s", unit.__name__, error.orig)
        return unit(*args, **named)

    return run
