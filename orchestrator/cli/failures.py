"""Every failure becomes one sentence and an exit code (CLI-4, CLI-9); tracebacks only with `--debug`.

Nothing heavy is imported here: which library an exception comes from is told by its class.
"""

from __future__ import annotations

import logging
from typing import Final

import click

from orchestrator.cli import exits
from orchestrator.cli.output import safe
from orchestrator.errors import AssizeError, HostError

MAX_LINES: Final = 20
_ENGINE_LIBRARIES: Final = frozenset({"docker", "requests", "urllib3"})
_HOUSES: Final = frozenset({"sandbox_images", "scoring", "workers"})


class LedgerUnusableError(HostError):
    """The database of the ledger cannot be read or written."""

    code = "ledger-unusable"


class FileSystemError(HostError):
    """The system refused a file or folder."""

    code = "file-system"


class EngineFailedError(HostError):
    """The Docker engine answered with an error, or stopped answering."""

    code = "engine"


class InternalError(HostError):
    """Something that should not happen: a defect of Assize."""

    code = "internal"


class LastLineFormatter(logging.Formatter):
    """Log lines without traceback: an exception is its last line."""

    def formatException(self, ei: object) -> str:
        """The type and the message only."""
        error = ei[1] if isinstance(ei, tuple) else None
        return f"  {type(error).__name__}: {first_line(str(error))}"


def set_up_logging(debug: bool) -> None:
    """Log lines of our own houses on standard error: errors only, everything with `--debug`."""
    handler = logging.StreamHandler()
    handler.setFormatter((logging.Formatter if debug else LastLineFormatter)("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, handlers=[handler])
    for noisy in ("urllib3", "docker", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _packages(error: BaseException) -> set[str]:
    return {kind.__module__.partition(".")[0] for kind in type(error).__mro__}


def expected(error: Exception) -> AssizeError:
    """`error` as one of ours, with a sentence and what to do next."""
    if isinstance(error, AssizeError):
        return error
    packages, names = _packages(error), {kind.__name__ for kind in type(error).__mro__}
    text = first_line(str(error)) or type(error).__name__
    if packages & _HOUSES:
        hint = getattr(error, "hint", None)
        return HostError(str(error), hint=hint if isinstance(hint, str) else None)
    if "sqlalchemy" in packages and "DBAPIError" in names:
        reason = first_line(str(getattr(error, "orig", None) or error))
        return LedgerUnusableError(
            f"the ledger cannot be used: {reason}", hint="`assize doctor` says what is wrong with it"
        )
    if packages & _ENGINE_LIBRARIES:
        return EngineFailedError(f"the Docker engine failed: {text}", hint="`assize doctor` checks it")
    if isinstance(error, OSError):
        return _of_system(error)
    return InternalError(
        f"a defect in Assize: {type(error).__name__}: {text}",
        hint="the same command with `assize --debug ...` shows where",
    )


def _of_system(error: OSError) -> FileSystemError:
    place = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
    where = f"{place}: " if place is not None else ""
    return FileSystemError(
        f"{where}{error.strerror or error}", hint="--home or ASSIZE_HOME names another folder"
    )


def report(error: Exception, *, debug: bool) -> int:
    """Print what happened and what to do next on standard error; returns the exit code."""
    known = expected(error)
    lines = f"error: {known.message} [{known.code}]".splitlines()
    if len(lines) > MAX_LINES and not debug:
        more = f"  and {len(lines) - MAX_LINES} more (all with `assize --debug ...`) [{known.code}]"
        lines = [*lines[:MAX_LINES], more]
    for line in lines:
        click.echo(safe(line), err=True)
    if known.hint:
        click.echo(safe(f"  next: {known.hint}"), err=True)
    if debug:
        logging.getLogger(__name__).error("where it happened", exc_info=error)
    return known.exit_code


def report_usage(error: click.ClickException) -> int:
    """Print what is wrong with the command line in one sentence, and where its help is."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return exits.WRONG_INPUT
    click.echo(safe(f"error: {error.format_message()} [usage]"), err=True)
    context = getattr(error, "ctx", None)
    if isinstance(context, click.Context):
        click.echo(f"  next: {context.command_path} --help", err=True)
    return exits.WRONG_INPUT
