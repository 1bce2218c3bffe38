"""`assize compose`: what `docker compose up` needs before it can start from a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from orchestrator.cli.output import cell, emit, home_of, json_option, say
from orchestrator.errors import HostError

INIT_SCHEMA: Final = "assize.compose-init/1"
TREE: Final = Path(__file__).parents[2]
_file = click.Path(path_type=Path, dir_okay=False)
_folder = click.Path(path_type=Path, file_okay=False)


@click.group(
    "compose",
    short_help="Secrets and images for docker-compose.yml.",
    epilog="Next: assize compose init, then docker compose up --wait.",
)
def command() -> None:
    """The stack of docker-compose.yml: Redis, PostgreSQL, dispatcher and signer, one worker.

    \b
    Examples:
      assize compose init
      assize compose init --secrets /etc/assize/secrets
    """


@command.command("init", epilog="Next: assize worker health, after docker compose up --wait.")
@click.option(
    "--secrets",
    type=_folder,
    default=TREE / ".compose" / "secrets",
    help="Folder of the secrets. [default: .compose/secrets of the checkout]",
)
@click.option(
    "--env-file",
    type=_file,
    default=TREE / ".env",
    help="File of the settings. [default: .env of the checkout, which Compose reads by itself]",
)
@json_option
@click.pass_context
def init(context: click.Context, secrets: Path, env_file: Path, as_json: bool) -> None:
    """Draw the secrets, build the images or find them, and write the settings that name them by Id.

    Safe to repeat: secrets that are there are kept, images are built again only when what they are made of
    has changed. Run it after every update of the checkout.

    \b
    Examples:
      assize compose init
      assize compose init --env-file /etc/assize/env --secrets /etc/assize/secrets --json
    """
    from orchestrator.screenings.images import open_store
    from orchestrator.stack.secret_files import ACL, FILES, write_secrets
    from orchestrator.stack.settings_file import write_settings
    from sandbox_images.errors import ImageError
    from sandbox_images.stack.images import APP, FLOWER, POSTGRES, REDIS, ensure_stack_images

    folder = secrets.absolute()
    written = write_secrets(folder)
    say(f"  secrets {'drawn' if written else 'kept'}: {folder}")
    if ACL in written and len(written) < len(FILES):
        say("  Redis knows a new user after: docker compose restart redis")
    store = open_store(home_of(context).prepare(), lambda line: say(f"  {line}"))
    try:
        images = ensure_stack_images(store, TREE)
        root = str(store.engine.info()["DockerRootDir"])
    except ImageError as error:
        raise HostError(error.message, hint=error.hint) from None
    finally:
        store.client.close()
    settings = {
        "ASSIZE_IMAGE": images[APP],
        "ASSIZE_FLOWER_IMAGE": images[FLOWER],
        "ASSIZE_REDIS_IMAGE": images[REDIS],
        "ASSIZE_POSTGRES_IMAGE": images[POSTGRES],
        "ASSIZE_SECRETS": str(folder),
        "ASSIZE_ENGINE_ROOT": root,
    }
    changed = write_settings(env_file.absolute(), settings)
    if as_json:
        told = {"secrets": str(folder), "drawn": bool(written), "settings": settings, "changed": changed}
        emit(INIT_SCHEMA, told)
        return
    for name, identifier in images.items():
        click.echo(cell(f"{name}  {identifier}"))
    click.echo(cell(f"settings  {env_file}"))
