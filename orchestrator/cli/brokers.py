"""The options that name a broker, and what they mean; the broker's library is imported only when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def broker_options(command: _F) -> _F:
    """`--broker URL` and `--broker-file FILE`."""
    file = click.option(
        "--broker-file",
        metavar="FILE",
        help="File that holds the broker's URL, for one with a password. [env: ASSIZE_BROKER_FILE]",
    )
    url = click.option(
        "--broker", metavar="URL", help="Redis of the workers, redis://HOST:6379/0. [env: ASSIZE_BROKER_URL]"
    )
    return url(file(command))


def chosen_broker(url: str | None, file: str | None) -> str:
    """The broker's URL; `BrokerNameError` when there is none or it is not one of ours."""
    from orchestrator.engine.celery.broker import broker_url

    return broker_url(url, file)
