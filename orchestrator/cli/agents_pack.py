"""`assize agents pack` and `assize agents self-test`: make a bundle of a known agent, and try it out."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from orchestrator.agents import registry
from orchestrator.agents.errors import AgentError
from orchestrator.agents.profile import find_profile, parse_profile
from orchestrator.agents.registry import RegisteredAgent
from orchestrator.cli import completion, exits
from orchestrator.cli.output import DASH, call_of, cell, dash, emit, facts, home_of, json_option, say
from orchestrator.home import Home

if TYPE_CHECKING:  # the engine's client is imported where it is used
    from orchestrator.agents.packing.pack import Packed, Wish
    from orchestrator.screenings.self_test import SelfTest

PACK_SCHEMA: Final = "assize.agents-pack/2"
SELF_TEST_SCHEMA: Final = "assize.agents-self-test/2"
_SOURCES_SHOWN: Final = 5
_MIB: Final = 1 << 20


@click.command("pack", epilog="Next: assize screen PACK --agent AGENT --model MODEL.")
@click.argument("profile", metavar="PROFILE")
@click.option("--version", "version", required=True, metavar="X", help="Exact version in its registry.")
@click.option("--acp", is_flag=True, help="Drive it by the agent client protocol instead of one command.")
@click.option("--label", metavar="TEXT", help="Added to the version, to pack the same one a second time.")
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="IMAGE",
    help="Image to try it in; repeat for more. The Python of the first counts. [default: the base image]",
)
@click.option(
    "--constraints",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="pip constraints file for a Python agent.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Leave the bundle there instead of registering it.",
)
@click.option("--self-test/--no-self-test", "tried", default=True, help="Try it out before it is registered.")
@json_option
@click.pass_context
def pack(context: click.Context, /, **options: Any) -> None:
    """Fetch the agent that PROFILE describes, try it out and register it. The host needs network.

    Nothing that is fetched is run outside of a sandbox. --acp is for profiles that say how. With --out,
    `assize agents add DIR` registers it.

    \b
    Examples:
      assize agents pack codex --version 0.171.0
      assize agents pack mini-swe-agent --version 2.4.6 --out ./mini
    """
    home = home_of(context).prepare()
    out: Path | None = options["out"]
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AgentError(f"{out} exists already", hint="name a folder that does not exist")
    parent = home.cache if out is None else out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=parent) as folder:
        packed = _packed(home, options, Path(folder))
        shown = _facts(packed)
        tests: list[SelfTest] = []
        if options["tried"]:
            revision = packed.parsed.revision
            fresh = RegisteredAgent(revision, revision.digest, packed.parsed.bundle_dir, builtin=False)
            tests = _tried(home, fresh, options["images"])
        good = all(one.passed for one in tests)
        place = None
        if good and out is None:
            registry.register(home, packed.parsed)
        elif good and out is not None and packed.parsed.bundle_dir is not None:
            place = packed.parsed.bundle_dir.rename(out)
    data = {**shown, "registered": good and out is None, "folder": None if place is None else str(place)}
    data["self_tests"] = [asdict(one) for one in tests]
    if options["as_json"]:
        emit(PACK_SCHEMA, data)
    else:
        _show_packed(data, tests, call_of(context))
    context.exit(exits.DONE if good else exits.REFUSED)


@click.command("self-test", epilog="Next: assize screen PACK --agent AGENT --model MODEL.")
@click.argument("agent", shell_complete=completion.agents)
@click.option(
    "--image",
    "images",
    multiple=True,
    metavar="IMAGE",
    help="Image to try it in; repeat for more. [default: the base image]",
)
@click.option(
    "--disk",
    type=click.Choice(["writable", "strict", "loop"]),
    help="Where it may write. [default: strict where this host can, else writable]",
)
@json_option
@click.pass_context
def self_test(
    context: click.Context, agent: str, images: tuple[str, ...], disk: str | None, as_json: bool
) -> None:
    """Try AGENT out on a small scripted task, in a sandbox, without any real model.

    Exit 1 when it does not make the file with the script's number of model calls in every image.

    \b
    Examples:
      assize agents self-test codex
      assize agents self-test claude-code --image assize/base:1 --image assize/base-trixie:1 --json
    """
    home = home_of(context).prepare()
    found = registry.show(home, agent)
    tests = _tried(home, found, images, disk)
    passed = all(one.passed for one in tests)
    if as_json:
        data = {"agent": found.revision.label, "passed": passed, "self_tests": [asdict(one) for one in tests]}
        emit(SELF_TEST_SCHEMA, data)
    else:
        for line in facts([("agent", found.revision.label), *_all_rows(tests)]):
            click.echo(cell(line))
    context.exit(exits.DONE if passed else exits.REFUSED)


def _packed(home: Home, options: dict[str, Any], folder: Path) -> Packed:
    from orchestrator.agents.packing.pack import Wish
    from orchestrator.agents.packing.pack import pack as make

    text = find_profile(options["profile"]).read_text("utf-8")
    profile = parse_profile(text, f"profile {options['profile']}")
    (folder / "bundle").mkdir()
    (folder / "scratch").mkdir()
    wish = Wish(text, options["version"], options["label"], options["constraints"], acp=options["acp"])
    with contextlib.ExitStack() as stack:
        if profile.package.pip is not None:
            wish = _for_python_of(wish, home, next(iter(options["images"]), None), stack)
        return make(wish, folder / "bundle", folder / "scratch", lambda line: say(f"  {line}"))


def _for_python_of(wish: Wish, home: Home, image: str | None, stack: contextlib.ExitStack) -> Wish:
    from orchestrator.agents.packing.interpreter import Interpreter
    from orchestrator.agents.packing.python import ask_image
    from orchestrator.screenings.images import open_store
    from sandbox_images.base import BASE_IMAGE, ensure_base

    store = open_store(home, say)
    stack.callback(store.client.close)
    found = ensure_base(store, image or BASE_IMAGE).id
    return replace(wish, image=ask_image(store.client, found), interpreter=Interpreter(store.client, found))


def _tried(
    home: Home, agent: RegisteredAgent, images: Sequence[str], disk: str | None = None
) -> list[SelfTest]:
    from orchestrator.screenings.installation import Installation
    from orchestrator.screenings.self_test import self_test as run

    installation = Installation.open(home)
    tests = []
    try:
        for image in dict.fromkeys(images or (None,)):
            say(f"  self-test of {agent.revision.label} in {image or 'the base image'}")
            tests.append(run(installation, agent, image, lambda line: say(f"  {line}"), disk))
    finally:
        installation.close()
    return tests


def _facts(packed: Packed) -> dict[str, Any]:
    revision, bundle = packed.parsed.revision, packed.parsed.bundle
    return {
        "agent": revision.label,
        "digest": revision.digest,
        "bundle_digest": revision.bundle_digest,
        "bytes": 0 if bundle is None else bundle.total_bytes,
        "files": 0 if bundle is None else len(bundle.entries),
        "python": packed.facts.python,
        "fetch_ms": packed.fetch_ms,
        "hash_ms": packed.hash_ms,
        "sources": [source.model_dump() for source in packed.facts.sources],
    }


def _show_packed(data: dict[str, Any], tests: Sequence[SelfTest], call: str) -> None:
    names = [f"{one['name']} {one['version']}" for one in data["sources"]]
    more = f" and {len(names) - _SOURCES_SHOWN} more" if len(names) > _SOURCES_SHOWN else ""
    rows = [
        ("agent", data["agent"]),
        ("digest", data["digest"]),
        ("bundle digest", data["bundle_digest"]),
        ("size", f"{data['bytes'] / _MIB:.0f} MiB in {data['files']} files"),
        ("packages", ", ".join(names[:_SOURCES_SHOWN]) + more),
        ("python", dash(data["python"])),
        ("registered", "yes" if data["registered"] else "no"),
        ("folder", dash(data["folder"])),
    ]
    for line in facts(rows + _all_rows(tests)):
        click.echo(cell(line))
    if data["registered"]:
        click.echo(f"next: {call} screen coding-core --agent {data['agent']} --model PROVIDER/MODEL")


def _all_rows(tests: Sequence[SelfTest]) -> list[tuple[str, str]]:
    return [row for one in tests for row in _test_rows(one)]


def _test_rows(found: SelfTest) -> list[tuple[str, str]]:
    refused = ", ".join(f"{count} x {why}" for why, count in sorted(found.refused.items()))
    first = DASH if found.first_call_ms is None else f"{found.first_call_ms / 1000:.1f} s after the start"
    verdict = "passed" if found.passed else f"failed: {found.outcome} ({found.reason})"
    rows = [("image", f"{found.image}, {found.disk} disk"), ("self-test", verdict)]
    if found.why is not None:
        return [*rows, ("because", found.why)]
    return [
        *rows,
        ("file made", "yes" if found.file_made else "no"),
        ("model calls", f"{found.steps}, first {first}"),
        ("refused", refused or "none"),
        ("wall", f"{found.wall_ms / 1000:.1f} s"),
        ("exit code", dash(found.exit_code)),
        ("hosts asked for", ", ".join(found.names_asked) or "none"),
        ("fall-backs", "; ".join(found.fall_backs) or "none"),
    ]
