"""`python -m sandbox_images`: what `make setup` calls before there is a ledger or a pack."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .base import BASE_IMAGE, ensure_base
from .engine import connect, ensure_engine
from .errors import ImageError
from .lock import ImageLock
from .services import ensure_services
from .stack.plugin import ensure_compose
from .store import ImageStore

EXIT_UNAVAILABLE = 4


def _say(line: str) -> None:
    click.echo(f"  {line}", err=True)


@click.group()
def main() -> None:
    """Prepare this machine for sandboxes."""


@main.command("ensure-engine")
@click.option("--home", type=click.Path(path_type=Path), required=True, help="Folder for the engine's log.")
def engine_command(home: Path) -> None:
    """Install and start a Docker engine if none answers."""
    ensure_engine(_say, home / "cache" / "engine")


@main.command("ensure-base")
@click.option("--home", type=click.Path(path_type=Path), required=True, help="Folder of lock and cache.")
@click.argument("names", nargs=-1)
def base_command(home: Path, names: tuple[str, ...]) -> None:
    """Make or pull base images, and lock them by Id."""
    store = ImageStore(connect(600), ImageLock(home / "images.lock.json"), home / "cache", _say)
    for name in names or (BASE_IMAGE,):
        image = ensure_base(store, name)
        click.echo(f"  {image.name} {image.id}", err=True)


@main.command("ensure-services")
def services_command() -> None:
    """Install PostgreSQL and Redis for tests and benches, as programs; no service is started."""
    ensure_services(_say)


@main.command("ensure-compose")
@click.option("--home", type=click.Path(path_type=Path), required=True, help="Folder of the cache.")
def compose_command(home: Path) -> None:
    """Find Compose v2, or take it out of the distribution's package; say how it is called."""
    click.echo(f"  Compose v2: {' '.join(ensure_compose(_say, home / 'cache' / 'compose'))}", err=True)


@main.command("setup")
@click.option("--home", type=click.Path(path_type=Path), required=True, help="Folder of lock, cache and log.")
@click.pass_context
def setup_command(context: click.Context, home: Path) -> None:
    """Both: the engine, then the base image of the bundled packs."""
    context.invoke(engine_command, home=home)
    context.invoke(base_command, home=home, names=())


if __name__ == "__main__":
    try:
        main()
    except ImageError as error:
        click.echo(f"error: {error.message}" + (f"\n  {error.hint}" if error.hint else ""), err=True)
        sys.exit(EXIT_UNAVAILABLE)
