"""Pack a known agent: fetch, prune, normalise, and write down what it is."""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.agents.bundle import MANIFEST_NAME, read_bundle
from orchestrator.agents.packed import revision_of
from orchestrator.agents.packing import building, npm, python
from orchestrator.agents.packing.client import PackingError
from orchestrator.agents.packing.elf import linked
from orchestrator.agents.packing.interpreter import LEAST_GLIBC, PROGRAM, START, Interpreter
from orchestrator.agents.packing.python import ImagePython
from orchestrator.agents.profile import FILE_NAME, Package, PackedFacts, Profile, Source, parse_profile
from orchestrator.agents.revision import ParsedRevision

_LINKS_SHOWN: Final = 5


@dataclass(frozen=True)
class Packed:
    """A finished bundle folder with its revision; times in milliseconds."""

    parsed: ParsedRevision
    facts: PackedFacts
    fetch_ms: int
    hash_ms: int


@dataclass(frozen=True)
class Wish:
    """What is to be packed: the profile's text, the exact version, a label for a second packing of it.

    `image` says which Python the agent is packed for (None for an agent without Python), `interpreter` takes
    that Python along where the profile's command names it; `constraints` is a pip constraints file. `acp`: it
    is to be driven by the agent client protocol.
    """

    profile: str
    version: str
    label: str | None = None
    constraints: Path | None = None
    image: ImagePython | None = None
    acp: bool = False
    interpreter: Interpreter | None = None


def pack(wish: Wish, folder: Path, scratch: Path, say: Callable[[str], None]) -> Packed:
    """Fill the empty `folder` with the bundle; `scratch` is an empty folder on the same file system.

    Raises `PackingError`, or `AgentError` when what was fetched does not fit the profile.
    """
    profile = parse_profile(wish.profile, "profile")
    if wish.acp and profile.launch.acp is None:
        raise PackingError(f"profile {profile.agent.name} has no [launch.acp] section")
    app = folder / "app"
    app.mkdir(parents=True)
    started = time.monotonic()
    sources = _fetch(profile, wish, app, scratch, say)
    fetched = time.monotonic()
    if wish.interpreter is not None and _brings_python(profile):
        say("taking the image's Python along")
        wish.interpreter.put_into(app)
    _prune(app, profile.package.prune)
    _normalise(app, profile.package.executable)
    if wish.interpreter is not None and _brings_python(profile):
        say("making byte code")
        wish.interpreter.compile(app)
    elif wish.image is not None and not python.compile_site(app, wish.image):
        say(f"no byte code: this host has another Python than the image ({wish.image.version})")
    version = "-".join(filter(None, (wish.version, "acp" if wish.acp else None, wish.label)))
    facts = PackedFacts(
        version=version,
        machine=platform.machine(),
        python=None if wish.image is None else wish.image.version,
        python_from=wish.interpreter.image if wish.interpreter and _brings_python(profile) else None,
        sources=tuple(sources),
        acp=wish.acp,
        **_libc(profile, wish, app),
    )
    text = described(wish.profile, facts)
    (folder / FILE_NAME).write_text(text, "utf-8")
    say("hashing")
    hashing = time.monotonic()
    bundle = read_bundle(folder)
    hash_ms = round((time.monotonic() - hashing) * 1000)
    (folder / MANIFEST_NAME).write_text(bundle.text, "utf-8")
    revision = revision_of(parse_profile(text, FILE_NAME), bundle)
    return Packed(ParsedRevision(revision, folder, bundle), facts, round((fetched - started) * 1000), hash_ms)


def _brings_python(profile: Profile) -> bool:
    """Whether something in the profile starts a Python of the bundle, and not one of the task's image."""
    launch = profile.launch
    texts = [*launch.spoken().argv, *launch.argv, *launch.env.values(), *launch.files.values()]
    return any(f"{{{{bundle}}}}/app/{START}" in text for text in texts)


def _libc(profile: Profile, wish: Wish, app: Path) -> dict[str, str]:
    """The loader and the least glibc of the programs that the agent is started with; empty for static ones.

    Of a Python agent every library counts: which of them it loads is its own business.
    """
    argv = (profile.launch.spoken() if wish.acp else profile.launch).argv
    named = {
        app / part.removeprefix("{{bundle}}/app/") for part in argv if part.startswith("{{bundle}}/app/")
    }
    if _brings_python(profile):
        named |= {app / PROGRAM, *app.rglob("*.so"), *app.rglob("*.so.*")}
    read = (linked(path) for path in named if path.is_file())
    found = [one for one in read if one is not None and one.is_for(platform.machine())]
    loaders = [one.loader for one in found if one.loader is not None]
    versions = [one.glibc for one in found if one.glibc is not None]
    versions += [LEAST_GLIBC] if _brings_python(profile) else []
    if not loaders or not versions:
        return {}
    return {"loader": loaders[0], "glibc": ".".join(map(str, max(versions)))}


def _fetch(
    profile: Profile, wish: Wish, app: Path, scratch: Path, say: Callable[[str], None]
) -> list[Source]:
    if profile.package.pip is not None:
        if wish.image is None:
            raise PackingError(f"{profile.agent.name} needs a Python: name the image it is packed for")
        if not profile.package.runs_on(wish.image.python):
            raise PackingError(
                f"{profile.agent.name} needs Python {profile.package.python}, "
                f"and that of the image is {wish.image.version}",
                hint="name an image that has it: --image IMAGE",
            )
        return _fetch_python(profile.package, profile.package.pip, wish, wish.image, app, scratch, say)
    sources = []
    for package in profile.package.npm:
        say(f"fetching {npm.name_here(package)} {package.version or wish.version}")
        sources.append(npm.fetch(package, wish.version, app, scratch))
    return sources


def _fetch_python(
    package: Package,
    name: str,
    wish: Wish,
    image: ImagePython,
    app: Path,
    scratch: Path,
    say: Callable[[str], None],
) -> list[Source]:
    """The wheels of a Python agent; what the profile names as source is built first, in a sandbox."""
    wheels, built = scratch / "wheels", {}
    if package.build:
        wheels.mkdir()
    for one in package.build:
        if wish.interpreter is None:
            raise PackingError(f"{one.name} has to be built: name the image to build it in")
        say(f"building {one.name} {one.version} from source, in a container without network")
        fetched = building.fetch_listed(scratch / "index")
        built[building.normal_name(one.name)] = building.build(one, wish.interpreter, fetched, wheels)
    say(f"fetching {name} {wish.version} for Python {image.version}")
    known = python.fetch(name, wish.version, image, app, wish.constraints, wheels if built else None)
    return [_as_built(built.get(building.normal_name(source.name)), source) for source in known]


def _as_built(made: Source | None, installed: Source) -> Source:
    """Where an installed package came from: built here, or from the index."""
    if made is not None and made.version != installed.version:
        raise PackingError(
            f"{made.name} {made.version} was built, and {installed.version} of the index was installed"
        )
    return made or installed


def _prune(app: Path, globs: Sequence[str]) -> None:
    for glob in globs:
        for path in sorted(app.glob(glob)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _normalise(app: Path, executable: Sequence[str]) -> None:
    """Modes 0755 and 0644, x bits given back where archives lost them; no leftover byte code."""
    for path in app.rglob("*"):
        if path.is_symlink():
            continue
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    for glob in executable:
        for path in app.glob(glob):
            if path.is_file() and not path.is_symlink():
                path.chmod(0o755)
    outside = [one for one in app.rglob("*") if one.is_symlink() and not one.exists()]
    if outside:
        shown = ", ".join(str(one.relative_to(app)) for one in outside[:_LINKS_SHOWN])
        raise PackingError(f"links of the package lead nowhere: {shown}")


def described(profile: str, facts: PackedFacts) -> str:
    """The text of `assize-agent.toml`: what was packed, then the profile as it was.

    A TOML string and a JSON string without control characters are written the same.
    """
    sources = [
        "  { " + ", ".join(f"{key} = {json.dumps(text)}" for key, text in source.items()) + " },\n"
        for source in (one.model_dump(exclude_none=True) for one in facts.sources)
    ]
    lines = [
        f"{key} = {json.dumps(text)}\n"
        for key, text in facts.model_dump(exclude_defaults=True, exclude={"sources"}).items()
    ]
    return "".join(["[packed]\n", *lines, "sources = [\n", *sources, "]\n\n", profile])
