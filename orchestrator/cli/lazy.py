"""Command groups that import a command's module only when that command is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`--help` and `--version` stay fast: they list the commands from `members` and import none of them.

    `members` maps a name to (module, one-line help); each module has the command as `command`.
    """

    def __init__(self, *args: Any, members: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._members = dict(members)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        return sorted({*self._members, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self._members:
            return super().get_command(ctx, cmd_name)
        found = vars(importlib.import_module(self._members[cmd_name][0]))["command"]
        if not isinstance(found, click.Command):
            raise TypeError(f"{self._members[cmd_name][0]}.command is not a command")
        return found

    def line_of(self, name: str) -> str:
        """The line that a listing shows for a command."""
        if name in self._members:
            return self._members[name][1]
        return self.commands[name].get_short_help_str(limit=100)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.line_of(name)) for name in self.list_commands(ctx)])
